// SPDX-License-Identifier: MIT OR Apache-2.0
//
// cancel get deferred|asynchronous|pending: a thread in ibv_sa_get_event is cancelled; the channel works afterwards.
// cancel free|destroy|ack|register|create pending: with a cancel pending the call does its work and comes back.

#include "sa.h"

static struct ibv_sa_event_channel *channel, *second;
static struct ibv_sa_id *id, *made;
static struct ibv_context *device;
static struct ibv_sa_event *event;
static const char *call, *type;
static volatile int cleaned, came_back;

static void clean(void *argument)
{
	cleaned += *(int *)argument;
}

static void block(void)
{
	struct ibv_sa_event *got;

	if (!strcmp(call, "get"))
		ibv_sa_get_event(channel, &got);
	else if (!strcmp(call, "free"))
		REQUIRE(ibv_sa_free_id(id) == 0);
	else if (!strcmp(call, "destroy"))
		ibv_sa_destroy_event_channel(channel);
	else if (!strcmp(call, "ack"))
		REQUIRE(ibv_sa_ack_event(event) == 0);
	else if (!strcmp(call, "register"))
		made = make_id(channel, device, IBV_SA_SM_TRAP_ALL, NULL);
	else if (!strcmp(call, "create"))
		second = make_channel();
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
	came_back = 1;
	pthread_testcancel();
	pthread_cleanup_pop(0);
	pthread_cleanup_pop(0);
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	void *result;

	REQUIRE(argc == 3);
	call = argv[1];
	type = argv[2];
	bool get_is_meant = !strcmp(call, "get");
	device = open_device("ibsim0");
	channel = make_channel();
	id = make_active(channel, device, IBV_SA_SM_TRAP_GID_IN_SERVICE, NULL);
	if (!strcmp(call, "ack")) {
		server("notices 0 1 64");
		event = get(channel);
	}
	server("live");
	int fds = count_fds();
	REQUIRE(pthread_create(&thread, NULL, victim, NULL) == 0);
	if (strcmp(type, "pending")) {
		wait_until_blocked();
		REQUIRE(pthread_cancel(thread) == 0);
	}
	REQUIRE(pthread_join(thread, &result) == 0);
	REQUIRE(result == PTHREAD_CANCELED && cleaned == 11);
	REQUIRE(came_back == !get_is_meant);
	if (get_is_meant) {
		// No event went with the thread.
		server("notices 0 2 64");
		for (unsigned long long i = 1; i <= 2; i++) {
			event = get_notice(channel, NULL, 64);
			REQUIRE(subject(event) == i && ibv_sa_ack_event(event) == 0);
		}
		REQUIRE(ibv_sa_free_id(id) == 0);
	}
	if (!strcmp(call, "free"))
		FAILS(ibv_sa_free_id(id), EINVAL);
	if (second)
		ibv_sa_destroy_event_channel(second);
	if (strcmp(call, "destroy"))
		ibv_sa_destroy_event_channel(channel);
	REQUIRE(count_fds() == fds - 4);
	printf("good\n");
	return 0;
}
