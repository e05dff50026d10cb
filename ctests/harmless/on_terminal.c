// SPDX-License-Identifier: MIT OR Apache-2.0
//
// on_terminal background PROGRAM: the program is a background job of a terminal with `stty tostop`
// on_terminal full ROOM PROGRAM: its stderr is a terminal that nobody reads, which has room for so many bytes
// Says how the program ended. Its stdout is ours.

#define _GNU_SOURCE // posix_openpt
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

#include "harmless.h"

static pid_t start(const char *program, int terminal, bool own_group)
{
	pid_t pid = fork();

	REQUIRE(pid >= 0);
	if (pid)
		return pid;
	if (own_group)
		REQUIRE(setpgid(0, 0) == 0);
	REQUIRE(dup2(terminal, 2) == 2);
	execl(program, program, (char *)NULL);
	_exit(127);
}

// Gives it five seconds.
static void wait_and_say(pid_t pid)
{
	for (int i = 0; i < 500; i++) {
		int status;
		pid_t ended = waitpid(pid, &status, WNOHANG | WUNTRACED);

		REQUIRE(ended >= 0);
		if (ended == 0) {
			usleep(10000);
		} else if (WIFSTOPPED(status)) {
			printf("stopped by signal %d\n", WSTOPSIG(status));
			kill(pid, SIGKILL);
			return;
		} else {
			printf("ended with %d\n", status);
			return;
		}
	}
	printf("hangs\n");
	kill(pid, SIGKILL);
}

static void fill(int master, int terminal, int room)
{
	char bytes[4096];

	memset(bytes, 'x', sizeof(bytes));
	REQUIRE(fcntl(terminal, F_SETFL, O_RDWR | O_NONBLOCK) == 0);
	while (write(terminal, bytes, 64) > 0)
		continue;
	REQUIRE(errno == EAGAIN);
	REQUIRE(fcntl(terminal, F_SETFL, O_RDWR) == 0);
	while (room > 0) {
		ssize_t got = read(master, bytes, room < 4096 ? (size_t)room : sizeof(bytes));

		REQUIRE(got > 0);
		room -= (int)got;
	}
}

int main(int argc, char **argv)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);

	REQUIRE(argc >= 3 && master >= 0);
	REQUIRE(grantpt(master) == 0 && unlockpt(master) == 0);
	int terminal = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	REQUIRE(terminal >= 0);
	if (!strcmp(argv[1], "full")) {
		fill(master, terminal, atoi(argv[2]));
		wait_and_say(start(argv[3], terminal, false));
		return 0;
	}
	pid_t leader = fork();
	REQUIRE(leader >= 0);
	if (leader == 0) {
		struct termios settings;

		// A session of our own, with this terminal; we are its foreground.
		REQUIRE(setsid() > 0);
		REQUIRE(ioctl(terminal, TIOCSCTTY, 0) == 0);
		REQUIRE(tcgetattr(terminal, &settings) == 0);
		settings.c_lflag |= TOSTOP;
		REQUIRE(tcsetattr(terminal, TCSANOW, &settings) == 0);
		wait_and_say(start(argv[2], terminal, true));
		fflush(stdout);
		// The end of the session's leader raises SIGHUP; nobody is left for it.
		_exit(0);
	}
	REQUIRE(waitpid(leader, NULL, 0) == leader);
	char text[65536];
	REQUIRE(fcntl(master, F_SETFL, O_RDWR | O_NONBLOCK) == 0);
	// Sent on as it came.
	for (ssize_t got; (got = read(master, text, sizeof(text))) > 0;)
		REQUIRE(write(2, text, (size_t)got) == got);
	return 0;
}
