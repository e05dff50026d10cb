/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the programs of this folder share. Each is right or wrong in one way with events and their acks, and
 * prints what it knows of itself, KEY=VALUE on a line, so that a test can compare with what libibv_sa
 * says of it. Events come from the scripted provider, a test double.
 *
 * A "thing" is an object together with the kind of event that it gets. Its FORM on the command line is
 * qp, qp_ex, open_qp, cq, cq_ex, comp, comp_ex, srq, srq_ex or wq; comp is a CQ with completion events.
 */
#ifndef LEDGER_H
#define LEDGER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <time.h>

#include "harmless/harmless.h"

enum kind { QP, CQ, COMP, SRQ, WQ };

struct thing {
	const char *form;
	enum kind kind;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq; /* of a QP and a WQ: what they complete to */
	union {
		void *address;
		struct ibv_qp *qp;
		struct ibv_cq *its_cq;
		struct ibv_srq *srq;
		struct ibv_wq *wq;
	};
};

UNUSED static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

UNUSED static void sleep_ms(long ms)
{
	struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

/* One line, straight to the descriptor: what was said before a hang is not lost. */
__attribute__((format(printf, 1, 2))) UNUSED static void say(const char *format, ...)
{
	char line[512];
	va_list args;

	va_start(args, format);
	int n = vsnprintf(line, sizeof(line) - 1, format, args);
	va_end(args);
	line[n++] = '\n';
	REQUIRE(write(1, line, (size_t)n) == n);
}

UNUSED static void i_am_called(const char *name)
{
	REQUIRE(prctl(PR_SET_NAME, name) == 0);
}

/* KEY=thread TID (NAME), as the library calls a thread. */
UNUSED static void say_thread(const char *key)
{
	char name[16] = "";

	prctl(PR_GET_NAME, name);
	say("%s=thread %d (%s)", key, (int)syscall(SYS_gettid), name);
}

UNUSED static int type_of(const struct thing *t, int i)
{
	static const int of_qp[] = {
		IBV_EVENT_SQ_DRAINED,  IBV_EVENT_COMM_EST, IBV_EVENT_QP_ACCESS_ERR,
		IBV_EVENT_QP_REQ_ERR,  IBV_EVENT_PATH_MIG, IBV_EVENT_QP_LAST_WQE_REACHED,
		IBV_EVENT_PATH_MIG_ERR, IBV_EVENT_QP_FATAL,
	};

	switch (t->kind) {
	case QP:
		return of_qp[i % 8];
	case SRQ:
		return i % 2 ? IBV_EVENT_SRQ_ERR : IBV_EVENT_SRQ_LIMIT_REACHED;
	case WQ:
		return IBV_EVENT_WQ_FATAL;
	default:
		return IBV_EVENT_CQ_ERR;
	}
}

/* KEY=..., as the library calls an object. */
UNUSED static void say_thing(const char *key, const struct thing *t)
{
	const char *device = ibv_get_device_name(t->context->device);

	switch (t->kind) {
	case QP:
		say("%s=QP qp_num %u (handle %u, %s)", key, t->qp->qp_num, t->qp->handle, device);
		break;
	case SRQ:
		say("%s=SRQ handle %u (%s)", key, t->srq->handle, device);
		break;
	case WQ:
		say("%s=WQ wq_num %u (handle %u, %s)", key, t->wq->wq_num, t->wq->handle, device);
		break;
	default:
		say("%s=CQ handle %u (%s)", key, t->its_cq->handle, device);
	}
}

static struct ibv_cq *new_cq(struct thing *t, bool extended)
{
	if (!extended)
		return ibv_create_cq(t->context, 64, NULL, t->channel, 0);

	struct ibv_cq_init_attr_ex attr = { .cqe = 64, .channel = t->channel };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(t->context, &attr);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static struct ibv_qp *new_qp(struct thing *t)
{
	if (!strcmp(t->form, "open_qp")) {
		struct ibv_qp_open_attr attr = { .comp_mask = IBV_QP_OPEN_ATTR_NUM, .qp_num = 0x777 };

		return ibv_open_qp(t->context, &attr);
	}
	if (!strcmp(t->form, "qp_ex")) {
		struct ibv_qp_init_attr_ex attr = {
			.send_cq = t->cq,
			.recv_cq = t->cq,
			.qp_type = IBV_QPT_RC,
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			.pd = t->pd,
			.send_ops_flags = IBV_QP_EX_WITH_SEND,
		};

		return ibv_create_qp_ex(t->context, &attr);
	}
	struct ibv_qp_init_attr attr = { .send_cq = t->cq, .recv_cq = t->cq, .qp_type = IBV_QPT_RC };

	return ibv_create_qp(t->pd, &attr);
}

static struct ibv_srq *new_srq(struct thing *t)
{
	if (!strcmp(t->form, "srq_ex")) {
		struct ibv_srq_init_attr_ex attr = {
			.attr = { .max_wr = 16, .max_sge = 1 },
			.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
			.srq_type = IBV_SRQT_TM,
			.pd = t->pd,
		};

		return ibv_create_srq_ex(t->context, &attr);
	}
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };

	return ibv_create_srq(t->pd, &attr);
}

/* The object alone; what it needs (PD, channel, CQ) is there. */
static void create(struct thing *t)
{
	struct ibv_wq_init_attr attr = { .wq_type = IBV_WQT_RQ, .max_wr = 16, .max_sge = 1 };

	switch (t->kind) {
	case QP:
		t->qp = new_qp(t);
		break;
	case SRQ:
		t->srq = new_srq(t);
		break;
	case WQ:
		attr.pd = t->pd;
		attr.cq = t->cq;
		t->wq = ibv_create_wq(t->context, &attr);
		break;
	default:
		t->its_cq = new_cq(t, strstr(t->form, "_ex"));
	}
	REQUIRE(t->address);
}

static enum kind kind_of(const char *form)
{
	if (strstr(form, "qp"))
		return QP;
	if (!strncmp(form, "srq", 3))
		return SRQ;
	if (!strcmp(form, "wq"))
		return WQ;
	return !strncmp(form, "comp", 4) ? COMP : CQ;
}

UNUSED static struct thing make_on(struct ibv_context *context, const char *form)
{
	struct thing t = { .form = form, .kind = kind_of(form), .context = context };

	REQUIRE(t.pd = ibv_alloc_pd(context));
	REQUIRE(t.channel = ibv_create_comp_channel(context));
	if (t.kind == QP || t.kind == WQ)
		REQUIRE(t.cq = new_cq(&t, false));
	create(&t);
	return t;
}

/* A thing on the first device. */
UNUSED static struct thing make(const char *form)
{
	return make_on(open_first(), form);
}

UNUSED static int destroy(const struct thing *t)
{
	switch (t->kind) {
	case QP:
		return ibv_destroy_qp(t->qp);
	case SRQ:
		return ibv_destroy_srq(t->srq);
	case WQ:
		return ibv_destroy_wq(t->wq);
	default:
		return ibv_destroy_cq(t->its_cq);
	}
}

/* As the scripted provider calls it. */
UNUSED static const char *destroy_function(const struct thing *t)
{
	switch (t->kind) {
	case QP:
		return "ibv_destroy_qp";
	case SRQ:
		return "ibv_destroy_srq";
	case WQ:
		return "vctx.destroy_wq";
	default:
		return "ibv_destroy_cq";
	}
}

/* Destroys it and says what came of it and after how long: destroyed=RET, waited=SECONDS. */
UNUSED static int destroy_and_say(const struct thing *t)
{
	double start = now();
	int ret = destroy(t);

	say("waited=%.2f", now() - start);
	say("destroyed=%d", ret);
	return ret;
}

/* What the object needed. */
static void close_rest(const struct thing *t)
{
	if (t->cq)
		REQUIRE(ibv_destroy_cq(t->cq) == 0);
	REQUIRE(ibv_destroy_comp_channel(t->channel) == 0);
	REQUIRE(ibv_dealloc_pd(t->pd) == 0);
}

/* The same, and the context. */
UNUSED static void close_all(const struct thing *t)
{
	close_rest(t);
	REQUIRE(ibv_close_device(t->context) == 0);
	say("alive=%d", scripted_alive());
}

/* Queues its i-th event. */
UNUSED static void inject(const struct thing *t, int i)
{
	if (t->kind == COMP)
		REQUIRE(scripted_comp(t->channel, t->its_cq) == 0);
	else
		REQUIRE(scripted_async(t->context, type_of(t, i), t->address) == 0);
}

/* As if the i-th event had been got. */
UNUSED static struct ibv_async_event event_of(const struct thing *t, int i)
{
	struct ibv_async_event event = { .event_type = (enum ibv_event_type)type_of(t, i) };

	event.element.qp = t->address;
	return event;
}

/* Gets the i-th event, which is the next one. */
UNUSED static struct ibv_async_event take(const struct thing *t, int i)
{
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *cq_context;

	if (t->kind == COMP) {
		REQUIRE(ibv_get_cq_event(t->channel, &cq, &cq_context) == 0);
		REQUIRE(cq == t->its_cq);
		return event_of(t, i);
	}
	REQUIRE(ibv_get_async_event(t->context, &event) == 0);
	REQUIRE((int)event.event_type == type_of(t, i));
	REQUIRE((void *)event.element.qp == t->address);
	return event;
}

UNUSED static struct ibv_async_event inject_and_take(const struct thing *t, int i)
{
	inject(t, i);
	return take(t, i);
}

UNUSED static void ack(const struct thing *t, const struct ibv_async_event *event)
{
	struct ibv_async_event copy = *event;

	if (t->kind == COMP)
		ibv_ack_cq_events(t->its_cq, 1);
	else
		ibv_ack_async_event(&copy);
}

#endif
