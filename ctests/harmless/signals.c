// SPDX-License-Identifier: MIT OR Apache-2.0
//
// signals CALL HOW: a thread blocked in a get (async or comp) is hit by a signal.
//   eintr    the handler returns, without SA_RESTART: the get fails with EINTR
//   restart  with SA_RESTART: the get goes on and takes the event that comes later
//   longjmp  the handler leaves the get with siglongjmp; the same thread then gets again

#include <setjmp.h>
#include <signal.h>

#include "harmless.h"

static struct objects o;
static const char *call;
static const char *how;
static sigjmp_buf back;
static volatile int handled;

static void handler(int signal)
{
	(void)signal;
	handled++;
	if (!strcmp(how, "longjmp"))
		siglongjmp(back, 1);
}

static int get(void)
{
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *cq_context;
	int ret;

	errno = 0;
	if (!strcmp(call, "async")) {
		ret = ibv_get_async_event(o.context, &event);
		if (!ret)
			ibv_ack_async_event(&event);
	} else {
		ret = ibv_get_cq_event(o.channel, &cq, &cq_context);
		if (!ret)
			ibv_ack_cq_events(cq, 1);
	}
	return ret;
}

static void queue_event(void)
{
	if (!strcmp(call, "async"))
		REQUIRE(scripted_async(o.context, IBV_EVENT_COMM_EST, o.qp) == 0);
	else
		REQUIRE(scripted_comp(o.channel, o.cq) == 0);
}

static void *victim(void *argument)
{
	int ret, err;

	if (sigsetjmp(back, 1)) {
		printf("jumped out\n");
	} else {
		i_am_about_to_block();
		ret = get();
		err = errno;
		printf("get: %d, errno %d\n", ret, err);
	}
	queue_event();
	ret = get();
	err = errno;
	printf("get again: %d, errno %d\n", ret, err);
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	REQUIRE(argc == 3);
	call = argv[1];
	how = argv[2];
	struct sigaction action = { .sa_handler = handler };
	if (!strcmp(how, "restart"))
		action.sa_flags = SA_RESTART;
	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);

	o = make_objects(open_first());
	REQUIRE(pthread_create(&thread, NULL, victim, NULL) == 0);
	wait_until_blocked();
	REQUIRE(pthread_kill(thread, SIGUSR1) == 0);
	if (!strcmp(how, "restart")) {
		while (!handled)
			usleep(1000);
		wait_until_blocked();
		queue_event();
	}
	REQUIRE(pthread_join(thread, NULL) == 0);
	printf("handled: %d\n", handled);
	round_in_another_thread(o.context);
	destroy_objects(&o);
	REQUIRE(ibv_close_device(o.context) == 0);
	return 0;
}
