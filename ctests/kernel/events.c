// SPDX-License-Identifier: MIT OR Apache-2.0
//
// events MODE [DEVICE [GID-INDEX]]: bring about one kind of asynchronous event or failed completion on
// a device (Soft-RoCE is meant), and print what arrives. The last two modes only look on:
//   hold   set everything up, then wait until standard input ends; for events injected from outside
//   watch  open the device only and wait likewise
// Built with: cc -O1 -g -pthread events.c -libverbs

#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "require.h"

enum {
	FULL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		      IBV_ACCESS_REMOTE_ATOMIC,
	WRONG_KEY = 0x5a00,
	CQ_SIZE = 256,
	RECEIVES = 64,
	SRQ_RECEIVES = 10,
	SETTLE_US = 600000, // how long an event may take to arrive on a slow machine
	SLOW_FAILURE_US = 1500000, // retries exhausted
};

// Two connected QPs of one process: a sends to b.
struct scene {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *a_cq;
	struct ibv_cq *b_cq;
	struct ibv_srq *srq;
	struct ibv_qp *a;
	struct ibv_qp *b;
};

// How a mode's scene differs from the usual one.
struct wants {
	int a_cqe; // 0: CQ_SIZE
	int receive_length; // 0: 1024
	bool srq;
	bool b_without_remote_access;
	bool b_stays_rtr;
};

struct mode {
	const char *name;
	struct wants wants;
	void (*act)(struct scene *scene);
};

static char buffer[65536] __attribute__((aligned(4096)));
static char *const remote_area = buffer + 16384;
static char *const receive_area = buffer + 32768;
static int gid_index = 1;
static union ibv_gid gid;

static void describe(const struct ibv_async_event *event)
{
	printf("event %d (%s)", event->event_type, ibv_event_type_str(event->event_type));
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		printf(" on the cq with context %p", event->element.cq->cq_context);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		printf(" on the qp with context %p", event->element.qp->qp_context);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		printf(" on the srq with context %p", event->element.srq->srq_context);
		break;
	default:
		printf(" on port %d", event->element.port_num);
	}
	printf("\n");
	fflush(stdout);
}

// Ends by pthread_cancel, as event threads of real programs do. Only the get can be cancelled, so that
// no event stays without its ack.
static void *take_events(void *argument)
{
	struct ibv_context *context = argument;
	struct ibv_async_event event;

	while (ibv_get_async_event(context, &event) == 0) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
		describe(&event);
		ibv_ack_async_event(&event);
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	}
	printf("ibv_get_async_event: %s\n", strerror(errno));
	return NULL;
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list = ibv_get_device_list(NULL);

	REQUIRE(list);
	for (struct ibv_device **device = list; *device; device++) {
		if (strcmp(ibv_get_device_name(*device), name) == 0)
			context = ibv_open_device(*device);
	}
	REQUIRE(context);
	ibv_free_device_list(list);
	return context;
}

static struct ibv_qp *make_qp(struct scene *scene, struct ibv_cq *send_cq, struct ibv_srq *srq,
			      void *cookie)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = cookie,
		.send_cq = send_cq,
		.recv_cq = scene->b_cq,
		.srq = srq,
		.cap = { .max_send_wr = 128, .max_recv_wr = 128, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = ibv_create_qp(scene->pd, &attr);

	REQUIRE(qp);
	return qp;
}

static void to_init(struct ibv_qp *qp, int access)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = access,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

	REQUIRE(ibv_modify_qp(qp, &attr, mask) == 0);
}

static void to_rtr(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.ah_attr = { .is_global = 1, .port_num = 1 },
	};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

	attr.ah_attr.grh.dgid = gid;
	attr.ah_attr.grh.sgid_index = gid_index;
	attr.ah_attr.grh.hop_limit = 2;
	REQUIRE(ibv_modify_qp(qp, &attr, mask) == 0);
}

static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 10,
		.retry_cnt = 3,
		.rnr_retry = 3,
		.max_rd_atomic = 4,
	};
	int mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		   IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

	REQUIRE(ibv_modify_qp(qp, &attr, mask) == 0);
}

static void connect_pair(struct ibv_qp *a, struct ibv_qp *b, bool b_stays_rtr)
{
	to_rtr(a, b);
	to_rts(a);
	to_rtr(b, a);
	if (!b_stays_rtr)
		to_rts(b);
}

static int post_send(struct scene *scene, struct ibv_qp *qp, enum ibv_wr_opcode opcode, int length,
		     const char *remote, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)buffer, length, scene->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 5,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct ibv_send_wr *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)remote;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(qp, &wr, &bad);
}

static void send_to(struct scene *scene, struct ibv_qp *qp, int length)
{
	REQUIRE(post_send(scene, qp, IBV_WR_SEND, length, NULL, 0) == 0);
}

static void remote_operation(struct scene *scene, enum ibv_wr_opcode opcode, int length,
			     const char *remote, uint32_t rkey)
{
	REQUIRE(post_send(scene, scene->a, opcode, length, remote, rkey) == 0);
}

static void post_receive(struct scene *scene, struct ibv_qp *qp, int length)
{
	struct ibv_sge sge = { (uintptr_t)receive_area, length, scene->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	if (qp)
		REQUIRE(ibv_post_recv(qp, &wr, &bad) == 0);
	else
		REQUIRE(ibv_post_srq_recv(scene->srq, &wr, &bad) == 0);
}

static void print_state(struct ibv_qp *qp, const char *name)
{
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;

	REQUIRE(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
	printf("qp %s: state %d\n", name, attr.qp_state);
}

static void print_completions(struct ibv_cq *cq, const char *name)
{
	struct ibv_wc wc;
	int count = 0;

	while (count < CQ_SIZE && ibv_poll_cq(cq, 1, &wc) > 0) {
		count++;
		if (wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR)
			printf("completion on %s: status %d (%s)\n", name, wc.status,
			       ibv_wc_status_str(wc.status));
	}
	printf("completions on %s: %d\n", name, count);
}

static void comm_est(struct scene *scene)
{
	send_to(scene, scene->a, 64);
}

static void cq_err(struct scene *scene)
{
	for (int i = 0; i < 40; i++)
		send_to(scene, scene->a, 64);
}

static void too_long(struct scene *scene)
{
	send_to(scene, scene->a, 512);
}

static void bad_rkey_write(struct scene *scene)
{
	remote_operation(scene, IBV_WR_RDMA_WRITE, 64, remote_area, scene->mr->rkey ^ WRONG_KEY);
}

static void bad_rkey_read(struct scene *scene)
{
	remote_operation(scene, IBV_WR_RDMA_READ, 64, remote_area, scene->mr->rkey ^ WRONG_KEY);
}

static void bad_address_write(struct scene *scene)
{
	remote_operation(scene, IBV_WR_RDMA_WRITE, 64, remote_area + (1 << 24), scene->mr->rkey);
}

static void plain_write(struct scene *scene)
{
	remote_operation(scene, IBV_WR_RDMA_WRITE, 64, remote_area, scene->mr->rkey);
}

static void plain_read(struct scene *scene)
{
	remote_operation(scene, IBV_WR_RDMA_READ, 64, remote_area, scene->mr->rkey);
}

static void plain_atomic(struct scene *scene)
{
	remote_operation(scene, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, remote_area, scene->mr->rkey);
}

// Some versions of the library refuse it at once, others leave that to the device.
static void misaligned_atomic(struct scene *scene)
{
	printf("post_send: %d\n", post_send(scene, scene->a, IBV_WR_ATOMIC_FETCH_AND_ADD, 8,
					   remote_area + 3, scene->mr->rkey));
}

static void last_wqe(struct scene *scene)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	send_to(scene, scene->a, 64);
	usleep(200000);
	REQUIRE(ibv_modify_qp(scene->b, &attr, IBV_QP_STATE) == 0);
}

static void srq_limit(struct scene *scene)
{
	struct ibv_srq_attr attr = { .srq_limit = SRQ_RECEIVES - 2 };

	REQUIRE(ibv_modify_srq(scene->srq, &attr, IBV_SRQ_LIMIT) == 0);
	for (int i = 0; i < 5; i++)
		send_to(scene, scene->a, 64);
}

static void sq_drained(struct scene *scene)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	for (int i = 0; i < 60; i++)
		send_to(scene, scene->a, 1024);
	REQUIRE(ibv_modify_qp(scene->a, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
}

static void bad_lkey(struct scene *scene)
{
	scene->mr->lkey ^= WRONG_KEY;
	send_to(scene, scene->a, 64);
	scene->mr->lkey ^= WRONG_KEY;
}

// A second pair without the receives of the first; with_bad_receive gives it one with a wrong key.
static void second_pair(struct scene *scene, bool with_bad_receive)
{
	struct ibv_qp *c = make_qp(scene, scene->a_cq, NULL, (void *)0x78);
	struct ibv_qp *d = make_qp(scene, scene->b_cq, NULL, (void *)0x79);

	to_init(c, FULL_ACCESS);
	to_init(d, FULL_ACCESS);
	if (with_bad_receive) {
		scene->mr->lkey ^= WRONG_KEY;
		post_receive(scene, d, 1024);
		scene->mr->lkey ^= WRONG_KEY;
	}
	connect_pair(c, d, false);
	send_to(scene, c, 64);
	usleep(SLOW_FAILURE_US);
	print_state(c, "c");
	print_state(d, "d");
	REQUIRE(ibv_destroy_qp(c) == 0);
	REQUIRE(ibv_destroy_qp(d) == 0);
}

static void receive_bad_lkey(struct scene *scene)
{
	second_pair(scene, true);
}

static void no_receive(struct scene *scene)
{
	second_pair(scene, false);
}

static void dead_peer(struct scene *scene)
{
	REQUIRE(ibv_destroy_qp(scene->b) == 0);
	scene->b = NULL;
	send_to(scene, scene->a, 64);
	usleep(SLOW_FAILURE_US);
}

static void until_input_ends(struct scene *scene)
{
	char byte;

	if (scene->a)
		printf("a=%u b=%u\n", scene->a->qp_num, scene->b->qp_num);
	printf("holding\n");
	fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

static const struct mode modes[] = {
	{ "comm_est", { .b_stays_rtr = true }, comm_est },
	{ "cq_err", { .a_cqe = 3 }, cq_err },
	{ "too_long", { .receive_length = 16 }, too_long },
	{ "bad_rkey_write", { 0 }, bad_rkey_write },
	{ "bad_rkey_read", { 0 }, bad_rkey_read },
	{ "bad_address_write", { 0 }, bad_address_write },
	{ "no_permission_write", { .b_without_remote_access = true }, plain_write },
	{ "no_permission_read", { .b_without_remote_access = true }, plain_read },
	{ "no_permission_atomic", { .b_without_remote_access = true }, plain_atomic },
	{ "misaligned_atomic", { 0 }, misaligned_atomic },
	{ "last_wqe", { .srq = true }, last_wqe },
	{ "last_wqe_remote", { .srq = true }, bad_rkey_write },
	{ "srq_limit", { .srq = true }, srq_limit },
	{ "sq_drained", { 0 }, sq_drained },
	{ "bad_lkey", { 0 }, bad_lkey },
	{ "receive_bad_lkey", { 0 }, receive_bad_lkey },
	{ "no_receive", { 0 }, no_receive },
	{ "dead_peer", { 0 }, dead_peer },
	{ "hold", { .srq = true }, until_input_ends },
	{ "watch", { 0 }, until_input_ends },
};

static const struct mode *find_mode(const char *name)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(modes[i].name, name) == 0)
			return &modes[i];
	}
	return NULL;
}

static void set_up(struct scene *scene, const struct wants *wants)
{
	struct ibv_srq_init_attr srq_attr = {
		.srq_context = (void *)0x66,
		.attr = { .max_wr = 64, .max_sge = 1 },
	};
	int receive_length = wants->receive_length ? wants->receive_length : 1024;

	REQUIRE(ibv_query_gid(scene->context, 1, gid_index, &gid) == 0);
	scene->pd = ibv_alloc_pd(scene->context);
	REQUIRE(scene->pd);
	scene->mr = ibv_reg_mr(scene->pd, buffer, sizeof(buffer), FULL_ACCESS);
	REQUIRE(scene->mr);
	scene->a_cq = ibv_create_cq(scene->context, wants->a_cqe ? wants->a_cqe : CQ_SIZE,
				    (void *)0x55, NULL, 0);
	REQUIRE(scene->a_cq);
	scene->b_cq = ibv_create_cq(scene->context, CQ_SIZE, (void *)0x56, NULL, 0);
	REQUIRE(scene->b_cq);
	if (wants->srq) {
		scene->srq = ibv_create_srq(scene->pd, &srq_attr);
		REQUIRE(scene->srq);
	}
	scene->a = make_qp(scene, scene->a_cq, NULL, (void *)0x76);
	scene->b = make_qp(scene, scene->b_cq, scene->srq, (void *)0x77);
	to_init(scene->a, FULL_ACCESS);
	to_init(scene->b, wants->b_without_remote_access ? IBV_ACCESS_LOCAL_WRITE : FULL_ACCESS);
	for (int i = 0; i < (wants->srq ? SRQ_RECEIVES : RECEIVES); i++)
		post_receive(scene, wants->srq ? NULL : scene->b, receive_length);
	connect_pair(scene->a, scene->b, wants->b_stays_rtr);
}

static void tear_down(struct scene *scene)
{
	if (scene->b)
		REQUIRE(ibv_destroy_qp(scene->b) == 0);
	REQUIRE(ibv_destroy_qp(scene->a) == 0);
	if (scene->srq)
		REQUIRE(ibv_destroy_srq(scene->srq) == 0);
	REQUIRE(ibv_destroy_cq(scene->a_cq) == 0);
	REQUIRE(ibv_destroy_cq(scene->b_cq) == 0);
	REQUIRE(ibv_dereg_mr(scene->mr) == 0);
	REQUIRE(ibv_dealloc_pd(scene->pd) == 0);
}

int main(int argc, char **argv)
{
	const struct mode *mode = argc > 1 ? find_mode(argv[1]) : NULL;
	struct scene scene = { 0 };
	pthread_t taker;
	void *result;

	if (!mode) {
		fprintf(stderr, "usage: events MODE [DEVICE [GID-INDEX]]\nmodes:");
		for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
			fprintf(stderr, " %s", modes[i].name);
		fprintf(stderr, "\n");
		return 2;
	}
	if (argc > 3)
		gid_index = atoi(argv[3]);
	scene.context = open_device(argc > 2 ? argv[2] : "rxe0");
	REQUIRE(pthread_create(&taker, NULL, take_events, scene.context) == 0);

	if (strcmp(mode->name, "watch") == 0) {
		mode->act(&scene);
	} else {
		set_up(&scene, &mode->wants);
		mode->act(&scene);
		usleep(SETTLE_US);
		print_state(scene.a, "a");
		if (scene.b)
			print_state(scene.b, "b");
		print_completions(scene.a_cq, "a's cq");
		print_completions(scene.b_cq, "b's cq");
		tear_down(&scene);
	}

	REQUIRE(pthread_cancel(taker) == 0);
	REQUIRE(pthread_join(taker, &result) == 0);
	REQUIRE(result == PTHREAD_CANCELED);
	REQUIRE(ibv_close_device(scene.context) == 0);
	printf("all destroyed and closed\n");
	return 0;
}
