// SPDX-License-Identifier: MIT OR Apache-2.0
//
// environment_race TIMES: in so many children the first RDMA call is made while another thread sets variables,
// which moves the environment and what the heap holds in its old place.

#include "harmless.h"

static volatile int changing;

static void *change(void *argument)
{
	char name[32];

	for (int i = 0;; i++) {
		snprintf(name, sizeof(name), "NEW%d", i);
		setenv(name, "1", 1);
		// The place where the environment was is written over.
		size_t size = 25000 + 8 * (size_t)i;
		char *memory = malloc(size);
		if (memory)
			memset(memory, 'A', size);
		free(memory);
		changing = 1;
	}
	return argument;
}

static void child(void)
{
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, change, NULL) == 0);
	while (!changing)
		continue;
	REQUIRE(ibv_get_device_list(NULL));
	_exit(0);
}

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 1, good = 0;
	char name[32];

	for (int i = 0; i < 6000; i++) {
		snprintf(name, sizeof(name), "OLD%d", i);
		REQUIRE(setenv(name, "1", 1) == 0);
	}
	for (int i = 0; i < times; i++) {
		int status;
		pid_t pid = fork();

		REQUIRE(pid >= 0);
		if (pid == 0)
			child();
		REQUIRE(waitpid(pid, &status, 0) == pid);
		good += status == 0;
	}
	printf("good children: %d of %d\n", good, times);
	return 0;
}
