// SPDX-License-Identifier: MIT OR Apache-2.0
//
// readers: more threads wait in ibv_sa_get_event than there is room to remember. Once they are back, a destroy waits for
// nobody and leaves no descriptor.

#include "sa.h"

#define THREADS 50

static struct ibv_sa_event_channel *channel;
static volatile int waiting;

static void *reader(void *argument)
{
	__sync_fetch_and_add(&waiting, 1);
	REQUIRE(ibv_sa_ack_event(get_notice(channel, NULL, 64)) == 0);
	return argument;
}

int main(void)
{
	struct ibv_context *device = open_device("ibsim0");
	pthread_t threads[THREADS];

	channel = make_channel();
	make_active(channel, device, IBV_SA_SM_TRAP_GID_IN_SERVICE, NULL);
	server("live");
	int fds = count_fds();
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < THREADS; i++)
			REQUIRE(pthread_create(&threads[i], NULL, reader, NULL) == 0);
		while (waiting < THREADS * (round + 1))
			usleep(1000);
		usleep(50000);
		server("notices 0 %d 64", THREADS);
		for (int i = 0; i < THREADS; i++)
			REQUIRE(pthread_join(threads[i], NULL) == 0);
	}
	ibv_sa_destroy_event_channel(channel);
	REQUIRE(count_fds() == fds - 4);
	printf("good\n");
	return 0;
}
