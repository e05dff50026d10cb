// SPDX-License-Identifier: MIT OR Apache-2.0
//
// handler FORM [MS]: the thread that handles an event destroys the object in the handler, before the ack. After MS
// milliseconds another thread acknowledges.

#include "ledger.h"

static struct thing t;

static void *handle(void *argument)
{
	i_am_called("handler");
	say_thread("handler");
	struct ibv_async_event event = inject_and_take(&t, 0);
	(void)event;
	sleep_ms(150);
	destroy_and_say(&t);
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	REQUIRE(argc > 1);
	t = make(argv[1]);
	say_thing("object", &t);
	struct ibv_async_event event = event_of(&t, 0);
	REQUIRE(pthread_create(&thread, NULL, handle, NULL) == 0);
	if (argc > 2) {
		sleep_ms(atoi(argv[2]));
		ack(&t, &event);
	}
	REQUIRE(pthread_join(thread, NULL) == 0);
	close_all(&t);
	return 0;
}
