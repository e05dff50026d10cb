// SPDX-License-Identifier: MIT OR Apache-2.0
//
// launch HOW PROGRAM ARGS...: starts a program by exec, posix_spawn or vfork and exec, and ends as it
// ends.

#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
	pid_t pid = -1;
	int status;

	if (argc < 3)
		return 2;
	if (!strcmp(argv[1], "exec")) {
		execv(argv[2], argv + 2);
		return 127;
	}
	if (!strcmp(argv[1], "posix_spawn")) {
		if (posix_spawn(&pid, argv[2], NULL, NULL, argv + 2, environ))
			return 127;
	} else if (!strcmp(argv[1], "vfork")) {
		pid = vfork();
		if (pid == 0) {
			execv(argv[2], argv + 2);
			_exit(127);
		}
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return 126;
	printf("%s: ended with %d\n", argv[1], WEXITSTATUS(status));
	return WEXITSTATUS(status);
}
