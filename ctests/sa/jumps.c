// SPDX-License-Identifier: MIT OR Apache-2.0
//
// jumps free|destroy: a handler leaves the call, which waits for an ack, by siglongjmp. Nothing is left locked; the call
// can be made again, by this thread or another, and then ends.

#define _GNU_SOURCE
#include <setjmp.h>

#include "sa.h"

static struct ibv_sa_event_channel *channel;
static struct ibv_sa_id *id;
static sigjmp_buf place;
static bool in_destroy;

static void handler(int number)
{
	siglongjmp(place, number);
}

static void end(void)
{
	if (in_destroy)
		ibv_sa_destroy_event_channel(channel);
	else
		REQUIRE(ibv_sa_free_id(id) == 0);
}

static void *jump(void *argument)
{
	if (!sigsetjmp(place, 1)) {
		i_am_about_to_block();
		end();
		REQUIRE(!"it waits");
	}
	return argument;
}

int main(int argc, char **argv)
{
	struct ibv_context *device = open_device("ibsim0");
	struct sigaction action = { .sa_handler = handler };
	pthread_t thread;

	REQUIRE(argc == 2);
	in_destroy = !strcmp(argv[1], "destroy");
	sigaction(SIGUSR1, &action, NULL);
	channel = make_channel();
	id = make_active(channel, device, IBV_SA_SM_TRAP_ALL, NULL);
	server("notices 0 1 64");
	int fds = count_fds();
	struct ibv_sa_event *event = get_notice(channel, NULL, 64);

	for (int i = 0; i < 2; i++) {
		blocking_thread = 0;
		REQUIRE(pthread_create(&thread, NULL, jump, NULL) == 0);
		wait_until_blocked();
		REQUIRE(pthread_kill(thread, SIGUSR1) == 0);
		REQUIRE(pthread_join(thread, NULL) == 0);
	}
	REQUIRE(ibv_sa_ack_event(event) == 0);
	end();
	FAILS(ibv_sa_free_id(id), EINVAL);
	ibv_sa_destroy_event_channel(channel);
	REQUIRE(count_fds() == fds - 4);
	printf("good\n");
	return 0;
}
