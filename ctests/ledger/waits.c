// SPDX-License-Identifier: MIT OR Apache-2.0
//
// waits FORM N APART: N threads wait in the destroys of N objects, begun so many milliseconds apart, whose events the
// main thread holds. It acknowledges the last object's first, 1.3 s after the last destroy began.

#include "ledger.h"

enum { MOST = 128 };

static struct thing things[MOST];

static void *wait_in_destroy(void *argument)
{
	struct thing *t = argument;
	char key[32];

	i_am_called("waiter");
	snprintf(key, sizeof(key), "waiter%d", (int)(t - things));
	say_thread(key);
	REQUIRE(destroy(t) == 0);
	return NULL;
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_first();
	struct ibv_async_event events[MOST];
	pthread_t threads[MOST];

	REQUIRE(argc == 4);
	int n = atoi(argv[2]);
	i_am_called("main");
	say_thread("main");
	for (int i = 0; i < n; i++) {
		char key[32];

		things[i] = make_on(context, argv[1]);
		snprintf(key, sizeof(key), "object%d", i);
		say_thing(key, &things[i]);
		events[i] = inject_and_take(&things[i], 0);
	}
	for (int i = 0; i < n; i++) {
		sleep_ms(atoi(argv[3]));
		REQUIRE(pthread_create(&threads[i], NULL, wait_in_destroy, &things[i]) == 0);
	}
	sleep_ms(1300);
	for (int i = n - 1; i >= 0; i--)
		ack(&things[i], &events[i]);
	for (int i = 0; i < n; i++) {
		REQUIRE(pthread_join(threads[i], NULL) == 0);
		close_rest(&things[i]);
	}
	REQUIRE(ibv_close_device(context) == 0);
	say("destroyed=%d", n);
	return 0;
}
