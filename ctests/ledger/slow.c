// SPDX-License-Identifier: MIT OR Apache-2.0
//
// slow FORM ACKS DELAY [MS]: an event is got and acknowledged that many times; then a destroy that takes DELAY
// milliseconds in the kernel. MS milliseconds after its begin another thread acknowledges once more.

#include "ledger.h"

static struct thing t;
static long ms;

static void *acknowledge(void *argument)
{
	struct ibv_async_event event = event_of(&t, 0);

	sleep_ms(ms);
	ack(&t, &event);
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	REQUIRE(argc >= 4);
	t = make(argv[1]);
	i_am_called("slow");
	say_thing("object", &t);
	say_thread("thread");
	struct ibv_async_event event = inject_and_take(&t, 0);
	for (int i = 0; i < atoi(argv[2]); i++)
		ack(&t, &event);
	scripted_delay(destroy_function(&t), atoi(argv[3]));
	if (argc > 4) {
		ms = atoi(argv[4]);
		REQUIRE(pthread_create(&thread, NULL, acknowledge, NULL) == 0);
	}
	destroy_and_say(&t);
	if (argc > 4)
		REQUIRE(pthread_join(thread, NULL) == 0);
	scripted_reset();
	close_all(&t);
	return 0;
}
