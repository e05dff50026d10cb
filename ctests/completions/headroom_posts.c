/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Posts more, or not more, than a CQ of depth 4 has room for, in the way that is asked for. Prints cq= and qp=, as
 * the library calls them.
 */
#include "ledger/ledger.h"

enum { DEPTH = 4 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;

static struct ibv_qp *make_qp(struct ibv_cq *cq, struct ibv_srq *srq, int sq_sig_all)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .srq = srq, .qp_type = IBV_QPT_RC, .sq_sig_all = sq_sig_all,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	REQUIRE(qp);
	return qp;
}

static struct ibv_cq *make_cq(int depth)
{
	struct ibv_cq *cq = ibv_create_cq(context, depth, NULL, channel, 0);

	REQUIRE(cq);
	return cq;
}

/* Posts a list, signalled where the pattern has an s; returns what the call does. */
static int post_sends(struct ibv_qp *qp, const char *pattern)
{
	struct ibv_send_wr wr[16] = { 0 }, *bad;
	size_t n = strlen(pattern);

	for (size_t i = 0; i < n; i++) {
		wr[i].opcode = IBV_WR_SEND;
		wr[i].send_flags = pattern[i] == 's' ? IBV_SEND_SIGNALED : 0;
		wr[i].next = i + 1 < n ? &wr[i + 1] : NULL;
	}
	return ibv_post_send(qp, wr, &bad);
}

static void post_receives(struct ibv_qp *qp, struct ibv_srq *srq, int n)
{
	struct ibv_recv_wr wr = { 0 }, *bad;

	while (n--)
		REQUIRE((srq ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad)) == 0);
}

static void complete(struct ibv_cq *cq, struct ibv_qp *qp, int opcode, int n)
{
	struct ibv_wc wc = { .qp_num = qp->qp_num, .opcode = opcode };

	for (int i = 0; i < n; i++)
		REQUIRE(scripted_wc(cq, &wc, 1) == 0);
	for (int left = n; left > 0; left -= 1)
		REQUIRE(ibv_poll_cq(cq, 1, &wc) == 1);
}

static void say_names(struct ibv_cq *cq, struct ibv_qp *qp)
{
	struct thing of_cq = { .kind = CQ, .context = context, .its_cq = cq };
	struct thing of_qp = { .kind = QP, .context = context, .qp = qp };

	say_thing("cq", &of_cq);
	say_thing("qp", &of_qp);
	say("number=%u", qp->qp_num);
}

/* Right at all times: never more than fits. */
static void correct(struct ibv_cq *cq, struct ibv_qp *qp)
{
	for (int i = 0; i < 1000; i++) {
		post_receives(qp, NULL, 2);
		REQUIRE(post_sends(qp, i % 2 ? "us" : "ss") == 0);
		complete(cq, qp, IBV_WC_RECV, 2);
		complete(cq, qp, IBV_WC_SEND, i % 2 ? 1 : 2);
	}
}

/* Posts until the provider refuses, as programs do. */
static void refused(struct ibv_qp *qp)
{
	struct ibv_send_wr second = { .send_flags = IBV_SEND_SIGNALED }, first = second, *bad, *second_at = &second;

	first.next = &second;
	scripted_reply("ops.post_send", ENOMEM, 0);
	scripted_output("ops.post_send", 2, &second_at, sizeof(second_at));
	for (int i = 0; i < DEPTH; i++)
		REQUIRE(ibv_post_send(qp, &first, &bad) == ENOMEM && bad == &second);
	for (int i = 0; i < 100; i++)
		REQUIRE(ibv_post_send(qp, &second, &bad) == ENOMEM);
	scripted_behave("ops.post_send");
}

/* The provider does not say which it refused. */
static void refused_unclearly(struct ibv_qp *qp)
{
	struct ibv_send_wr wr = { .send_flags = IBV_SEND_SIGNALED }, *bad = NULL;

	scripted_reply("ops.post_send", ENOMEM, 0);
	REQUIRE(ibv_post_send(qp, &wr, &bad) == ENOMEM && !bad);
	scripted_behave("ops.post_send");
	post_receives(qp, NULL, DEPTH + 1);
}

static void with_srq(struct ibv_cq *cq)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };
	struct ibv_srq *srq = ibv_create_srq(pd, &attr);

	REQUIRE(srq);
	struct ibv_qp *qp = make_qp(cq, srq, 0);

	say_names(cq, qp);
	post_receives(NULL, srq, DEPTH);
	complete(cq, qp, IBV_WC_RECV, 2);
	post_receives(NULL, srq, 3);
}

static void extended(uint32_t flags)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = DEPTH,
		.wc_flags = IBV_WC_EX_WITH_QP_NUM,
		.comp_mask = flags ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0,
		.flags = flags,
	};
	struct ibv_cq_ex *ex = ibv_create_cq_ex(context, &attr);

	REQUIRE(ex);
	struct ibv_cq *cq = ibv_cq_ex_to_cq(ex);
	struct ibv_qp *qp = make_qp(cq, NULL, 1);
	struct ibv_wc wc = { .qp_num = qp->qp_num };
	struct ibv_poll_cq_attr poll = { 0 };

	say_names(cq, qp);
	REQUIRE(post_sends(qp, "uuuu") == 0);
	REQUIRE(scripted_wc(cq, &wc, 1) == 0 && scripted_wc(cq, &wc, 1) == 0);
	REQUIRE(ibv_start_poll(ex, &poll) == 0);
	REQUIRE(ibv_next_poll(ex) == 0);
	REQUIRE(ibv_next_poll(ex) == ENOENT);
	ibv_end_poll(ex);
	REQUIRE(post_sends(qp, "uuu") == 0);
}

static void wr_api(struct ibv_cq *cq)
{
	struct thing of_qp = { .form = "qp_ex", .context = context, .pd = pd, .cq = cq };
	struct ibv_qp *qp = new_qp(&of_qp);

	REQUIRE(qp);
	say_names(cq, qp);
	post_receives(qp, NULL, DEPTH + 1);
}

/* Who had events and never polls has another way to its completions. */
static void elsewhere(struct ibv_cq *cq, struct ibv_qp *qp)
{
	void *cq_context;

	REQUIRE(ibv_req_notify_cq(cq, 0) == 0);
	REQUIRE(scripted_comp(channel, cq) == 0);
	REQUIRE(ibv_get_cq_event(channel, &cq, &cq_context) == 0);
	ibv_ack_cq_events(cq, 1);
	post_receives(qp, NULL, 10 * DEPTH);
}

static void cq_err(struct ibv_cq *cq)
{
	for (int i = 0; i < 3; i++) {
		REQUIRE(scripted_async(context, IBV_EVENT_CQ_ERR, cq) == 0);
		get_and_ack_async(context, IBV_EVENT_CQ_ERR);
	}
}

int main(int argc, char **argv)
{
	REQUIRE(argc == 2);
	const char *what = argv[1];

	context = open_first();
	REQUIRE(pd = ibv_alloc_pd(context));
	REQUIRE(channel = ibv_create_comp_channel(context));

	struct ibv_cq *cq = make_cq(DEPTH);

	if (!strcmp(what, "srq")) {
		with_srq(cq);
		return 0;
	}
	if (!strcmp(what, "extended") || !strcmp(what, "ignore")) {
		extended(*what == 'i' ? IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN : 0);
		return 0;
	}
	if (!strcmp(what, "wr")) {
		wr_api(cq);
		return 0;
	}

	struct ibv_qp *qp = make_qp(cq, NULL, 0);

	say_names(cq, qp);
	if (!strcmp(what, "full")) {
		post_receives(qp, NULL, DEPTH);
	} else if (!strcmp(what, "over")) {
		post_receives(qp, NULL, DEPTH + 3);
	} else if (!strcmp(what, "list")) {
		REQUIRE(post_sends(qp, "uuuus") == 0);
		complete(cq, qp, IBV_WC_SEND, 1);
	} else if (!strcmp(what, "correct")) {
		correct(cq, qp);
	} else if (!strcmp(what, "refused")) {
		refused(qp);
	} else if (!strcmp(what, "unclear")) {
		refused_unclearly(qp);
	} else if (!strcmp(what, "elsewhere")) {
		elsewhere(cq, qp);
	} else if (!strcmp(what, "resized")) {
		REQUIRE(ibv_resize_cq(cq, 2 * DEPTH) == 0);
		post_receives(qp, NULL, 2 * DEPTH);
	} else if (!strcmp(what, "reset")) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };

		post_receives(qp, NULL, DEPTH);
		REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
		post_receives(qp, NULL, DEPTH);
	} else if (!strcmp(what, "flushed")) {
		struct ibv_wc wc = { .qp_num = qp->qp_num, .status = IBV_WC_WR_FLUSH_ERR };
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

		post_receives(qp, NULL, DEPTH);
		REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
		REQUIRE(scripted_wc(cq, &wc, 1) == 0 && ibv_poll_cq(cq, 1, &wc) == 1);
		post_receives(qp, NULL, DEPTH);
	} else if (!strcmp(what, "cq_err")) {
		post_receives(qp, NULL, DEPTH);
		cq_err(cq);
	} else {
		REQUIRE(!"known");
	}
	return 0;
}
