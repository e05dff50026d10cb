// SPDX-License-Identifier: MIT OR Apache-2.0
//
// forks FORM [busy]: a child is made by fork, vfork, spawn, _Fork or clone (the system call, without
// CLONE_VM: no atfork handler runs); it opens, gets, acks and destroys on its own. With `busy` another
// thread of the parent sits in a get on its context all the while. The child of vfork may only _exit.

#define _GNU_SOURCE // _Fork
#include <sched.h>
#include <signal.h>
#include <spawn.h>

#include "harmless.h"

extern char **environ;

static void *sit_in_get(void *context)
{
	struct ibv_async_event event;

	i_am_about_to_block();
	REQUIRE(ibv_get_async_event(context, &event) == 0);
	REQUIRE(event.event_type == IBV_EVENT_GID_CHANGE);
	ibv_ack_async_event(&event);
	return NULL;
}

static void child(void)
{
	open_round_close();
	open_round_close();
	dprintf(1, "child: two rounds\n");
	// exit, not _exit: the child writes a report of its own.
	exit(3);
}

static pid_t make_child(const char *form, char *self)
{
	pid_t pid = -1;

	if (!strcmp(form, "fork")) {
		pid = fork();
	} else if (!strcmp(form, "_Fork")) {
		pid = _Fork();
	} else if (!strcmp(form, "clone")) {
		pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	} else if (!strcmp(form, "vfork")) {
		pid = vfork();
		if (pid == 0)
			_exit(3);
	} else if (!strcmp(form, "spawn")) {
		char *argv[] = { self, "child", NULL };

		REQUIRE(posix_spawn(&pid, self, NULL, NULL, argv, environ) == 0);
	}
	if (pid == 0)
		child();
	REQUIRE(pid > 0);
	return pid;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int status;

	REQUIRE(argc > 1);
	setvbuf(stdout, NULL, _IONBF, 0);
	if (!strcmp(argv[1], "child"))
		child();
	bool busy = argc > 2;
	struct ibv_context *context = open_first();
	struct ibv_context *others = open_first();
	one_round(others);
	if (busy) {
		REQUIRE(pthread_create(&thread, NULL, sit_in_get, context) == 0);
		wait_until_blocked();
	}
	pid_t pid = make_child(argv[1], argv[0]);
	REQUIRE(waitpid(pid, &status, 0) == pid);
	printf("child ended with %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	round_in_another_thread(others);
	if (busy) {
		REQUIRE(scripted_async(context, IBV_EVENT_GID_CHANGE, NULL) == 0);
		REQUIRE(pthread_join(thread, NULL) == 0);
	}
	round_in_another_thread(context);
	REQUIRE(ibv_close_device(context) == 0);
	REQUIRE(ibv_close_device(others) == 0);
	return 0;
}
