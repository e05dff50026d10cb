/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Measures how long a program that has nothing to do with RDMA takes from its start until its end is
 * known: without the shim, and under the preload with completions off, as it is by default, and with all
 * of them counted and a report.
 *
 *   startup SHIM ROUNDS PROGRAM   one line "startup VARIANT NANOSECONDS" for each run
 */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define VARIANTS 4

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static double run(char *program, char **environment)
{
	char *arguments[] = { program, NULL };
	double start = now();
	int status, error;
	pid_t pid;

	error = posix_spawn(&pid, program, NULL, NULL, arguments, environment);
	if (error) {
		fprintf(stderr, "startup: %s: %s\n", program, strerror(error));
		exit(1);
	}
	if (waitpid(pid, &status, 0) != pid || status) {
		fprintf(stderr, "startup: %s failed\n", program);
		exit(1);
	}
	return now() - start;
}

int main(int argc, char **argv)
{
	static const char *const names[VARIANTS] = { "none", "off", "errors", "full" };
	char path[] = "PATH=/usr/bin:/bin", report[] = "IBV_SA_REPORT=text";
	char off[] = "IBV_SA_CQ=off", full[] = "IBV_SA_CQ=full";
	char *preload;
	int rounds;

	if (argc != 4) {
		fputs("usage: startup SHIM ROUNDS PROGRAM\n", stderr);
		return 1;
	}
	rounds = atoi(argv[2]);
	if (asprintf(&preload, "LD_PRELOAD=%s", argv[1]) < 0)
		return 1;

	char *environments[VARIANTS][5] = {
		{ path },
		{ path, preload, off },
		{ path, preload },
		{ path, preload, full, report },
	};

	for (int round = 0; round < rounds; round++) {
		/* Each goes first in its turn. */
		for (int i = 0; i < VARIANTS; i++) {
			int variant = (round + i) % VARIANTS;

			printf("startup %s %.0f\n", names[variant], run(argv[3], environments[variant]));
		}
	}
	free(preload);
	return 0;
}
