// SPDX-License-Identifier: MIT OR Apache-2.0
//
// signals eintr|restart|longjmp: a signal is handled while a thread waits in ibv_sa_get_event.

#include <setjmp.h>

#include "sa.h"

static struct ibv_sa_event_channel *channel;
static volatile int handled;
static sigjmp_buf place;
static const char *how;

static void handler(int number)
{
	handled += number != 0;
	if (!strcmp(how, "longjmp"))
		siglongjmp(place, 1);
}

static void *reader(void *argument)
{
	struct ibv_sa_event *event = NULL;

	if (sigsetjmp(place, 1)) {
		// Out of the call: whoever destroys the channel must not wait for this thread.
		blocking_thread = 0;
		return argument;
	}
	i_am_about_to_block();
	FAILS(ibv_sa_get_event(channel, &event), EINTR);
	REQUIRE(event == NULL);
	return NULL;
}

int main(int argc, char **argv)
{
	struct ibv_context *device = open_device("ibsim0");
	struct sigaction action = { .sa_handler = handler };
	struct ibv_sa_id *id;
	pthread_t thread;
	void *result;

	REQUIRE(argc == 2);
	how = argv[1];
	action.sa_flags = strcmp(how, "restart") ? 0 : SA_RESTART;
	sigaction(SIGUSR1, &action, NULL);
	channel = make_channel();
	id = make_active(channel, device, IBV_SA_SM_TRAP_ALL, NULL);
	server("live");
	int fds = count_fds();
	REQUIRE(pthread_create(&thread, NULL, reader, &action) == 0);
	wait_until_blocked();
	REQUIRE(pthread_kill(thread, SIGUSR1) == 0);
	REQUIRE(pthread_join(thread, &result) == 0);
	REQUIRE(handled == 1);
	REQUIRE((result != NULL) == !strcmp(how, "longjmp"));
	server("notices 0 1 64");
	REQUIRE(ibv_sa_ack_event(get_notice(channel, NULL, 64)) == 0);
	REQUIRE(ibv_sa_free_id(id) == 0);
	ibv_sa_destroy_event_channel(channel);
	REQUIRE(count_fds() == fds - 4);
	printf("good\n");
	return 0;
}
