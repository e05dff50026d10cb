// SPDX-License-Identifier: MIT OR Apache-2.0
//
// forked: a child polls its parent's CQs, plain and extended: a completion of each fails. The parent has polled one
// failure before and polls one more afterwards.

#include "completions.h"

static struct thing t;
static struct ibv_cq_ex *cq_ex;

static void poll_one(unsigned int status, uint64_t wr_id)
{
	struct ibv_wc wc = completion(status, t.qp->qp_num, wr_id, 0xff);
	struct ibv_poll_cq_attr attr = { 0 };

	REQUIRE(scripted_wc(t.cq, &wc, 1) == 0);
	REQUIRE(ibv_poll_cq(t.cq, 1, &wc) == 1);
	REQUIRE(scripted_wc(ibv_cq_ex_to_cq(cq_ex), &wc, 1) == 0);
	REQUIRE(ibv_start_poll(cq_ex, &attr) == 0);
	ibv_end_poll(cq_ex);
}

int main(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16 };
	int status;

	t = make("qp");
	REQUIRE(cq_ex = ibv_create_cq_ex(t.context, &attr));
	say_thing("qp", &t);
	poll_one(IBV_WC_LOC_PROT_ERR, 1);
	pid_t child = fork();
	REQUIRE(child >= 0);
	if (!child) {
		poll_one(IBV_WC_REM_ACCESS_ERR, 2);
		exit(0);
	}
	REQUIRE(waitpid(child, &status, 0) == child && status == 0);
	say("child=%d", (int)child);
	poll_one(IBV_WC_WR_FLUSH_ERR, 3);
	REQUIRE(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)) == 0);
	REQUIRE(destroy(&t) == 0);
	close_all(&t);
	return 0;
}
