// SPDX-License-Identifier: MIT OR Apache-2.0
//
// threads64 [SECONDS [DEVICE [GID-INDEX [THREADS]]]]: many threads that each, again and again, open the
// device, make a PD, a channel, CQs, an SRQ and two connected QPs, exchange messages between these, take
// completion events and one asynchronous event, and take everything apart. Prints the exact totals, for
// comparison with what others counted.
// Built with: cc -O1 -g -pthread threads64.c -libverbs

#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	MESSAGES = 4,
	MESSAGE_LENGTH = 64,
	GRACE_SECONDS = 90, // for the rounds under way when the time is up
};

struct totals {
	atomic_ulong rounds;
	atomic_ulong completions;
	atomic_ulong comp_events;
	atomic_ulong async_events;
};

struct worker {
	pthread_t thread;
	const char *_Atomic doing; // what a watchdog names when it barks
};

static struct totals totals;
static const char *device_name = "rxe0";
static int gid_index = 1;
static double stop_at;
static atomic_int running;

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		me->doing = #condition;                                                            \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: %s failed: %s\n", __FILE__, __LINE__, #condition,  \
				strerror(errno));                                                  \
			_exit(3);                                                                  \
		}                                                                                  \
	} while (0)

static struct ibv_context *open_device(void)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (struct ibv_device **device = list; device && *device; device++) {
		if (strcmp(ibv_get_device_name(*device), device_name) == 0)
			context = ibv_open_device(*device);
	}
	if (list)
		ibv_free_device_list(list);
	return context;
}

static int to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rts(struct ibv_qp *qp, const struct ibv_qp *peer, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1 },
	};

	attr.ah_attr.grh.dgid = *gid;
	attr.ah_attr.grh.sgid_index = gid_index;
	attr.ah_attr.grh.hop_limit = 2;
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		return -1;
	attr.qp_state = IBV_QPS_RTS;
	// The longest patience: 64 threads share two slow processors.
	attr.timeout = 18;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	return ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

// Takes completion events until both CQs together gave all completions.
static void take_completions(struct worker *me, struct ibv_comp_channel *channel, int expected)
{
	int seen = 0;

	while (seen < expected) {
		struct ibv_wc wc[2];
		struct ibv_cq *cq;
		void *cookie;
		int count;

		REQUIRE(ibv_get_cq_event(channel, &cq, &cookie) == 0);
		totals.comp_events++;
		ibv_ack_cq_events(cq, 1);
		REQUIRE(ibv_req_notify_cq(cq, 0) == 0);
		while ((count = ibv_poll_cq(cq, 2, wc)) > 0) {
			for (int i = 0; i < count; i++)
				REQUIRE(wc[i].status == IBV_WC_SUCCESS);
			seen += count;
		}
		REQUIRE(count == 0);
	}
	totals.completions += seen;
}

static void take_limit_event(struct worker *me, struct ibv_context *context, struct ibv_srq *srq)
{
	struct ibv_async_event event;

	do {
		REQUIRE(ibv_get_async_event(context, &event) == 0);
		totals.async_events++;
		ibv_ack_async_event(&event);
	} while (event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED || event.element.srq != srq);
}

static void one_round(struct worker *me)
{
	char buffer[2][MESSAGE_LENGTH] = { { 0 } };
	union ibv_gid gid;

	struct ibv_context *context;
	REQUIRE((context = open_device()));
	REQUIRE(ibv_query_gid(context, 1, gid_index, &gid) == 0);
	struct ibv_pd *pd;
	REQUIRE((pd = ibv_alloc_pd(context)));
	struct ibv_mr *mr;
	REQUIRE((mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE)));
	struct ibv_comp_channel *channel;
	REQUIRE((channel = ibv_create_comp_channel(context)));
	struct ibv_cq *send_cq;
	REQUIRE((send_cq = ibv_create_cq(context, 16, NULL, channel, 0)));
	struct ibv_cq *recv_cq;
	REQUIRE((recv_cq = ibv_create_cq(context, 16, NULL, channel, 0)));
	REQUIRE(ibv_req_notify_cq(send_cq, 0) == 0);
	REQUIRE(ibv_req_notify_cq(recv_cq, 0) == 0);
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq *srq;
	REQUIRE((srq = ibv_create_srq(pd, &srq_attr)));
	struct ibv_qp_init_attr qp_attr = {
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.srq = srq,
		.cap = { .max_send_wr = 16, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_qp *a;
	REQUIRE((a = ibv_create_qp(pd, &qp_attr)));
	struct ibv_qp *b;
	REQUIRE((b = ibv_create_qp(pd, &qp_attr)));
	REQUIRE(to_init(a) == 0);
	REQUIRE(to_init(b) == 0);

	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = { (uintptr_t)buffer[1], MESSAGE_LENGTH, mr->lkey };
		struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
		struct ibv_recv_wr *bad;

		REQUIRE(ibv_post_srq_recv(srq, &wr, &bad) == 0);
	}
	struct ibv_srq_attr limit = { .srq_limit = MESSAGES };
	REQUIRE(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == 0);
	REQUIRE(to_rts(a, b, &gid) == 0);
	REQUIRE(to_rts(b, a, &gid) == 0);
	for (int i = 0; i < MESSAGES; i++) {
		struct ibv_sge sge = { (uintptr_t)buffer[0], MESSAGE_LENGTH, mr->lkey };
		struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
		struct ibv_send_wr *bad;

		REQUIRE(ibv_post_send(i % 2 ? b : a, &wr, &bad) == 0);
	}

	take_completions(me, channel, 2 * MESSAGES);
	take_limit_event(me, context, srq);

	REQUIRE(ibv_destroy_qp(a) == 0);
	REQUIRE(ibv_destroy_qp(b) == 0);
	REQUIRE(ibv_destroy_srq(srq) == 0);
	REQUIRE(ibv_destroy_cq(send_cq) == 0);
	REQUIRE(ibv_destroy_cq(recv_cq) == 0);
	REQUIRE(ibv_destroy_comp_channel(channel) == 0);
	REQUIRE(ibv_dereg_mr(mr) == 0);
	REQUIRE(ibv_dealloc_pd(pd) == 0);
	REQUIRE(ibv_close_device(context) == 0);
	totals.rounds++;
	me->doing = "between rounds";
}

static void *work(void *argument)
{
	struct worker *me = argument;

	// At least one round, however slow the machine.
	do
		one_round(me);
	while (now() < stop_at);
	running--;
	return NULL;
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 10;
	int threads = argc > 4 ? atoi(argv[4]) : 64;
	struct worker *workers = calloc(threads, sizeof(*workers));

	if (argc > 2)
		device_name = argv[2];
	if (argc > 3)
		gid_index = atoi(argv[3]);
	if (!workers)
		return 3;
	stop_at = now() + seconds;
	running = threads;
	for (int i = 0; i < threads; i++) {
		workers[i].doing = "not started";
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
			fprintf(stderr, "thread %d cannot be made\n", i);
			return 3;
		}
	}
	while (running > 0) {
		poll(NULL, 0, 100);
		if (now() < stop_at + GRACE_SECONDS)
			continue;
		for (int i = 0; i < threads; i++)
			fprintf(stderr, "thread %d is in: %s\n", i, workers[i].doing);
		_exit(4);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	free(workers);
	printf("threads %d rounds %lu completions %lu comp_events %lu async_events %lu\n", threads,
	       totals.rounds, totals.completions, totals.comp_events, totals.async_events);
	return 0;
}
