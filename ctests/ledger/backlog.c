// SPDX-License-Identifier: MIT OR Apache-2.0
//
// backlog HOW: three port events are queued. Then 1.3 s pass, and the library takes a first look in a create; after
// another 1.3 s a second one, in a create or at exit.
//   edge      O_NONBLOCK; one event is got and then no more, as an edge-triggered reader without a loop
//   exit      the same, and nothing follows but the exit
//   drained   O_NONBLOCK; got until EAGAIN
//   blocking  without O_NONBLOCK one event is got
//   late      O_NONBLOCK, got until EAGAIN; then an event comes that is not waiting long
//   late2     the same without EAGAIN: one event was queued and is got; the next comes just before the second look
//   quick     as edge, but no time passes

#include "ledger.h"

static int get(struct ibv_context *context)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(context, &event))
		return -1;
	ibv_ack_async_event(&event);
	return 0;
}

static void queue(struct ibv_context *context)
{
	REQUIRE(scripted_async(context, IBV_EVENT_PORT_ERR, (void *)1) == 0);
}

static void make_and_destroy(struct ibv_context *context)
{
	struct thing t = make_on(context, "cq");

	REQUIRE(destroy(&t) == 0);
	REQUIRE(ibv_destroy_comp_channel(t.channel) == 0);
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_first();

	REQUIRE(argc == 2);
	const char *how = argv[1];
	if (strcmp(how, "blocking"))
		REQUIRE(fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0);
	for (int i = 0; i < (strcmp(how, "late2") ? 3 : 1); i++)
		queue(context);
	REQUIRE(get(context) == 0);
	if (!strcmp(how, "drained") || !strcmp(how, "late"))
		while (get(context) == 0)
			;
	if (strcmp(how, "quick"))
		sleep_ms(1300);
	if (!strcmp(how, "late2"))
		queue(context);
	double start = now();
	make_and_destroy(context);
	if (strcmp(how, "quick"))
		sleep_ms(1300);
	if (!strcmp(how, "late2")) {
		REQUIRE(get(context) == 0);
		queue(context);
	}
	if (!strcmp(how, "late"))
		queue(context);
	say("age=%.2f", now() - start);
	if (strcmp(how, "exit"))
		make_and_destroy(context);
	say("end=0");
	return 0;
}
