// SPDX-License-Identifier: MIT OR Apache-2.0
//
// batch SIZES [EXTRA]: for each size of a batch from 1 to SIZES and each position in it, one batch of which the
// completion at that position fails, all others being good; polled into an array that has room for EXTRA more. Each
// has a QP of its own, or, with `one`, the sizes in question have, and the first failure of each is printed.
//
// batch one SIZE...: the same with the failure as the first, the middle and the last of each size only.

#include "completions.h"

enum { LARGEST = 128 };

static unsigned long failed;

static void poll_batch(const struct thing *t, struct ibv_qp *qp, int size, int position, int extra)
{
	struct ibv_wc in[LARGEST], out[LARGEST];

	for (int i = 0; i < size; i++)
		in[i] = completion(IBV_WC_SUCCESS, qp->qp_num, (uint64_t)i, 0);
	// Statuses differ in their bits: none must hide in the others.
	unsigned int status = (unsigned int)(size + position) % 19 + 1;

	if (status == IBV_WC_WR_FLUSH_ERR)
		status = 0x8000;
	in[position] = completion(status, qp->qp_num, (uint64_t)(size * 1000 + position), 0xff);
	// What lies behind the completions is not looked at.
	memset(out, 0xee, sizeof(out));
	REQUIRE(scripted_wc(t->cq, in, size) == 0);
	REQUIRE(ibv_poll_cq(t->cq, size + extra, out) == size);
	REQUIRE(!memcmp(in, out, (size_t)size * sizeof(in[0])));
	for (size_t i = (size_t)size * sizeof(in[0]); i < sizeof(out); i++)
		REQUIRE(((unsigned char *)out)[i] == 0xee);
	failed++;
}

static struct ibv_qp *said(const struct thing *t, int size, int position)
{
	struct ibv_qp *qp = qp_on(t->pd, t->cq, t->cq);
	unsigned int status = (unsigned int)(size + position) % 19 + 1;

	if (status == IBV_WC_WR_FLUSH_ERR)
		status = 0x8000;
	say("verdict=%u %s %u %#x", qp->qp_num, status_name(status), 0x80 + status, size * 1000 + position);
	return qp;
}

int main(int argc, char **argv)
{
	REQUIRE(argc > 1);
	struct thing t = make("qp");

	if (!strcmp(argv[1], "one")) {
		for (int i = 2; i < argc; i++) {
			int size = atoi(argv[i]), positions[3] = { 0, size / 2, size - 1 };

			for (int p = 0; p < 3; p++) {
				struct ibv_qp *qp = said(&t, size, positions[p]);

				poll_batch(&t, qp, size, positions[p], p);
				REQUIRE(ibv_destroy_qp(qp) == 0);
			}
		}
	} else {
		int sizes = atoi(argv[1]), extra = argc > 2 ? atoi(argv[2]) : 0;

		REQUIRE(sizes + extra < LARGEST);
		for (int size = 1; size <= sizes; size++) {
			for (int position = 0; position < size; position++) {
				struct ibv_qp *qp = qp_on(t.pd, t.cq, t.cq);

				poll_batch(&t, qp, size, position, extra);
				REQUIRE(ibv_destroy_qp(qp) == 0);
			}
		}
	}
	say("failed=%lu", failed);
	REQUIRE(destroy(&t) == 0);
	close_all(&t);
	return 0;
}
