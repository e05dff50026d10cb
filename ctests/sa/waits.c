// SPDX-License-Identifier: MIT OR Apache-2.0
//
// waits free|destroy self|other MILLISECONDS: the call waits until the event is acknowledged by another thread, after
// so long. The event was taken by the thread that makes the call, or by the other. Signals do not interrupt it.

#define _GNU_SOURCE
#include "sa.h"

static struct ibv_sa_event_channel *channel;
static struct ibv_sa_id *id;
static struct ibv_sa_event *event;
static bool in_destroy;
static volatile bool done;
static volatile int handled;

// What an event says is the program's to write to: who waits for its ack does not follow it.
static struct ibv_sa_event *get_scribbled(void)
{
	struct ibv_sa_event *got = get(channel);

	*got = (struct ibv_sa_event){ .attr = (void *)8, .attr_size = 80, .attr_id = IBV_SA_ATTR_NOTICE };
	return got;
}

static void *call(void *by_self)
{
	pthread_setname_np(pthread_self(), "caller");
	if (by_self)
		event = get_scribbled();
	i_am_about_to_block();
	if (in_destroy)
		ibv_sa_destroy_event_channel(channel);
	else
		REQUIRE(ibv_sa_free_id(id) == 0);
	done = true;
	return NULL;
}

static void handler(int number)
{
	handled += number != 0;
}

int main(int argc, char **argv)
{
	struct ibv_context *device = open_device("ibsim0");
	struct sigaction action = { .sa_handler = handler };
	struct ibv_sa_event *other;
	pthread_t thread;

	REQUIRE(argc == 4);
	in_destroy = !strcmp(argv[1], "destroy");
	bool self = !strcmp(argv[2], "self");
	sigaction(SIGUSR1, &action, NULL);
	channel = make_channel();
	id = make_active(channel, device, IBV_SA_SM_TRAP_GID_OUT_OF_SERVICE, NULL);
	server("notices 0 2 65");
	if (!self)
		event = get_scribbled();
	REQUIRE(pthread_create(&thread, NULL, call, self ? &thread : NULL) == 0);
	wait_until_blocked();
	REQUIRE(pthread_kill(thread, SIGUSR1) == 0);
	usleep((useconds_t)atoi(argv[3]) * 1000);
	REQUIRE(!done && handled == 1);
	// The second notice was queued: nobody can get it any more.
	if (in_destroy) {
		FAILS(ibv_sa_get_event(channel, &other), EBADF);
		FAILS(ibv_sa_register_inform_info(channel, device, 1, IBV_SA_SM_TRAP_ALL, NULL, &id), EBADF);
	} else {
		nothing_comes(channel, 10);
		REQUIRE(!readable(channel->fd, 0));
	}
	REQUIRE(ibv_sa_ack_event(event) == 0);
	REQUIRE(pthread_join(thread, NULL) == 0);
	FAILS(ibv_sa_free_id(id), EINVAL);
	if (!in_destroy)
		ibv_sa_destroy_event_channel(channel);
	printf("good\n");
	return 0;
}
