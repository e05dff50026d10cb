// SPDX-License-Identifier: MIT OR Apache-2.0
//
// extended_cq [MESSAGES [DEVICE [GID-INDEX]]]: messages between two QPs whose completions are taken from an
// extended CQ by start_poll, next_poll and end_poll. Prints how many it was given. (Soft-RoCE's part of
// rdma-core before version 59 gives some twice: the number may exceed two per message.)
// Built with: cc extended_cq.c -libverbs

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "require.h"

static union ibv_gid gid;
static int gid_index = 1;

static void to_rts(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	REQUIRE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      IBV_QP_ACCESS_FLAGS) == 0);
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = peer->qp_num;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 1;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.dgid = gid;
	attr.ah_attr.grh.sgid_index = gid_index;
	attr.ah_attr.grh.hop_limit = 2;
	REQUIRE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER) == 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	REQUIRE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

// One batch; how many completions it had.
static unsigned long take_batch(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = { 0 };
	unsigned long taken = 0;
	int result = ibv_start_poll(cq, &attr);

	if (result == ENOENT)
		return 0;
	REQUIRE(result == 0);
	do {
		REQUIRE(cq->status == IBV_WC_SUCCESS);
		taken++;
	} while ((result = ibv_next_poll(cq)) == 0);
	REQUIRE(result == ENOENT);
	ibv_end_poll(cq);
	return taken;
}

int main(int argc, char **argv)
{
	static char buffer[2][64];
	int messages = argc > 1 ? atoi(argv[1]) : 20;
	const char *name = argc > 2 ? argv[2] : "rxe0";
	struct ibv_context *context = NULL;
	struct ibv_device **list = ibv_get_device_list(NULL);
	unsigned long taken = 0;

	if (argc > 3)
		gid_index = atoi(argv[3]);
	REQUIRE(list);
	for (struct ibv_device **device = list; *device; device++) {
		if (strcmp(ibv_get_device_name(*device), name) == 0)
			context = ibv_open_device(*device);
	}
	REQUIRE(context);
	ibv_free_device_list(list);
	REQUIRE(ibv_query_gid(context, 1, gid_index, &gid) == 0);

	struct ibv_pd *pd = ibv_alloc_pd(context);
	REQUIRE(pd);
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	REQUIRE(mr);
	// All messages fit at once: completions given twice make the loop below run ahead.
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 2 * messages, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &cq_attr);
	REQUIRE(cq);
	struct ibv_qp_init_attr qp_attr = {
		.send_cq = ibv_cq_ex_to_cq(cq),
		.recv_cq = ibv_cq_ex_to_cq(cq),
		.cap = { .max_send_wr = messages,
			 .max_recv_wr = messages,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_qp *a = ibv_create_qp(pd, &qp_attr);
	REQUIRE(a);
	struct ibv_qp *b = ibv_create_qp(pd, &qp_attr);
	REQUIRE(b);
	to_rts(a, b);
	to_rts(b, a);

	for (int i = 0; i < messages; i++) {
		struct ibv_sge from = { (uintptr_t)buffer[0], sizeof(buffer[0]), mr->lkey };
		struct ibv_sge into = { (uintptr_t)buffer[1], sizeof(buffer[1]), mr->lkey };
		struct ibv_send_wr send = { .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND };
		struct ibv_recv_wr receive = { .sg_list = &into, .num_sge = 1 };
		struct ibv_send_wr *bad_send;
		struct ibv_recv_wr *bad_receive;

		REQUIRE(ibv_post_recv(b, &receive, &bad_receive) == 0);
		REQUIRE(ibv_post_send(a, &send, &bad_send) == 0);
		while (taken < 2 * (i + 1UL))
			taken += take_batch(cq);
	}

	REQUIRE(ibv_destroy_qp(a) == 0);
	REQUIRE(ibv_destroy_qp(b) == 0);
	REQUIRE(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
	REQUIRE(ibv_dereg_mr(mr) == 0);
	REQUIRE(ibv_dealloc_pd(pd) == 0);
	REQUIRE(ibv_close_device(context) == 0);
	printf("completions %lu\n", taken);
	return 0;
}
