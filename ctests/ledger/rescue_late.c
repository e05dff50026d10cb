// SPDX-License-Identifier: MIT OR Apache-2.0
//
// rescue_late FORM REUSED: a thread holds an event while the main thread destroys the object, and acknowledges
// when the destroy is over. REUSED is `no`; or a new object came to live at the address: `idle`, or `open` if an event
// of it is open then (which the main thread acknowledges as well).

#include "ledger.h"

static struct thing t;
static volatile int phase;

static void *hold(void *argument)
{
	i_am_called("holder");
	say_thread("holder");
	struct ibv_async_event event = inject_and_take(&t, 0);
	phase = 1;
	while (phase < 2)
		sleep_ms(1);
	ack(&t, &event);
	return argument;
}

int main(int argc, char **argv)
{
	struct ibv_async_event event;
	pthread_t thread;

	REQUIRE(argc == 3);
	t = make(argv[1]);
	void *before = t.address;
	bool reused = strcmp(argv[2], "no");
	bool open = !strcmp(argv[2], "open");
	i_am_called("main");
	say_thing("object", &t);
	say_thread("thread");
	REQUIRE(pthread_create(&thread, NULL, hold, NULL) == 0);
	while (phase < 1)
		sleep_ms(1);
	REQUIRE(destroy_and_say(&t) == 0);
	if (reused) {
		create(&t);
		say("same=%s", t.address == before ? "yes" : "no");
		say_thing("new", &t);
	}
	if (open)
		event = inject_and_take(&t, 0);
	phase = 2;
	REQUIRE(pthread_join(thread, NULL) == 0);
	if (open)
		ack(&t, &event);
	if (reused)
		say("new_destroyed=%d", destroy(&t));
	close_all(&t);
	return 0;
}
