// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A preload for programs that only a signal ends (ibv_asyncwatch, rping -P): SIGTERM becomes exit(0), so
// that what runs at a normal exit runs. exit() is not async-signal-safe; these programs sit in a blocking
// read when the signal comes, and the test would fail, not pass, if that went wrong.
// Built with: cc -shared -fPIC exit_on_term.c

#include <signal.h>
#include <stddef.h>
#include <stdlib.h>

static void leave(int signal_number)
{
	(void)signal_number;
	exit(0);
}

__attribute__((constructor)) static void arm(void)
{
	struct sigaction action = { .sa_handler = leave };

	sigaction(SIGTERM, &action, NULL);
}
