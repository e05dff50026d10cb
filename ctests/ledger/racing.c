// SPDX-License-Identifier: MIT OR Apache-2.0
//
// racing FORM EARLY MS: a destroy takes its time before it takes back what nobody has read; meanwhile another thread gets an
// event of the object. It acknowledges MS milliseconds later (never, if MS is 0), or not at all if an ack was given
// before (EARLY is 1).

#include "ledger.h"

static struct thing t;

static void *destroy_slowly(void *argument)
{
	i_am_called("destroyer");
	say_thread("destroyer");
	destroy_and_say(&t);
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	REQUIRE(argc == 4);
	bool early = atoi(argv[2]);
	int ms = atoi(argv[3]);
	t = make(argv[1]);
	i_am_called("reader");
	say_thing("object", &t);
	say_thread("reader");
	struct ibv_async_event event = event_of(&t, 0);
	if (early)
		ack(&t, &event);
	scripted_delay(destroy_function(&t), 300);
	REQUIRE(pthread_create(&thread, NULL, destroy_slowly, NULL) == 0);
	while (!scripted_calls(destroy_function(&t)))
		sleep_ms(1);
	sleep_ms(100);
	inject_and_take(&t, 0);
	if (!early) {
		sleep_ms(ms ? ms : 100000);
		ack(&t, &event);
	}
	REQUIRE(pthread_join(thread, NULL) == 0);
	scripted_reset();
	close_all(&t);
	return 0;
}
