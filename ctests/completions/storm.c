// SPDX-License-Identifier: MIT OR Apache-2.0
//
// storm flushes NUMBER: so many work requests of one QP are flushed, after a failure.
// storm alone NUMBER: the same without one.
// storm qps NUMBER: so many QPs, one failure of each.

#include "completions.h"

static struct thing t;

static void flushes(int number, bool alone)
{
	struct ibv_wc in[64], out[64];

	if (!alone) {
		in[0] = completion(IBV_WC_RETRY_EXC_ERR, t.qp->qp_num, 0x1234, 0xff);
		REQUIRE(scripted_wc(t.cq, in, 1) == 0);
		REQUIRE(ibv_poll_cq(t.cq, 64, out) == 1);
	}
	for (int i = 0; i < 64; i++)
		in[i] = completion(IBV_WC_WR_FLUSH_ERR, t.qp->qp_num, 0x5678, 0xff);
	for (int left = number, n; left; left -= n) {
		n = left < 64 ? left : 64;
		REQUIRE(scripted_wc(t.cq, in, n) == 0);
		REQUIRE(ibv_poll_cq(t.cq, 64, out) == n);
	}
}

static void qps(int number)
{
	struct ibv_wc wc;

	for (int i = 0; i < number; i++) {
		struct ibv_qp *qp = qp_on(t.pd, t.cq, t.cq);

		wc = completion(IBV_WC_RNR_RETRY_EXC_ERR, qp->qp_num, 1, 0xff);
		REQUIRE(scripted_wc(t.cq, &wc, 1) == 0);
		REQUIRE(ibv_poll_cq(t.cq, 1, &wc) == 1);
		REQUIRE(ibv_destroy_qp(qp) == 0);
	}
}

int main(int argc, char **argv)
{
	REQUIRE(argc == 3);
	t = make("qp");
	make_ready(t.qp);
	say_thing("qp", &t);
	double start = now();
	if (!strcmp(argv[1], "qps"))
		qps(atoi(argv[2]));
	else
		flushes(atoi(argv[2]), !strcmp(argv[1], "alone"));
	say("took=%.2f", now() - start);
	REQUIRE(destroy(&t) == 0);
	close_all(&t);
	return 0;
}
