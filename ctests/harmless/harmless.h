/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the programs of this folder share. Each shows one behaviour, prints what it saw, and must
 * print the same with the shim as without it. Events come from the scripted provider, a test double.
 */
#ifndef HARMLESS_H
#define HARMLESS_H

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scripted.h"

#define UNUSED __attribute__((unused))

/* stdio's locks may be held by a thread that a child does not have: straight to the descriptor. */
#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			dprintf(2, "%s:%d: not true: %s (errno %d)\n", __FILE__, __LINE__,         \
				#condition, errno);                                                \
			_exit(99);                                                                 \
		}                                                                                  \
	} while (0)

/* The first device, opened. */
UNUSED static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	REQUIRE(list && list[0]);
	struct ibv_context *context = ibv_open_device(list[0]);
	REQUIRE(context);
	ibv_free_device_list(list);
	return context;
}

/* One of each object that takes events. */
struct objects {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
};

UNUSED static struct objects make_objects(struct ibv_context *context)
{
	struct objects o = { .context = context };
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 16, .max_sge = 1 } };

	REQUIRE(o.pd = ibv_alloc_pd(context));
	REQUIRE(o.channel = ibv_create_comp_channel(context));
	REQUIRE(o.cq = ibv_create_cq(context, 16, NULL, o.channel, 0));
	REQUIRE(o.srq = ibv_create_srq(o.pd, &srq_attr));
	struct ibv_qp_init_attr qp_attr = {
		.send_cq = o.cq,
		.recv_cq = o.cq,
		.srq = o.srq,
		.cap = { .max_send_wr = 4, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	REQUIRE(o.qp = ibv_create_qp(o.pd, &qp_attr));
	return o;
}

UNUSED static void destroy_objects(const struct objects *o)
{
	REQUIRE(ibv_destroy_qp(o->qp) == 0);
	REQUIRE(ibv_destroy_srq(o->srq) == 0);
	REQUIRE(ibv_destroy_cq(o->cq) == 0);
	REQUIRE(ibv_destroy_comp_channel(o->channel) == 0);
	REQUIRE(ibv_dealloc_pd(o->pd) == 0);
}

UNUSED static void get_and_ack_async(struct ibv_context *context, int type)
{
	struct ibv_async_event event;

	REQUIRE(ibv_get_async_event(context, &event) == 0);
	REQUIRE((int)event.event_type == type);
	ibv_ack_async_event(&event);
}

/* One round: objects are made, four asynchronous events, one completion event and three completions
 * (one of them failed) are taken, all is acked, all is destroyed. The tests count in rounds. */
UNUSED static void one_round(struct ibv_context *context)
{
	struct objects o = make_objects(context);
	struct ibv_wc wc[3] = { { .status = IBV_WC_WR_FLUSH_ERR } }, polled[8];
	struct ibv_cq *cq;
	void *cq_context;

	REQUIRE(scripted_async(context, IBV_EVENT_COMM_EST, o.qp) == 0);
	REQUIRE(scripted_async(context, IBV_EVENT_SQ_DRAINED, o.qp) == 0);
	REQUIRE(scripted_async(context, IBV_EVENT_SRQ_LIMIT_REACHED, o.srq) == 0);
	REQUIRE(scripted_async(context, IBV_EVENT_PORT_ACTIVE, (void *)1) == 0);
	get_and_ack_async(context, IBV_EVENT_COMM_EST);
	get_and_ack_async(context, IBV_EVENT_SQ_DRAINED);
	get_and_ack_async(context, IBV_EVENT_SRQ_LIMIT_REACHED);
	get_and_ack_async(context, IBV_EVENT_PORT_ACTIVE);

	REQUIRE(scripted_comp(o.channel, o.cq) == 0);
	REQUIRE(ibv_get_cq_event(o.channel, &cq, &cq_context) == 0);
	REQUIRE(cq == o.cq);
	ibv_ack_cq_events(cq, 1);

	REQUIRE(ibv_poll_cq(o.cq, 8, polled) == 0);
	REQUIRE(scripted_wc(o.cq, wc, 3) == 0);
	REQUIRE(ibv_poll_cq(o.cq, 8, polled) == 3);
	destroy_objects(&o);
}

UNUSED static void *round_thread(void *context)
{
	one_round(context);
	return NULL;
}

/* What must still work after anything: another thread gets, acks and destroys on the context. */
UNUSED static void round_in_another_thread(struct ibv_context *context)
{
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, round_thread, context) == 0);
	REQUIRE(pthread_join(thread, NULL) == 0);
	printf("another thread: one round\n");
	fflush(stdout);
}

/* A whole life: a context is opened, one round, closed. */
UNUSED static void open_round_close(void)
{
	struct ibv_context *context = open_first();

	one_round(context);
	REQUIRE(ibv_close_device(context) == 0);
}

/* ---- a thread that is blocked --------------------------------------------------------------- */

/* Set by a thread right before the call that will block; 0 until then. */
static volatile pid_t blocking_thread;

UNUSED static void i_am_about_to_block(void)
{
	blocking_thread = (pid_t)syscall(SYS_gettid);
}

static bool is_asleep(pid_t tid)
{
	char path[64], text[512];
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
	FILE *file = fopen(path, "re");

	if (!file)
		return false;
	size_t length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = 0;
	char *state = strrchr(text, ')');
	return state && state[1] && state[2] == 'S';
}

/* Waits until that thread sleeps and stays asleep. */
UNUSED static void wait_until_blocked(void)
{
	for (int seen = 0; seen < 4; usleep(2000))
		seen = blocking_thread && is_asleep(blocking_thread) ? seen + 1 : 0;
}

#endif
