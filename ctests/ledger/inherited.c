// SPDX-License-Identifier: MIT OR Apache-2.0
//
// inherited FORM fork|_Fork ACKS: a parent makes an object and gets an event; its child acknowledges that one, gets
// another one, acknowledges it that many times, and destroys its copy of the object. Then the parent does the
// same with its own.

#include "ledger.h"

static struct thing t;
static struct ibv_async_event first;

static void live(const char *who, int acks)
{
	struct ibv_async_event event;

	ack(&t, &first);
	event = inject_and_take(&t, 0);
	for (int i = 0; i < acks; i++)
		ack(&t, &event);
	say("%s_destroyed=%d", who, destroy(&t));
}

int main(int argc, char **argv)
{
	int status;

	REQUIRE(argc == 4);
	t = make(argv[1]);
	i_am_called("inherited");
	say_thing("object", &t);
	say_thread("thread");
	first = inject_and_take(&t, 0);
	pid_t pid = !strcmp(argv[2], "_Fork") ? _Fork() : fork();
	if (pid == 0) {
		live("child", atoi(argv[3]));
		exit(3);
	}
	REQUIRE(pid > 0);
	REQUIRE(waitpid(pid, &status, 0) == pid);
	say("child_ended=%d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	live("parent", 1);
	close_all(&t);
	return 0;
}
