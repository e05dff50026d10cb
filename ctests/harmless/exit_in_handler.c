// SPDX-License-Identifier: MIT OR Apache-2.0
//
// exit_in_handler WHO CALL: a signal handler calls exit(3) while a get (async or comp) is blocked:
//   self   in the very thread that the signal interrupts
//   other  in the main thread, while another one sits in the get

#include <signal.h>

#include "harmless.h"

static struct objects o;
static const char *call;

static void handler(int signal)
{
	(void)signal;
	exit(7);
}

static void at_exit(void)
{
	// Destroys and gets in exit handlers are common.
	one_round(o.context);
	printf("exit handler: one round\n");
}

static void *sit_in_get(void *argument)
{
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *cq_context;

	i_am_about_to_block();
	if (!strcmp(call, "async"))
		ibv_get_async_event(o.context, &event);
	else
		ibv_get_cq_event(o.channel, &cq, &cq_context);
	printf("the get came back\n");
	return argument;
}

// Hits the main thread once that thread is blocked.
static void *killer(void *main_thread)
{
	wait_until_blocked();
	pthread_kill(*(pthread_t *)main_thread, SIGALRM);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread, self = pthread_self();
	sigset_t set;

	REQUIRE(argc == 3);
	call = argv[2];
	signal(SIGALRM, handler);
	o = make_objects(open_first());
	atexit(at_exit);
	if (!strcmp(argv[1], "self")) {
		REQUIRE(pthread_create(&thread, NULL, killer, &self) == 0);
		sit_in_get(NULL);
		return 1;
	}
	// The exit handler's events must not go to the thread that sits there.
	struct ibv_context *other = open_first();
	REQUIRE(pthread_create(&thread, NULL, sit_in_get, NULL) == 0);
	wait_until_blocked();
	o.context = other;
	sigemptyset(&set);
	raise(SIGALRM);
	sigsuspend(&set);
	return 1;
}
