// SPDX-License-Identifier: MIT OR Apache-2.0
//
// late FORM EVENTS MS [ended]: a thread gets that many events, 100 ms apart, and acknowledges them MS
// milliseconds later (never, if MS is 0), while the main thread sits in the destroy. With `ended` the thread
// that got them is no more by then, and another one acknowledges.

#include "ledger.h"

static struct thing t;
static int events;
static long ms;
static bool ended;
static volatile bool taken;

static void acknowledge(void)
{
	sleep_ms(ms ? ms : 100000);
	for (int i = 0; i < events; i++) {
		struct ibv_async_event event = event_of(&t, i);

		ack(&t, &event);
	}
}

static void *read_events(void *argument)
{
	i_am_called("reader");
	say_thread("reader");
	for (int i = 0; i < events; i++) {
		if (i)
			sleep_ms(100);
		inject_and_take(&t, i);
	}
	taken = true;
	if (!ended)
		acknowledge();
	return argument;
}

static void *only_acknowledge(void *argument)
{
	acknowledge();
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	REQUIRE(argc >= 4);
	t = make(argv[1]);
	events = atoi(argv[2]);
	ms = atoi(argv[3]);
	ended = argc > 4;
	i_am_called("main");
	say_thing("object", &t);
	say_thread("thread");
	REQUIRE(pthread_create(&thread, NULL, read_events, NULL) == 0);
	while (!taken)
		sleep_ms(1);
	if (ended) {
		REQUIRE(pthread_join(thread, NULL) == 0);
		REQUIRE(pthread_create(&thread, NULL, only_acknowledge, NULL) == 0);
	}
	sleep_ms(200);
	destroy_and_say(&t);
	REQUIRE(pthread_join(thread, NULL) == 0);
	close_all(&t);
	return 0;
}
