// SPDX-License-Identifier: MIT OR Apache-2.0
//
// ways NUMBER: so many extended CQs (70 at most), each with another function to start a poll, and one failed completion
// polled from each. Prints how many polls gave the right one, and at how many CQs somebody else is in between.

#include "completions.h"

enum { MOST = 70 };

static uint32_t qp_num;
static int next_way;

// A failure of the one QP; its wr_id tells which function was called.
static int start(struct ibv_cq_ex *cq, int way)
{
	cq->status = IBV_WC_LOC_PROT_ERR;
	cq->wr_id = (uint64_t)way + 1;
	return 0;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
	(void)cq;
	return qp_num;
}

#define WAY(n)                                                                                     \
	static int start_##n(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)                  \
	{                                                                                          \
		return attr->comp_mask ? EINVAL : start(cq, n);                                    \
	}
#define TEN(do, n) do(n##0) do(n##1) do(n##2) do(n##3) do(n##4) do(n##5) do(n##6) do(n##7) do(n##8) do(n##9)
#define ALL(do) TEN(do, ) TEN(do, 1) TEN(do, 2) TEN(do, 3) TEN(do, 4) TEN(do, 5) TEN(do, 6)

ALL(WAY)

#define NAME(n) start_##n,
static int (*const ways[MOST])(struct ibv_cq_ex *, struct ibv_poll_cq_attr *) = { ALL(NAME) };

static struct ibv_cq_ex *(*provider_create)(struct ibv_context *, struct ibv_cq_init_attr_ex *);

static struct ibv_cq_ex *own_create(struct ibv_context *in, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *cq = provider_create(in, attr);

	REQUIRE(cq);
	cq->start_poll = ways[next_way];
	cq->read_qp_num = read_qp_num;
	cq->read_vendor_err = NULL;
	return cq;
}

int main(int argc, char **argv)
{
	struct ibv_cq_ex *cqs[MOST];
	struct ibv_poll_cq_attr poll_attr = { 0 };
	int number = argc > 1 ? atoi(argv[1]) : 0, right = 0, watched = 0;

	REQUIRE(number > 0 && number <= MOST);
	// The context is prepared before anybody sees it.
	struct ibv_device **list = ibv_get_device_list(NULL);

	REQUIRE(list && list[0]);
	struct ibv_context *context = scripted_open_around(list[0]);
	ibv_free_device_list(list);
	provider_create = verbs_get_ctx(context)->create_cq_ex;
	verbs_get_ctx(context)->create_cq_ex = own_create;
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);

	REQUIRE(pd && cq);
	struct ibv_qp *qp = qp_on(pd, cq, cq);
	// Of none that is known: these CQs are no QP's.
	qp_num = qp->qp_num + 0x4000;
	say("qp_num=%u", qp_num);
	for (next_way = 0; next_way < number; next_way++) {
		struct ibv_cq_init_attr_ex attr = { .cqe = 4, .wc_flags = IBV_WC_EX_WITH_QP_NUM };

		cqs[next_way] = ibv_create_cq_ex(context, &attr);
		watched += cqs[next_way]->start_poll != ways[next_way];
	}
	for (int i = 0; i < number; i++) {
		REQUIRE(ibv_start_poll(cqs[i], &poll_attr) == 0);
		right += cqs[i]->wr_id == (uint64_t)i + 1;
		ibv_end_poll(cqs[i]);
		REQUIRE(ibv_destroy_cq(ibv_cq_ex_to_cq(cqs[i])) == 0);
	}
	say("right=%d", right);
	say("watched=%d", watched);
	REQUIRE(ibv_destroy_qp(qp) == 0);
	REQUIRE(ibv_destroy_cq(cq) == 0);
	REQUIRE(ibv_dealloc_pd(pd) == 0);
	REQUIRE(ibv_close_device(context) == 0);
	return 0;
}
