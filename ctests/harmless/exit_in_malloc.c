// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A signal handler calls exit(3), most often in the middle of malloc, whose lock this thread then holds.

#include <signal.h>
#include <sys/time.h>

#include "harmless.h"

static void handler(int signal)
{
	(void)signal;
	exit(7);
}

static void *idle(void *argument)
{
	for (;;)
		pause();
	return argument;
}

int main(void)
{
	struct itimerval soon = { .it_value = { .tv_usec = 3000 } };
	static void *volatile memory[64];
	pthread_t thread;

	// malloc takes its lock only when there is a second thread.
	REQUIRE(pthread_create(&thread, NULL, idle, NULL) == 0);
	open_round_close();
	signal(SIGALRM, handler);
	REQUIRE(setitimer(ITIMER_REAL, &soon, NULL) == 0);
	for (unsigned i = 0;; i++) {
		free(memory[i % 64]);
		memory[i % 64] = malloc(2000 + i * 7919 % 60000);
	}
}
