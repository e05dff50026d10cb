// SPDX-License-Identifier: MIT OR Apache-2.0
//
// fork_storm CHILDREN: eight threads do rounds, each on its own context, while the main thread forks
// children that do two rounds each. Prints how many rounds the parent's threads did.

#include <stdatomic.h>

#include "harmless.h"

#define THREADS 8

static atomic_int stop;
static atomic_long rounds;

static void *worker(void *argument)
{
	struct ibv_context *context = open_first();

	while (!atomic_load(&stop)) {
		one_round(context);
		atomic_fetch_add(&rounds, 1);
	}
	REQUIRE(ibv_close_device(context) == 0);
	return argument;
}

int main(int argc, char **argv)
{
	int children = argc > 1 ? atoi(argv[1]) : 10, good = 0, status;
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, worker, NULL) == 0);
	for (int i = 0; i < children; i++) {
		pid_t pid = fork();

		REQUIRE(pid >= 0);
		if (pid == 0) {
			open_round_close();
			open_round_close();
			exit(3);
		}
		REQUIRE(waitpid(pid, &status, 0) == pid);
		good += WIFEXITED(status) && WEXITSTATUS(status) == 3;
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < THREADS; i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
	printf("good children: %d of %d\n", good, children);
	fprintf(stderr, "rounds %ld\n", atomic_load(&rounds));
	return 0;
}
