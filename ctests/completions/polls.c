// SPDX-License-Identifier: MIT OR Apache-2.0
//
// polls: polls that return no completions, or not what they should. Nothing that the provider left alone may be
// touched, and nothing may be called that the program did not call. Prints what the program itself counted.

#include "completions.h"

static struct ibv_wc wc[4], pattern[4];

static void answers(struct ibv_cq *cq, long value, int err, int asked)
{
	scripted_reply("ops.poll_cq", value, err);
	errno = 77;
	REQUIRE(ibv_poll_cq(cq, asked, wc) == value);
	REQUIRE(errno == (err ? err : 77));
	REQUIRE(!memcmp(wc, pattern, sizeof(wc)));
	scripted_behave("ops.poll_cq");
}

static void plain(const struct thing *t)
{
	struct ibv_wc one = completion(IBV_WC_LOC_PROT_ERR, t->qp->qp_num, 9, 0xff);
	unsigned long before = scripted_calls("ops.poll_cq");

	answers(t->cq, -1, 0, 4);
	answers(t->cq, -1, EIO, 4);
	answers(t->cq, -22, 0, 4);
	answers(t->cq, INT32_MIN, 0, 4);
	say("poll_errors=4");
	// More than was asked for: an array that nobody has filled in is not read, nor is what lies behind it.
	answers(t->cq, 5, 0, 4);
	answers(t->cq, INT32_MAX, 0, 1);
	answers(t->cq, 1, 0, 0);
	answers(t->cq, 0, 0, 4);
	answers(t->cq, 0, EAGAIN, -1);
	errno = 77;
	REQUIRE(ibv_poll_cq(t->cq, 0, NULL) == 0);
	REQUIRE(ibv_poll_cq(t->cq, 4, wc) == 0);
	// With completions waiting, too.
	REQUIRE(scripted_wc(t->cq, &one, 1) == 0);
	REQUIRE(ibv_poll_cq(t->cq, 0, NULL) == 0);
	REQUIRE(!memcmp(wc, pattern, sizeof(wc)));
	REQUIRE(errno == 77);
	// And errno stays where a line is said.
	REQUIRE(ibv_poll_cq(t->cq, 4, wc) == 1);
	REQUIRE(errno == 77);
	REQUIRE(!memcmp(wc, &one, sizeof(one)) && !memcmp(wc + 1, pattern + 1, 3 * sizeof(one)));
	REQUIRE(scripted_calls("ops.poll_cq") == before + 13);
}

static void starts(struct ibv_cq_ex *cq, int value)
{
	struct ibv_poll_cq_attr attr = { 0 };

	scripted_reply("cq_ex.start_poll", value, 0);
	errno = 77;
	REQUIRE(ibv_start_poll(cq, &attr) == value);
	REQUIRE(errno == 77);
	scripted_behave("cq_ex.start_poll");
}

static void extended(const struct thing *t)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 16 };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(t->context, &attr);
	struct ibv_wc in[2] = {
		completion(IBV_WC_SUCCESS, t->qp->qp_num, 1, 0),
		completion(IBV_WC_WR_FLUSH_ERR, t->qp->qp_num, 2, 0xff),
	};
	struct ibv_poll_cq_attr poll_attr = { 0 };

	REQUIRE(cq);
	// A start that fails leaves the CQ at no completion, whatever an old status says.
	cq->status = IBV_WC_FATAL_ERR;
	starts(cq, EBUSY);
	starts(cq, EINVAL);
	starts(cq, ENOENT);
	starts(cq, -1);
	REQUIRE(scripted_calls("cq_ex.start_poll") == 4);
	REQUIRE(scripted_calls("cq_ex.next_poll") == 0);
	REQUIRE(scripted_calls("cq_ex.end_poll") == 0);
	REQUIRE(scripted_calls("cq_ex.read_qp_num") + scripted_calls("cq_ex.read_vendor_err") == 0);
	REQUIRE(scripted_wc((struct ibv_cq *)cq, in, 2) == 0);
	REQUIRE(ibv_start_poll(cq, &poll_attr) == 0);
	REQUIRE(ibv_next_poll(cq) == 0);
	errno = 77;
	REQUIRE(ibv_next_poll(cq) == ENOENT);
	REQUIRE(errno == 77);
	ibv_end_poll(cq);
	REQUIRE(scripted_calls("cq_ex.start_poll") == 5);
	REQUIRE(scripted_calls("cq_ex.next_poll") == 2);
	REQUIRE(scripted_calls("cq_ex.end_poll") == 1);
	REQUIRE(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
}

int main(void)
{
	struct thing t = make("qp");

	memset(pattern, 0xa7, sizeof(pattern));
	memset(wc, 0xa7, sizeof(wc));
	say_thing("qp", &t);
	plain(&t);
	extended(&t);
	REQUIRE(destroy(&t) == 0);
	close_all(&t);
	return 0;
}
