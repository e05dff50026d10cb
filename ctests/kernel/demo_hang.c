// SPDX-License-Identifier: MIT OR Apache-2.0
//
// demo_hang [DEVICE]: a small program with a mistake that is often made. It writes to its own memory over RDMA, a
// thread waits for the completion, and everything is taken apart: but the completion event was never
// acknowledged, so that ibv_destroy_cq() never returns.
// Built with: cc -O1 -g -pthread demo_hang.c -libverbs

#define _GNU_SOURCE
#include <infiniband/verbs.h>
#include <pthread.h>
#include <unistd.h>

#include "require.h"

static char buffer[4096] __attribute__((aligned(4096)));

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	for (struct ibv_device **device = list; device && *device; device++) {
		if (strcmp(ibv_get_device_name(*device), name) == 0)
			context = ibv_open_device(*device);
	}
	REQUIRE(context);
	ibv_free_device_list(list);
	return context;
}

static void connect_to_itself(struct ibv_context *context, struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1, .hop_limit = 2 } },
	};

	REQUIRE(ibv_query_gid(context, 1, 1, &attr.ah_attr.grh.dgid) == 0);
	REQUIRE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	attr.qp_state = IBV_QPS_RTR;
	REQUIRE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	attr.qp_state = IBV_QPS_RTS;
	REQUIRE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

// Waits for the completion. What lacks is ibv_ack_cq_events(cq, 1).
static void *wait_for_completion(void *channel)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *cookie;

	REQUIRE(ibv_get_cq_event(channel, &cq, &cookie) == 0);
	REQUIRE(ibv_poll_cq(cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS);
	printf("thread %d: the write is done\n", gettid());
	return NULL;
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_device(argc > 1 ? argv[1] : "rxe0");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);

	REQUIRE(pd && channel);
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, channel, 0);

	REQUIRE(mr && cq);
	struct ibv_qp_init_attr init = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	struct ibv_sge from = { (uintptr_t)buffer, 2048, mr->lkey };
	struct ibv_send_wr write = {
		.sg_list = &from,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)buffer + 2048, .rkey = mr->rkey },
	};
	struct ibv_send_wr *bad;
	pthread_t reader;

	REQUIRE(qp);
	setvbuf(stdout, NULL, _IOLBF, 0);
	connect_to_itself(context, qp);
	REQUIRE(ibv_req_notify_cq(cq, 0) == 0);
	REQUIRE(pthread_create(&reader, NULL, wait_for_completion, channel) == 0);
	pthread_setname_np(reader, "reader");
	REQUIRE(ibv_post_send(qp, &write, &bad) == 0);
	REQUIRE(pthread_join(reader, NULL) == 0);

	REQUIRE(ibv_destroy_qp(qp) == 0);
	printf("thread %d: the CQ with handle %u is destroyed ...\n", gettid(), cq->handle);
	REQUIRE(ibv_destroy_cq(cq) == 0);
	REQUIRE(ibv_destroy_comp_channel(channel) == 0);
	REQUIRE(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
	printf("all is destroyed\n");
	return 0;
}
