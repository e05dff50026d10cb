// SPDX-License-Identifier: MIT OR Apache-2.0
//
// readers N: events of one context, port and QP events in turn, are read by N threads, one after the other; all live on
// until the last is done.

#include "ledger.h"

static struct ibv_context *context;
static struct thing t;
static volatile bool done;

static void *read_two(void *argument)
{
	struct ibv_async_event event;
	char name[16];

	snprintf(name, sizeof(name), "reader%d", (int)(intptr_t)argument);
	i_am_called(name);
	say_thread(name);
	REQUIRE(scripted_async(context, IBV_EVENT_PORT_ACTIVE, (void *)2) == 0);
	REQUIRE(ibv_get_async_event(context, &event) == 0);
	ibv_ack_async_event(&event);
	event = inject_and_take(&t, 0);
	ack(&t, &event);
	while (!done)
		sleep_ms(1);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[8];

	REQUIRE(argc == 2);
	int n = atoi(argv[1]);
	context = open_first();
	t = make_on(context, "qp");
	for (int i = 0; i < n; i++) {
		REQUIRE(pthread_create(&threads[i], NULL, read_two, (void *)(intptr_t)i) == 0);
		// One after the other; they read what they queued themselves.
		sleep_ms(20);
	}
	done = true;
	for (int i = 0; i < n; i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
	destroy_and_say(&t);
	close_all(&t);
	return 0;
}
