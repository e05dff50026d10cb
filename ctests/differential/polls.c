// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The differential test: completions, polled through more providers than a shim can have hooks for,
// and through extended CQs.

#include <string.h>

#include "differential.h"

#define DEVICES 24

static void make_wc(struct ibv_wc *wc, int i)
{
	// Every byte is told apart, and every status occurs: also some that do not exist.
	memset(wc, 0x21 + i, sizeof(*wc));
	wc->wr_id = 0x1111111111111111ULL * (unsigned int)(i + 1);
	wc->status = i % 5 == 4 ? (enum ibv_wc_status)(100 + i) : (enum ibv_wc_status)(i % 3 * 5);
	wc->opcode = i % 2 ? IBV_WC_RECV : IBV_WC_SEND;
}

static uint32_t hash_of(const void *memory, size_t size)
{
	const unsigned char *bytes = memory;
	uint32_t hash = 2166136261u;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return hash;
}

static void poll(struct ibv_cq *cq, int n)
{
	struct ibv_wc wc[32];

	memset(wc, 0xcc, sizeof(wc));
	errno = UNTOUCHED;
	int got = OFFERED(ibv_poll_cq)(cq, n, wc);
	say("poll %d = %d errno %d, %08x\n", n, got, errno, hash_of(wc, sizeof(wc)));
	// The header's own function jumps through the table in the context.
	errno = UNTOUCHED;
	got = ibv_poll_cq(cq, 0, wc);
	say("poll 0 = %d errno %d\n", got, errno);
}

void scenario_polls(void)
{
	struct ibv_context *contexts[DEVICES];
	struct ibv_cq *cqs[DEVICES];
	struct ibv_wc wc[20];

	say("SCENARIO polls\n");
	scripted.devices(DEVICES);
	struct ibv_device **list = ibv_get_device_list(NULL);
	for (int i = 0; i < 20; i++)
		make_wc(&wc[i], i);
	// Two rounds: the second finds addresses and functions that it has seen.
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < DEVICES; i++) {
			contexts[i] = ibv_open_device(list[i]);
			MUST(contexts[i]);
			cqs[i] = ibv_create_cq(contexts[i], 100, NULL, NULL, 0);
			MUST(cqs[i]);
		}
		for (int i = 0; i < DEVICES; i++) {
			poll(cqs[i], 4);
			MUST(!scripted.wc(cqs[i], &wc[i % 10], 10));
			poll(cqs[i], 1);
			poll(cqs[i], 8);
			poll(cqs[i], 32);
			poll(cqs[i], -1);
		}
		for (int i = DEVICES - 1; i >= 0; i--) {
			errno = UNTOUCHED;
			say_int("destroy_cq", ibv_destroy_cq(cqs[i]));
			say_int("close", ibv_close_device(contexts[i]));
		}
	}
	ibv_free_device_list(list);
	scripted.devices(3);
}

// ---- extended CQs ---------------------------------------------------------------------------

static void read_all(struct ibv_cq_ex *cq)
{
	struct ibv_wc_tm_info tm_info = { .tag = 1, .priv = 2 };

	say(" status %d wr_id 0x%llx\n", cq->status, (unsigned long long)cq->wr_id);
#define READ(member) say(" " #member " 0x%x\n", (unsigned int)OFFERED(ibv_wc_read_##member)(cq))
	READ(opcode);
	READ(vendor_err);
	READ(byte_len);
	READ(imm_data);
	READ(qp_num);
	READ(src_qp);
	READ(wc_flags);
	READ(slid);
	READ(sl);
	READ(dlid_path_bits);
	OFFERED(ibv_wc_read_tm_info)(cq, &tm_info);
}

void scenario_extended(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(list[1]);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq_init_attr_ex attr = { .cqe = 20, .cq_context = &attr, .channel = channel };
	struct ibv_poll_cq_attr poll_attr = { .comp_mask = 0 }, wrong = { .comp_mask = 1 };
	struct ibv_wc wc[8];

	say("SCENARIO extended CQ\n");
	for (int i = 0; i < 8; i++)
		make_wc(&wc[i], i);
	struct ibv_cq_ex *cq = OFFERED(ibv_create_cq_ex)(context, &attr);
	MUST(cq);
	say("context %s, channel %s\n", cq->cq_context == &attr ? "right" : "wrong",
	    cq->channel == channel ? "right" : "wrong");

	errno = UNTOUCHED;
	say_int("start_poll", OFFERED(ibv_start_poll)(cq, &poll_attr));
	say_int("start_poll", OFFERED(ibv_start_poll)(cq, &wrong));
	MUST(!scripted.wc((struct ibv_cq *)cq, wc, 5));
	errno = UNTOUCHED;
	say_int("start_poll", OFFERED(ibv_start_poll)(cq, &poll_attr));
	read_all(cq);
	for (int i = 0; i < 2; i++) {
		errno = UNTOUCHED;
		say_int("next_poll", OFFERED(ibv_next_poll)(cq));
		read_all(cq);
	}
	OFFERED(ibv_end_poll)(cq);
	// The old way works on it as well.
	poll((struct ibv_cq *)cq, 1);
	errno = UNTOUCHED;
	say_int("start_poll", ibv_start_poll(cq, &poll_attr));
	say_int("next_poll", ibv_next_poll(cq));
	ibv_end_poll(cq);

	struct ibv_cq *got = NULL;
	void *got_context = NULL;
	MUST(!scripted.comp(channel, (struct ibv_cq *)cq));
	errno = UNTOUCHED;
	say_int("get_cq", ibv_get_cq_event(channel, &got, &got_context));
	say(" %s\n", got == (struct ibv_cq *)cq && got_context == &attr ? "right" : "wrong");
	ibv_ack_cq_events(got, 1);
	errno = UNTOUCHED;
	say_int("destroy_cq", ibv_destroy_cq((struct ibv_cq *)cq));
	say_int("destroy_channel", ibv_destroy_comp_channel(channel));
	say_int("close", ibv_close_device(context));
	ibv_free_device_list(list);
}
