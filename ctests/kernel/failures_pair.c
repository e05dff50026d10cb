// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Two connected QPs of one process, for failures.c. Retries are few and fast: what fails is to fail soon.

#include "failures_pair.h"
#include "require.h"

enum { MEMORY = 8192 };

static char memory[MEMORY] __attribute__((aligned(4096)));
static union ibv_gid gid;
static int gid_index;

static void open_device(struct pair *pair, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	REQUIRE(list);
	for (struct ibv_device **device = list; *device; device++) {
		if (strcmp(ibv_get_device_name(*device), name) == 0)
			pair->context = ibv_open_device(*device);
	}
	REQUIRE(pair->context);
	ibv_free_device_list(list);
}

static struct ibv_cq *make_cq(struct pair *pair, int cqe)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = (uint32_t)cqe,
		.wc_flags = IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_BYTE_LEN,
	};
	struct ibv_cq *cq;

	if (pair->wants.extended) {
		struct ibv_cq_ex *extended = ibv_create_cq_ex(pair->context, &attr);

		cq = extended ? ibv_cq_ex_to_cq(extended) : NULL;
	} else {
		cq = ibv_create_cq(pair->context, cqe, NULL, NULL, 0);
	}
	REQUIRE(cq);
	return cq;
}

static struct ibv_qp *make_qp(struct pair *pair, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = { .max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pair->pd, &attr);

	REQUIRE(qp);
	return qp;
}

static void connect_to(struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
	};

	REQUIRE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = peer->qp_num;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 1;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = 1;
	attr.ah_attr.grh.dgid = gid;
	attr.ah_attr.grh.sgid_index = (uint8_t)gid_index;
	attr.ah_attr.grh.hop_limit = 2;
	REQUIRE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 12;
	attr.retry_cnt = 2;
	attr.rnr_retry = 2;
	attr.max_rd_atomic = 1;
	REQUIRE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static void say_qp(const char *name, const struct ibv_qp *qp, const struct ibv_qp *peer)
{
	printf("qp %s qp_num %u handle %u peer %u gid ", name, qp->qp_num, qp->handle, peer->qp_num);
	for (int i = 0; i < 16; i++)
		printf("%02x", gid.raw[i]);
	printf("\n");
}

void pair_open(struct pair *pair, const char *device, int index)
{
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 16, .max_sge = 1 } };

	gid_index = index;
	open_device(pair, device);
	REQUIRE(ibv_query_gid(pair->context, 1, gid_index, &gid) == 0);
	REQUIRE(pair->pd = ibv_alloc_pd(pair->context));
	pair->memory = memory;
	REQUIRE(pair->mr = ibv_reg_mr(pair->pd, memory, sizeof(memory), access));
	pair->a_cq = make_cq(pair, pair->wants.a_cqe ? pair->wants.a_cqe : 64);
	pair->b_cq = make_cq(pair, 64);
	if (pair->wants.srq)
		REQUIRE(pair->srq = ibv_create_srq(pair->pd, &srq_attr));
	pair->a = make_qp(pair, pair->a_cq, NULL);
	pair->b = make_qp(pair, pair->b_cq, pair->srq);
	pair->a_num = pair->a->qp_num;
	pair->b_num = pair->b->qp_num;
	connect_to(pair->a, pair->b);
	connect_to(pair->b, pair->a);
	say_qp("a", pair->a, pair->b);
	say_qp("b", pair->b, pair->a);
	fflush(stdout);
}

void pair_close(struct pair *pair)
{
	REQUIRE(ibv_destroy_qp(pair->a) == 0);
	if (pair->b)
		REQUIRE(ibv_destroy_qp(pair->b) == 0);
	if (pair->srq)
		REQUIRE(ibv_destroy_srq(pair->srq) == 0);
	REQUIRE(ibv_destroy_cq(pair->a_cq) == 0);
	REQUIRE(ibv_destroy_cq(pair->b_cq) == 0);
	REQUIRE(ibv_dereg_mr(pair->mr) == 0);
	REQUIRE(ibv_dealloc_pd(pair->pd) == 0);
	REQUIRE(ibv_close_device(pair->context) == 0);
}
