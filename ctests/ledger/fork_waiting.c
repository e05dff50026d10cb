// SPDX-License-Identifier: MIT OR Apache-2.0
//
// fork_waiting FORM fork|_Fork|vfork: while a thread waits in a destroy a child is made, which lives on its own: it
// makes, gets, acknowledges late and destroys; the child of vfork only ends. Then the parent's thread gets its ack.

#include "ledger.h"

static struct thing t;

static void *wait_in_destroy(void *argument)
{
	i_am_called("waiter");
	say_thread("waiter");
	i_am_about_to_block();
	destroy_and_say(&t);
	return argument;
}

static struct thing childs;

static void *acknowledge_late(void *argument)
{
	struct ibv_async_event event = event_of(&childs, 0);

	sleep_ms(1300);
	ack(&childs, &event);
	return argument;
}

static void child(const char *form)
{
	pthread_t thread;

	open_round_close();
	childs = make(form);
	i_am_called("child");
	say_thing("child_object", &childs);
	say_thread("child");
	inject_and_take(&childs, 0);
	REQUIRE(pthread_create(&thread, NULL, acknowledge_late, NULL) == 0);
	say("child_destroyed=%d", destroy(&childs));
	REQUIRE(pthread_join(thread, NULL) == 0);
	exit(3);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	pid_t pid;
	int status;

	REQUIRE(argc == 3);
	t = make(argv[1]);
	i_am_called("main");
	say_thing("object", &t);
	say_thread("main");
	struct ibv_async_event event = inject_and_take(&t, 0);
	REQUIRE(pthread_create(&thread, NULL, wait_in_destroy, NULL) == 0);
	wait_until_blocked();
	if (!strcmp(argv[2], "vfork")) {
		pid = vfork();
		if (pid == 0)
			_exit(3);
	} else {
		pid = !strcmp(argv[2], "_Fork") ? _Fork() : fork();
		if (pid == 0)
			child(argv[1]);
	}
	REQUIRE(pid > 0);
	REQUIRE(waitpid(pid, &status, 0) == pid);
	say("child_ended=%d", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	ack(&t, &event);
	REQUIRE(pthread_join(thread, NULL) == 0);
	close_all(&t);
	return 0;
}
