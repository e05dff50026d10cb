// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The scripted provider, a test double for libibverbs: the objects whose destroys wait for acks
// (CQ, QP, SRQ, WQ).

#include <stdlib.h>

#include "internal.h"

static atomic_uint next_number = 0x11;

// A kernel's handle of an object is not its number.
enum { HANDLES_FROM = 1000 };

// As in libibverbs: equality is waited for, so one ack too many hangs as well; and a thread that is
// cancelled here leaves the mutex locked.
static void wait_for_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
			  uint32_t reported, const uint32_t *completed2, uint32_t reported2)
{
	pthread_mutex_lock(mutex);
	while (*completed != reported || (completed2 && *completed2 != reported2))
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

// ---- CQ -------------------------------------------------------------------------------------

static struct cq *new_cq(struct ibv_context *context, int cqe, void *cq_context,
			 struct ibv_comp_channel *channel)
{
	if (is_gone(context))
		return NULL;

	struct cq *cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;
	cq->cq.context = context;
	cq->cq.channel = channel;
	cq->cq.cq_context = cq_context;
	cq->cq.handle = atomic_fetch_add(&next_number, 1);
	cq->cq.cqe = cqe;
	pthread_mutex_init(&cq->cq.mutex, NULL);
	pthread_cond_init(&cq->cq.cond, NULL);
	poll_init(cq);
	if (channel) {
		pthread_mutex_lock(&context->mutex);
		channel->refcnt++;
		pthread_mutex_unlock(&context->mutex);
	}
	scripted_made(cq, "CQ");
	return cq;
}

HIDDEN struct ibv_cq *behave_ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
					   struct ibv_comp_channel *channel, int comp_vector)
{
	if (comp_vector < 0 || comp_vector >= context->num_comp_vectors || cqe < 1) {
		errno = EINVAL;
		return NULL;
	}
	return (struct ibv_cq *)new_cq(context, cqe, cq_context, channel);
}

HIDDEN struct ibv_cq_ex *behave_vctx_create_cq_ex(struct ibv_context *context,
						  struct ibv_cq_init_attr_ex *attr)
{
	struct cq *cq = new_cq(context, (int)attr->cqe, attr->cq_context, attr->channel);

	if (!cq)
		return NULL;
	cq->extended = true;
	scripted_fill_cq_ex(&cq->cq);
	return &cq->cq;
}

HIDDEN int behave_ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	if (is_gone(cq->context))
		return EIO;
	cq->cqe = cqe;
	return 0;
}

HIDDEN int behave_ibv_destroy_cq(struct ibv_cq *ibv_cq)
{
	struct cq *cq = (struct cq *)ibv_cq;
	struct context *context = context_of(ibv_cq->context);
	struct channel *channel = (struct channel *)ibv_cq->channel;

	if (is_gone(ibv_cq->context)) {
		if (destroy_when_gone())
			return EIO;
	} else {
		uint32_t async = cq->async_sent - queue_take_async(&context->async, cq);
		uint32_t comp = cq->comp_sent;

		if (channel)
			comp -= queue_take_comp(&channel->queue, ibv_cq);
		wait_for_acks(&ibv_cq->mutex, &ibv_cq->cond, &ibv_cq->comp_events_completed, comp,
			      &ibv_cq->async_events_completed, async);
	}
	if (channel) {
		pthread_mutex_lock(&ibv_cq->context->mutex);
		channel->channel.refcnt--;
		pthread_mutex_unlock(&ibv_cq->context->mutex);
	}
	pthread_mutex_destroy(&ibv_cq->mutex);
	pthread_cond_destroy(&ibv_cq->cond);
	poll_fini(cq);
	scripted_unmade(cq, "CQ");
	free(cq);
	return 0;
}

// ---- QP -------------------------------------------------------------------------------------

static struct qp *new_qp(struct ibv_context *context, struct ibv_pd *pd, void *qp_context)
{
	if (is_gone(context))
		return NULL;

	struct qp *qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;
	struct ibv_qp *base = &qp->qp.qp_base;
	base->context = context;
	base->qp_context = qp_context;
	base->pd = pd;
	base->qp_num = atomic_fetch_add(&next_number, 1);
	base->handle = HANDLES_FROM + base->qp_num;
	base->state = IBV_QPS_RESET;
	pthread_mutex_init(&base->mutex, NULL);
	pthread_cond_init(&base->cond, NULL);
	scripted_made(qp, "QP");
	return qp;
}

HIDDEN struct ibv_qp *behave_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct qp *qp = new_qp(pd->context, pd, attr->qp_context);

	if (!qp)
		return NULL;
	qp->init = *attr;
	qp->qp.qp_base.send_cq = attr->send_cq;
	qp->qp.qp_base.recv_cq = attr->recv_cq;
	qp->qp.qp_base.srq = attr->srq;
	qp->qp.qp_base.qp_type = attr->qp_type;
	return &qp->qp.qp_base;
}

// The attributes begin as those of ibv_create_qp do; the header relies on that as well.
HIDDEN struct ibv_qp *behave_vctx_create_qp_ex(struct ibv_context *context,
					       struct ibv_qp_init_attr_ex *attr)
{
	struct qp *qp = new_qp(context, attr->pd, attr->qp_context);

	if (!qp)
		return NULL;
	qp->extended = attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (qp->extended)
		scripted_fill_qp_ex(&qp->qp);
	qp->init = *(struct ibv_qp_init_attr *)attr;
	qp->qp.qp_base.send_cq = attr->send_cq;
	qp->qp.qp_base.recv_cq = attr->recv_cq;
	qp->qp.qp_base.srq = attr->srq;
	qp->qp.qp_base.qp_type = attr->qp_type;
	return &qp->qp.qp_base;
}

HIDDEN struct ibv_qp *behave_vctx_open_qp(struct ibv_context *context,
					  struct ibv_qp_open_attr *attr)
{
	struct qp *qp = new_qp(context, NULL, attr->qp_context);

	if (!qp)
		return NULL;
	qp->qp.qp_base.qp_num = attr->qp_num;
	qp->qp.qp_base.qp_type = attr->qp_type;
	return &qp->qp.qp_base;
}

HIDDEN struct ibv_qp_ex *behave_ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return ((struct qp *)qp)->extended ? &((struct qp *)qp)->qp : NULL;
}

HIDDEN int behave_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (is_gone(qp->context))
		return EIO;
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	return 0;
}

HIDDEN int behave_ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
			       struct ibv_qp_init_attr *init)
{
	(void)mask;
	if (is_gone(qp->context))
		return EIO;
	*attr = (struct ibv_qp_attr){ .qp_state = qp->state, .cur_qp_state = qp->state };
	*init = ((struct qp *)qp)->init;
	return 0;
}

HIDDEN int behave_ibv_destroy_qp(struct ibv_qp *ibv_qp)
{
	struct qp *qp = (struct qp *)ibv_qp;

	if (is_gone(ibv_qp->context)) {
		if (destroy_when_gone())
			return EIO;
	} else {
		struct queue *queue = &context_of(ibv_qp->context)->async;
		uint32_t reported = qp->sent - queue_take_async(queue, qp);

		wait_for_acks(&ibv_qp->mutex, &ibv_qp->cond, &ibv_qp->events_completed, reported,
			      NULL, 0);
	}
	pthread_mutex_destroy(&ibv_qp->mutex);
	pthread_cond_destroy(&ibv_qp->cond);
	scripted_unmade(qp, "QP");
	free(qp);
	return 0;
}

// ---- SRQ ------------------------------------------------------------------------------------

static struct ibv_srq *new_srq(struct ibv_context *context, struct ibv_pd *pd, void *srq_context)
{
	if (is_gone(context))
		return NULL;

	struct srq *srq = calloc(1, sizeof(*srq));
	if (!srq)
		return NULL;
	srq->srq.context = context;
	srq->srq.srq_context = srq_context;
	srq->srq.pd = pd;
	srq->srq.handle = atomic_fetch_add(&next_number, 1);
	pthread_mutex_init(&srq->srq.mutex, NULL);
	pthread_cond_init(&srq->srq.cond, NULL);
	scripted_made(srq, "SRQ");
	return &srq->srq;
}

HIDDEN struct ibv_srq *behave_ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	return new_srq(pd->context, pd, attr->srq_context);
}

HIDDEN struct ibv_srq *behave_vctx_create_srq_ex(struct ibv_context *context,
						 struct ibv_srq_init_attr_ex *attr)
{
	return new_srq(context, attr->pd, attr->srq_context);
}

HIDDEN int behave_vctx_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num)
{
	*srq_num = srq->handle;
	return 0;
}

HIDDEN int behave_ibv_destroy_srq(struct ibv_srq *ibv_srq)
{
	struct srq *srq = (struct srq *)ibv_srq;

	if (is_gone(ibv_srq->context)) {
		if (destroy_when_gone())
			return EIO;
	} else {
		struct queue *queue = &context_of(ibv_srq->context)->async;
		uint32_t reported = srq->sent - queue_take_async(queue, srq);

		wait_for_acks(&ibv_srq->mutex, &ibv_srq->cond, &ibv_srq->events_completed,
			      reported, NULL, 0);
	}
	pthread_mutex_destroy(&ibv_srq->mutex);
	pthread_cond_destroy(&ibv_srq->cond);
	scripted_unmade(srq, "SRQ");
	free(srq);
	return 0;
}

// ---- WQ -------------------------------------------------------------------------------------

// The inline ibv_create_wq of the header makes mutex and condition variable.
HIDDEN struct ibv_wq *behave_vctx_create_wq(struct ibv_context *context,
					    struct ibv_wq_init_attr *attr)
{
	if (is_gone(context))
		return NULL;

	struct wq *wq = calloc(1, sizeof(*wq));
	if (!wq)
		return NULL;
	wq->wq.context = context;
	wq->wq.pd = attr->pd;
	wq->wq.cq = attr->cq;
	wq->wq.wq_type = attr->wq_type;
	wq->wq.wq_num = atomic_fetch_add(&next_number, 1);
	wq->wq.handle = HANDLES_FROM + wq->wq.wq_num;
	scripted_fill_wq(&wq->wq);
	scripted_made(wq, "WQ");
	return &wq->wq;
}

HIDDEN int behave_vctx_destroy_wq(struct ibv_wq *ibv_wq)
{
	struct wq *wq = (struct wq *)ibv_wq;

	if (is_gone(ibv_wq->context)) {
		if (destroy_when_gone())
			return EIO;
	} else {
		struct queue *queue = &context_of(ibv_wq->context)->async;
		uint32_t reported = wq->sent - queue_take_async(queue, wq);

		wait_for_acks(&ibv_wq->mutex, &ibv_wq->cond, &ibv_wq->events_completed, reported,
			      NULL, 0);
	}
	pthread_mutex_destroy(&ibv_wq->mutex);
	pthread_cond_destroy(&ibv_wq->cond);
	scripted_unmade(wq, "WQ");
	free(wq);
	return 0;
}
