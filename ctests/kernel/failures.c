// SPDX-License-Identifier: MIT OR Apache-2.0
//
// failures CASE [DEVICE [GID-INDEX]]: QP a sends to QP b of the same process, and something is wrong with it. Prints
// who the QPs are and every completion that failed, in the order in which they were polled; the CQ of a is polled first.
// Built with: cc failures.c failures_pair.c -libverbs

#include <stdbool.h>
#include <time.h>

#include "failures_pair.h"
#include "require.h"

enum { SENDS = 5, RECEIVES = 4, LONGEST_WAIT = 30, WRONG_KEY = 0x5a00 };

struct what {
	const char *name;
	void (*act)(struct pair *pair);
	struct wants wants;
	int a_completions; // that are waited for, good ones too
	int b_completions;
};

static void send_all(struct pair *pair, enum ibv_wr_opcode opcode, uint32_t lkey, uint32_t rkey)
{
	for (int i = 0; i < SENDS; i++) {
		struct ibv_sge sge = { (uintptr_t)pair->memory, 512, lkey };
		struct ibv_send_wr wr = {
			.wr_id = 0xa00000000 + (unsigned int)i,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = opcode,
			.wr.rdma = { .remote_addr = (uintptr_t)pair->memory, .rkey = rkey },
			// The first completes only if it fails, where that is asked for.
			.send_flags = pair->wants.unsignalled && i == 0 ? 0 : IBV_SEND_SIGNALED,
		};
		struct ibv_send_wr *bad;
		int result = ibv_post_send(pair->a, &wr, &bad);

		// A QP that is in ERR already may refuse.
		if (result)
			printf("not posted %d\n", result);
	}
}

static void receive_all(struct pair *pair)
{
	for (int i = 0; i < RECEIVES; i++) {
		struct ibv_sge sge = { (uintptr_t)pair->memory + 2048, pair->wants.receive_length,
				       pair->wants.receive_key_is_wrong ? pair->mr->lkey ^ WRONG_KEY : pair->mr->lkey };
		struct ibv_recv_wr wr = { .wr_id = 0xb00000000 + (unsigned int)i, .sg_list = &sge, .num_sge = 1 };
		struct ibv_recv_wr *bad;

		if (pair->srq)
			REQUIRE(ibv_post_srq_recv(pair->srq, &wr, &bad) == 0);
		else
			REQUIRE(ibv_post_recv(pair->b, &wr, &bad) == 0);
	}
}

static void nothing_received(struct pair *pair)
{
	send_all(pair, IBV_WR_SEND, pair->mr->lkey, 0);
}

static void sends(struct pair *pair)
{
	receive_all(pair);
	send_all(pair, IBV_WR_SEND, pair->mr->lkey, 0);
}

static void bad_lkey(struct pair *pair)
{
	receive_all(pair);
	send_all(pair, IBV_WR_SEND, pair->mr->lkey ^ WRONG_KEY, 0);
}

static void bad_rkey(struct pair *pair)
{
	receive_all(pair);
	send_all(pair, IBV_WR_RDMA_WRITE, pair->mr->lkey, pair->mr->rkey ^ WRONG_KEY);
}

static void move(struct ibv_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = { .qp_state = state };

	REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
}

static void dead_peer(struct pair *pair)
{
	REQUIRE(ibv_destroy_qp(pair->b) == 0);
	pair->b = NULL;
	send_all(pair, IBV_WR_SEND, pair->mr->lkey, 0);
}

static void reset_peer(struct pair *pair)
{
	move(pair->b, IBV_QPS_RESET);
	send_all(pair, IBV_WR_SEND, pair->mr->lkey, 0);
}

static void own_move(struct pair *pair)
{
	receive_all(pair);
	move(pair->b, IBV_QPS_ERR);
	printf("moved b\n");
}

// The CQ has room for fewer: rxe drops what does not fit, and says so by an event.
static void overrun(struct pair *pair)
{
	struct ibv_async_event event;

	receive_all(pair);
	send_all(pair, IBV_WR_SEND, pair->mr->lkey, 0);
	REQUIRE(ibv_get_async_event(pair->context, &event) == 0);
	printf("event %d\n", event.event_type);
	ibv_ack_async_event(&event);
}

static const struct what cases[] = {
	{ "rnr", nothing_received, { .receive_length = 1024 }, SENDS, 0 },
	{ "bad_lkey", bad_lkey, { .receive_length = 1024 }, SENDS, 0 },
	{ "bad_rkey", bad_rkey, { .receive_length = 1024 }, SENDS, RECEIVES },
	{ "unsignalled", bad_rkey, { .receive_length = 1024, .unsignalled = true }, SENDS, RECEIVES },
	{ "dead_peer", dead_peer, { .receive_length = 1024 }, SENDS, 0 },
	{ "reset_peer", reset_peer, { .receive_length = 1024 }, SENDS, 0 },
	{ "too_long", sends, { .receive_length = 16 }, SENDS, RECEIVES },
	{ "receive_bad_lkey", sends, { .receive_length = 1024, .receive_key_is_wrong = true }, SENDS, RECEIVES },
	{ "own_move", own_move, { .receive_length = 1024 }, 0, RECEIVES },
	{ "overrun", overrun, { .receive_length = 1024, .a_cqe = 1 }, 1, RECEIVES },
	{ "extended", bad_rkey, { .receive_length = 1024, .extended = true }, SENDS, RECEIVES },
	{ "srq", sends, { .receive_length = 16, .srq = true }, SENDS, 1 },
};

static void say(struct pair *pair, unsigned int status, uint32_t qp_num, uint32_t vendor_err, uint64_t wr_id)
{
	const char *who = qp_num == pair->a_num ? "a" : qp_num == pair->b_num ? "b" : "?";

	if (status != IBV_WC_SUCCESS)
		printf("completion %s status %u vendor_err %u wr_id %llu\n", who, status, vendor_err,
		       (unsigned long long)wr_id);
}

static int take_extended(struct pair *pair, struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr attr = { 0 };
	int n = 0;

	if (ibv_start_poll(cq, &attr))
		return 0;
	do {
		say(pair, cq->status, ibv_wc_read_qp_num(cq), ibv_wc_read_vendor_err(cq), cq->wr_id);
		n++;
	} while (!ibv_next_poll(cq));
	ibv_end_poll(cq);
	return n;
}

static int take(struct pair *pair, struct ibv_cq *cq)
{
	struct ibv_wc wc[3];
	int n;

	if (pair->wants.extended)
		return take_extended(pair, (struct ibv_cq_ex *)cq);
	n = ibv_poll_cq(cq, 3, wc);
	REQUIRE(n >= 0);
	for (int i = 0; i < n; i++)
		say(pair, wc[i].status, wc[i].qp_num, wc[i].vendor_err, wc[i].wr_id);
	return n;
}

static void take_until(struct pair *pair, struct ibv_cq *cq, int wanted)
{
	time_t end = time(NULL) + LONGEST_WAIT;
	int n = 0;

	while (n < wanted && time(NULL) < end) {
		int more = take(pair, cq);

		n += more;
		if (!more)
			nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
	}
	printf("polled %d of %d\n", n, wanted);
}

int main(int argc, char **argv)
{
	const struct what *what = cases, *end = cases + sizeof(cases) / sizeof(cases[0]);

	while (argc > 1 && what < end && strcmp(what->name, argv[1]))
		what++;
	if (argc < 2 || what == end) {
		fprintf(stderr, "usage: failures CASE [DEVICE [GID-INDEX]]\n");
		return 2;
	}
	struct pair pair = { .wants = what->wants };

	pair_open(&pair, argc > 2 ? argv[2] : "rxe0", argc > 3 ? atoi(argv[3]) : 1);
	what->act(&pair);
	take_until(&pair, pair.a_cq, what->a_completions);
	take_until(&pair, pair.b_cq, what->b_completions);
	pair_close(&pair);
	printf("all destroyed and closed\n");
	return 0;
}
