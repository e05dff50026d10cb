// SPDX-License-Identifier: MIT OR Apache-2.0
//
// exit_waiting FORM MS exit|_exit|kill: the program ends while a thread has waited for MS milliseconds in a destroy.

#include "ledger.h"

static struct thing t;

static void *wait_in_destroy(void *argument)
{
	i_am_called("waiter");
	say_thread("waiter");
	i_am_about_to_block();
	destroy_and_say(&t);
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	REQUIRE(argc == 4);
	t = make(argv[1]);
	i_am_called("main");
	say_thing("object", &t);
	say_thread("thread");
	inject_and_take(&t, 0);
	REQUIRE(pthread_create(&thread, NULL, wait_in_destroy, NULL) == 0);
	wait_until_blocked();
	sleep_ms(atoi(argv[2]));
	if (!strcmp(argv[3], "kill"))
		kill(getpid(), SIGTERM);
	if (!strcmp(argv[3], "_exit"))
		_exit(5);
	exit(5);
}
