/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A bench double for libibverbs.so.1: the least that a call can cost, so that what a shim adds to it
 * stands out. It has only the functions that calls.c measures, and no device.
 *
 *   poll      every poll of a CQ finds as many completions as the CQ was made with room for, all of
 *             receives of the first QP
 *   get       one read(), as in libibverbs, but of /dev/zero: there is always an event, and nobody
 *             has to produce it
 *   ack       the object's mutex, counter and condition variable, as in libibverbs
 *   the rest  returns at once
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct cq {
	struct ibv_cq cq; /* must be first */
	int ready;
	uint32_t qp_num; /* whose completions it has: each CQ another's, as in a program */
};

struct channel {
	struct ibv_comp_channel channel; /* must be first */
	struct ibv_cq *cq;
};

static struct ibv_device the_device = {
	.node_type = IBV_NODE_CA,
	.transport_type = IBV_TRANSPORT_IB,
	.name = "bench0",
};

static uint32_t next_qp_num = 1;

/* All asynchronous events are about the QP. */
static struct ibv_qp the_qp;

static int poll_cq(struct ibv_cq *ibv_cq, int num_entries, struct ibv_wc *wc)
{
	int ready = ((struct cq *)ibv_cq)->ready;
	int n = ready < num_entries ? ready : num_entries;
	uint32_t qp_num = ((struct cq *)ibv_cq)->qp_num;

	for (int i = 0; i < n; i++) {
		wc[i].wr_id = (uint64_t)i;
		wc[i].status = IBV_WC_SUCCESS;
		wc[i].opcode = IBV_WC_RECV;
		wc[i].byte_len = 64;
		wc[i].qp_num = qp_num;
		wc[i].wc_flags = 0;
	}
	return n;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	(void)qp;
	(void)wr;
	(void)bad_wr;
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	(void)qp;
	(void)wr;
	(void)bad_wr;
	return 0;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = calloc(2, sizeof(struct ibv_device *));

	if (!list)
		return NULL;
	list[0] = &the_device;
	if (num_devices)
		*num_devices = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct verbs_context *extended = calloc(1, sizeof(*extended));

	if (!extended)
		return NULL;
	extended->sz = sizeof(*extended);
	extended->context.device = device;
	extended->context.ops.poll_cq = poll_cq;
	extended->context.ops.post_recv = post_recv;
	extended->context.ops.post_send = post_send;
	extended->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	extended->context.num_comp_vectors = 1;
	extended->context.async_fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (extended->context.async_fd < 0) {
		free(extended);
		return NULL;
	}
	return &extended->context;
}

int ibv_close_device(struct ibv_context *context)
{
	close(context->async_fd);
	free(verbs_get_ctx(context));
	return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->channel.context = context;
	channel->channel.fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	if (channel->channel.fd < 0) {
		free(channel);
		return NULL;
	}
	return &channel->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	free(channel);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct cq *cq = calloc(1, sizeof(*cq));

	(void)comp_vector;
	if (!cq)
		return NULL;
	cq->cq.context = context;
	cq->cq.channel = channel;
	cq->cq.cq_context = cq_context;
	cq->cq.cqe = cqe;
	cq->ready = cqe;
	cq->qp_num = next_qp_num++;
	pthread_mutex_init(&cq->cq.mutex, NULL);
	pthread_cond_init(&cq->cq.cond, NULL);
	if (channel)
		((struct channel *)channel)->cq = &cq->cq;
	return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	pthread_cond_destroy(&cq->cond);
	pthread_mutex_destroy(&cq->mutex);
	free(cq);
	return 0;
}

/* There is one, whose CQs are of its context: the PD is not looked into. */
struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	(void)pd;
	the_qp.context = attr->send_cq->context;
	the_qp.send_cq = attr->send_cq;
	the_qp.recv_cq = attr->recv_cq;
	the_qp.qp_type = attr->qp_type;
	the_qp.qp_num = ((struct cq *)attr->send_cq)->qp_num;
	pthread_mutex_init(&the_qp.mutex, NULL);
	pthread_cond_init(&the_qp.cond, NULL);
	return &the_qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	pthread_cond_destroy(&qp->cond);
	pthread_mutex_destroy(&qp->mutex);
	return 0;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	char record[16];

	if (read(context->async_fd, record, sizeof(record)) != sizeof(record))
		return -1;
	event->event_type = IBV_EVENT_COMM_EST;
	event->element.qp = &the_qp;
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_qp *qp = event->element.qp;

	pthread_mutex_lock(&qp->mutex);
	qp->events_completed++;
	pthread_cond_signal(&qp->cond);
	pthread_mutex_unlock(&qp->mutex);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	char record[8];

	if (read(channel->fd, record, sizeof(record)) != sizeof(record))
		return -1;
	*cq = ((struct channel *)channel)->cq;
	*cq_context = (*cq)->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	(void)srq;
	(void)attr;
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	(void)context;
	(void)attr;
	return 0;
}
