/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * lint_waits WHAT: arms a CQ, polls it and waits for its event, in one of several ways: wrong ones (bad_*), in which a
 * completion could be missed, and right ones. The channel does not block: where a program would wait, the get says
 * EAGAIN. Prints cq=, as the library calls it, thread=, and events=, how many were got.
 */
#include "ledger/ledger.h"

#include <fcntl.h>

static struct ibv_context *context;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq, *other;
static struct ibv_qp *qp;
static int events;

static void post(int n)
{
	struct ibv_recv_wr wr = { 0 }, *bad;

	while (n--)
		REQUIRE(ibv_post_recv(qp, &wr, &bad) == 0);
}

static void arrive(int n)
{
	struct ibv_wc wc = { .qp_num = qp->qp_num, .opcode = IBV_WC_RECV };

	while (n--)
		REQUIRE(scripted_wc(cq, &wc, 1) == 0);
}

/* Asks for as many as `room`; `n` are there. */
static void poll_for(int room, int n)
{
	struct ibv_wc wc[8];

	REQUIRE(ibv_poll_cq(cq, room, wc) == n);
}

static void arm(void)
{
	REQUIRE(ibv_req_notify_cq(cq, 0) == 0);
}

static void handle(struct ibv_cq *got)
{
	ibv_ack_cq_events(got, 1);
	events++;
}

/* One place in the program. */
static __attribute__((noinline)) void wait_here(void)
{
	struct ibv_cq *got;
	void *cq_context;

	if (ibv_get_cq_event(channel, &got, &cq_context))
		REQUIRE(errno == EAGAIN);
	else
		handle(got);
}

/* Another one. */
static __attribute__((noinline)) void wait_there(void)
{
	struct ibv_cq *got;
	void *cq_context;

	if (ibv_get_cq_event(channel, &got, &cq_context) == 0)
		handle(got);
}

/* Receives are posted, one has come and was polled, and the CQ is empty. */
static void work(void)
{
	post(4);
	arrive(1);
	poll_for(8, 1);
	poll_for(8, 0);
}

static void play(const char *what)
{
	if (!strcmp(what, "bad_arm")) {
		work();
		arm();
		wait_here();
	} else if (!strcmp(what, "bad_arm_again")) {
		work();
		for (int i = 0; i < 3; i++) {
			arm();
			wait_here();
		}
		wait_there();
	} else if (!strcmp(what, "bad_full")) {
		work();
		arm();
		arrive(3);
		poll_for(2, 2);
		wait_here();
	} else if (!strcmp(what, "poll_after_arm")) {
		work();
		for (int i = 0; i < 3; i++) {
			arm();
			poll_for(8, 0);
			wait_here();
		}
	} else if (!strcmp(what, "until_empty")) {
		work();
		arm();
		arrive(3);
		poll_for(2, 2);
		poll_for(2, 1);
		wait_here();
	} else if (!strcmp(what, "one_of_one")) {
		work();
		arm();
		arrive(1);
		poll_for(1, 1);
		wait_here();
	} else if (!strcmp(what, "arm_first")) {
		post(4);
		arm();
		wait_here();
	} else if (!strcmp(what, "post_after_arm")) {
		work();
		arm();
		post(1);
		wait_here();
	} else if (!strcmp(what, "nothing_posted")) {
		post(1);
		arrive(1);
		poll_for(8, 1);
		arm();
		wait_here();
	} else if (!strcmp(what, "solicited")) {
		work();
		REQUIRE(ibv_req_notify_cq(cq, 1) == 0);
		wait_here();
	} else if (!strcmp(what, "event_is_there")) {
		work();
		arm();
		arrive(1);
		REQUIRE(scripted_comp(channel, cq) == 0);
		wait_here();
		/* Whoever handles the event of one CQ waits for the others before it polls. */
		wait_here();
		poll_for(8, 1);
	} else if (!strcmp(what, "still_armed")) {
		work();
		arm();
		poll_for(8, 0);
		arm();
		wait_here();
	} else {
		REQUIRE(!strcmp(what, "other_cq"));
		work();
		REQUIRE(ibv_req_notify_cq(other, 0) == 0);
		wait_here();
	}
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	REQUIRE(argc == 2 && list && list[0]);
	REQUIRE(context = ibv_open_device(list[0]));
	ibv_free_device_list(list);
	struct ibv_pd *pd = ibv_alloc_pd(context);

	REQUIRE(pd);
	REQUIRE(channel = ibv_create_comp_channel(context));
	REQUIRE(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
	REQUIRE(cq = ibv_create_cq(context, 16, NULL, channel, 0));
	REQUIRE(other = ibv_create_cq(context, 16, NULL, channel, 0));
	struct ibv_qp_init_attr attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };

	REQUIRE(qp = ibv_create_qp(pd, &attr));
	struct thing of_cq = { .kind = CQ, .context = context, .its_cq = cq };

	say_thing("cq", &of_cq);
	say("thread=thread %d (%s)", (int)syscall(SYS_gettid), program_invocation_short_name);
	play(argv[1]);
	say("events=%d", events);
	REQUIRE(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_destroy_cq(other) == 0);
	REQUIRE(ibv_destroy_comp_channel(channel) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
	return 0;
}
