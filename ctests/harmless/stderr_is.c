// SPDX-License-Identifier: MIT OR Apache-2.0
//
// stderr_is WHAT [FILE]: an RDMA program whose stderr is
//   closed    from the start, and whose next file (FILE) gets the number 2
//   replaced  by FILE after the first RDMA call
//   broken    a pipe that nobody reads; counts SIGPIPE
//   full      a pipe that takes no more
// It says on stdout what became of it.

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "harmless.h"

static volatile int signals;

static void handler(int signal)
{
	(void)signal;
	signals++;
}

static void fill(int fd)
{
	char page[4096] = { 0 };

	REQUIRE(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
	while (write(fd, page, sizeof(page)) > 0)
		continue;
	while (write(fd, page, 1) > 0)
		continue;
	REQUIRE(errno == EAGAIN);
	REQUIRE(fcntl(fd, F_SETFL, 0) == 0);
}


int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int fds[2], fd;

	signal(SIGPIPE, handler);
	if (!strcmp(what, "closed")) {
		close(2);
		open_round_close();
		fd = open(argv[2], O_CREAT | O_WRONLY | O_TRUNC, 0644);
		REQUIRE(fd == 2);
		open_round_close();
	} else if (!strcmp(what, "replaced")) {
		open_round_close();
		fd = open(argv[2], O_CREAT | O_WRONLY | O_TRUNC, 0644);
		REQUIRE(fd >= 0 && dup2(fd, 2) == 2);
		open_round_close();
	} else if (!strcmp(what, "broken") || !strcmp(what, "full")) {
		REQUIRE(pipe(fds) == 0);
		REQUIRE(dup2(fds[1], 2) == 2);
		close(fds[1]);
		if (!strcmp(what, "full"))
			fill(2);
		else
			close(fds[0]);
		open_round_close();
	}
	printf("%s: alive %d, signals %d\n", what, scripted_alive(), signals);
	return 0;
}
