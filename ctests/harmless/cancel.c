// SPDX-License-Identifier: MIT OR Apache-2.0
//
// cancel CALL TYPE: a thread blocked in CALL (async, comp, qp, cq or srq: the two gets and the
// three destroys that wait) is cancelled. TYPE is deferred, asynchronous, or pending (the cancel comes
// before the call).

#include "harmless.h"

static struct objects o;
static const char *call;
static const char *type;
static volatile int cleaned;

static void clean(void *argument)
{
	cleaned += *(int *)argument;
}

static void block(void)
{
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *cq_context;

	if (!strcmp(call, "async"))
		ibv_get_async_event(o.context, &event);
	else if (!strcmp(call, "comp"))
		ibv_get_cq_event(o.channel, &cq, &cq_context);
	else if (!strcmp(call, "qp"))
		ibv_destroy_qp(o.qp);
	else if (!strcmp(call, "srq"))
		ibv_destroy_srq(o.srq);
	else if (!strcmp(call, "cq"))
		ibv_destroy_cq(o.cq);
}

static void *victim(void *argument)
{
	int one = 1, ten = 10;

	if (!strcmp(type, "asynchronous"))
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	if (!strcmp(type, "pending"))
		pthread_cancel(pthread_self());
	pthread_cleanup_push(clean, &ten);
	pthread_cleanup_push(clean, &one);
	i_am_about_to_block();
	block();
	printf("the call came back\n");
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return argument;
}

// An event that is got and not acked makes the destroy wait.
static void take_event(int of, void *object)
{
	struct ibv_async_event event;

	REQUIRE(scripted_async(o.context, of, object) == 0);
	REQUIRE(ibv_get_async_event(o.context, &event) == 0);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	void *result;

	REQUIRE(argc == 3);
	call = argv[1];
	type = argv[2];
	o = make_objects(open_first());
	if (!strcmp(call, "qp"))
		take_event(IBV_EVENT_COMM_EST, o.qp);
	if (!strcmp(call, "srq"))
		take_event(IBV_EVENT_SRQ_LIMIT_REACHED, o.srq);
	if (!strcmp(call, "cq"))
		take_event(IBV_EVENT_CQ_ERR, o.cq);

	REQUIRE(pthread_create(&thread, NULL, victim, NULL) == 0);
	if (strcmp(type, "pending")) {
		wait_until_blocked();
		REQUIRE(pthread_cancel(thread) == 0);
	}
	REQUIRE(pthread_join(thread, &result) == 0);
	printf("%s, %s: %s, cleanup %d\n", call, type,
	       result == PTHREAD_CANCELED ? "cancelled" : "not cancelled", cleaned);
	round_in_another_thread(o.context);
	return 0;
}
