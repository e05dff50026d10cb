// SPDX-License-Identifier: MIT OR Apache-2.0
//
// parents_faults [lost]: a program with RDMA forks a child that ends by exit(3). With `lost` the parent's stderr is a
// pipe without a reader during its first call, and the child has a stderr again and a round of its own.

#include "harmless.h"

int main(int argc, char **argv)
{
	bool lost = argc > 1 && !strcmp(argv[1], "lost");
	int fds[2], status;
	int saved = dup(2);

	REQUIRE(saved > 2);
	if (lost) {
		REQUIRE(pipe(fds) == 0);
		close(fds[0]);
		REQUIRE(dup2(fds[1], 2) == 2);
	}
	open_round_close();
	open_round_close();
	REQUIRE(dup2(saved, 2) == 2);
	pid_t pid = fork();
	REQUIRE(pid >= 0);
	if (pid == 0) {
		if (lost)
			open_round_close();
		exit(0);
	}
	REQUIRE(waitpid(pid, &status, 0) == pid);
	printf("child ended with %d\n", status);
	return 0;
}
