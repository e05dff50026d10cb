// SPDX-License-Identifier: MIT OR Apache-2.0
//
// cancel_waiting FORM: a thread waits in the destroy of an object whose event the main thread holds; it is cancelled
// when it has waited for 1.3 s. Then everything goes on, with as many threads as before.

#include <dirent.h>

#include "ledger.h"

static struct thing t;
static volatile int cleaned;

static int tasks(void)
{
	DIR *dir = opendir("/proc/self/task");
	int n = -2;

	REQUIRE(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void clean(void *argument)
{
	(void)argument;
	cleaned++;
}

static void *wait_in_destroy(void *argument)
{
	i_am_called("victim");
	say_thread("victim");
	pthread_cleanup_push(clean, NULL);
	i_am_about_to_block();
	destroy_and_say(&t);
	pthread_cleanup_pop(0);
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	void *result;

	REQUIRE(argc == 2);
	i_am_called("main");
	t = make(argv[1]);
	say_thing("object", &t);
	say_thread("thread");
	inject_and_take(&t, 0);
	int before = tasks();
	REQUIRE(pthread_create(&thread, NULL, wait_in_destroy, NULL) == 0);
	wait_until_blocked();
	sleep_ms(1300);
	REQUIRE(pthread_cancel(thread) == 0);
	REQUIRE(pthread_join(thread, &result) == 0);
	say("cancelled=%d cleaned=%d", result == PTHREAD_CANCELED, cleaned);
	round_in_another_thread(t.context);
	// A helper of the library may take a moment to notice that the wait is over.
	int after = tasks();
	for (int i = 0; i < 300 && after != before; i++) {
		sleep_ms(10);
		after = tasks();
	}
	say("threads=%+d", after - before);
	return 0;
}
