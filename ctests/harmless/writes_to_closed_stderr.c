// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A program that has closed its stderr and writes there all the same, in a thread that goes on to the very end.

#include "harmless.h"

static volatile int writing;

static void *write_on(void *argument)
{
	for (;;) {
		if (write(2, "JUNK\n", 5) < 0)
			writing = 1;
	}
	return argument;
}

int main(void)
{
	pthread_t thread;

	close(2);
	open_round_close();
	REQUIRE(pthread_create(&thread, NULL, write_on, NULL) == 0);
	while (!writing)
		continue;
	printf("one round\n");
	return 0;
}
