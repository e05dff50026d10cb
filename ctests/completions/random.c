// SPDX-License-Identifier: MIT OR Apache-2.0
//
// random SEED POLLS: completions of random statuses and opcodes in batches of random sizes, on a plain and on an
// extended CQ, of four QPs. Prints what the program counted: polled=, failed=, and for each that occurred opcode=NAME NUMBER,
// status=NAME NUMBER, and failure=QP-NUMBER NUMBER, flush=QP-NUMBER NUMBER.

#include "completions.h"

enum { QPS = 4, LARGEST = 40, STATUSES = 34, OTHER = 20, OPCODES = 21 };

static const char *const opcode_names[OPCODES] = {
	"SEND", "RDMA_WRITE", "RDMA_READ", "COMP_SWAP", "FETCH_ADD", "BIND_MW", "LOCAL_INV", "TSO",
	"FLUSH", "ATOMIC_WRITE", "RECV", "RECV_RDMA_WITH_IMM", "TM_ADD", "TM_DEL", "TM_SYNC", "TM_RECV",
	"TM_NO_TAG", "DRIVER1", "DRIVER2", "DRIVER3", "other",
};

static struct ibv_qp *qps[QPS];
static unsigned long polled, failed, opcodes[OPCODES], statuses[STATUSES], failures[QPS], flushed[QPS];
static uint64_t state;

// xorshift64: the same on every machine.
static unsigned int chance(unsigned int below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (unsigned int)(state >> 33) % below;
}

static struct ibv_wc random_completion(void)
{
	unsigned int status = chance(3) ? IBV_WC_SUCCESS : chance(STATUSES);
	struct ibv_wc wc = completion(status, qps[chance(QPS)]->qp_num, chance(1000), (int)chance(256));

	if (status == IBV_WC_SUCCESS) {
		unsigned int opcode = chance(12);

		wc.opcode = (enum ibv_wc_opcode)(chance(2) ? opcode : 128 + opcode);
	}
	return wc;
}

static void count(unsigned int status, unsigned int opcode, uint32_t qp_num)
{
	int qp = 0;

	polled++;
	if (status == IBV_WC_SUCCESS) {
		if (opcode < 10)
			opcodes[opcode]++;
		else if (opcode >= 128 && opcode < 138)
			opcodes[10 + opcode - 128]++;
		else
			opcodes[OTHER]++;
		return;
	}
	failed++;
	statuses[status]++;
	while (qps[qp]->qp_num != qp_num)
		REQUIRE(++qp < QPS);
	if (status == IBV_WC_WR_FLUSH_ERR)
		flushed[qp]++;
	else
		failures[qp]++;
}

static void poll_plain(struct ibv_cq *cq, int n)
{
	struct ibv_wc out[LARGEST];
	int room = 1 + (int)chance(LARGEST), got;

	while (n) {
		got = ibv_poll_cq(cq, room, out);
		REQUIRE(got == (room < n ? room : n));
		for (int i = 0; i < got; i++)
			count(out[i].status, out[i].opcode, out[i].qp_num);
		n -= got;
	}
}

static void poll_extended(struct ibv_cq_ex *cq, int n)
{
	struct ibv_poll_cq_attr attr = { 0 };

	REQUIRE(ibv_start_poll(cq, &attr) == 0);
	for (;;) {
		// Only of a good one is the opcode defined.
		unsigned int opcode = cq->status == IBV_WC_SUCCESS ? ibv_wc_read_opcode(cq) : 0;

		count(cq->status, opcode, ibv_wc_read_qp_num(cq));
		if (!--n)
			break;
		REQUIRE(ibv_next_poll(cq) == 0);
	}
	ibv_end_poll(cq);
}

static void say_counts(void)
{
	say("polled=%lu", polled);
	say("failed=%lu", failed);
	for (int i = 0; i < OPCODES; i++)
		if (opcodes[i])
			say("opcode=%s %lu", opcode_names[i], opcodes[i]);
	for (unsigned int i = 0; i < 31; i++)
		if (statuses[i])
			say("status=%s %lu", status_name(i), statuses[i]);
	// The library counts those from 31 on together.
	unsigned long rest = 0;
	for (int i = 31; i < STATUSES; i++)
		rest += statuses[i];
	if (rest)
		say("status=status 31 or above %lu", rest);
	for (int i = 0; i < QPS; i++) {
		say("failure=%u %lu", qps[i]->qp_num, failures[i]);
		say("flush=%u %lu", qps[i]->qp_num, flushed[i]);
	}
}

int main(int argc, char **argv)
{
	REQUIRE(argc == 3);
	state = strtoull(argv[1], NULL, 10) * 0x9e3779b97f4a7c15ULL + 1;
	struct thing t = make("cq");
	struct ibv_cq_init_attr_ex attr = { .cqe = 64, .wc_flags = IBV_WC_EX_WITH_QP_NUM };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(t.context, &attr);
	struct ibv_wc in[LARGEST];

	REQUIRE(cq);
	for (int i = 0; i < QPS; i++)
		qps[i] = qp_on(t.pd, t.its_cq, ibv_cq_ex_to_cq(cq));
	for (int left = atoi(argv[2]); left; left--) {
		int n = 1 + (int)chance(LARGEST);
		bool extended = chance(2);

		for (int i = 0; i < n; i++)
			in[i] = random_completion();
		REQUIRE(scripted_wc(extended ? ibv_cq_ex_to_cq(cq) : t.its_cq, in, n) == 0);
		if (extended)
			poll_extended(cq, n);
		else
			poll_plain(t.its_cq, n);
	}
	say_counts();
	for (int i = 0; i < QPS; i++)
		REQUIRE(ibv_destroy_qp(qps[i]) == 0);
	REQUIRE(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
	REQUIRE(destroy(&t) == 0);
	close_all(&t);
	return 0;
}
