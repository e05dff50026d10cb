// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Many threads get events of one channel, each event once; others register and free meanwhile. At last the channel is
// destroyed while all readers wait: each comes back with EBADF.

#include <stdatomic.h>

#include "sa.h"

#define READERS 8
#define NOTICES 2000

static struct ibv_sa_event_channel *channel;
static struct ibv_context *device;
static atomic_int seen[NOTICES + 1], total, waiting;
static atomic_bool stop;

static void *reader(void *argument)
{
	struct ibv_sa_event *event;

	for (;;) {
		waiting++;
		int result = ibv_sa_get_event(channel, &event);
		waiting--;
		if (result) {
			REQUIRE(errno == EBADF);
			return argument;
		}
		if (event->attr_id == IBV_SA_ATTR_NOTICE && event->context == &total) {
			seen[subject(event)]++;
			total++;
		}
		REQUIRE(ibv_sa_ack_event(event) == 0);
	}
}

static void *registrar(void *argument)
{
	while (!stop) {
		struct ibv_sa_id *id = make_id(channel, device, IBV_SA_SM_TRAP_CREATE_MC_GROUP, argument);

		usleep(100);
		REQUIRE(ibv_sa_free_id(id) == 0);
	}
	return NULL;
}

int main(void)
{
	pthread_t readers[READERS], registrars[2];

	device = open_device("ibsim0");
	channel = make_channel();
	make_active(channel, device, IBV_SA_SM_TRAP_GID_IN_SERVICE, &total);
	for (int i = 0; i < READERS; i++)
		REQUIRE(pthread_create(&readers[i], NULL, reader, NULL) == 0);
	for (int i = 0; i < 2; i++)
		REQUIRE(pthread_create(&registrars[i], NULL, registrar, NULL) == 0);
	server("notices 1 %d 64", NOTICES);
	for (int i = 0; total < NOTICES; i++, usleep(1000))
		REQUIRE(i < 10000);
	stop = true;
	for (int i = 0; i < 2; i++)
		REQUIRE(pthread_join(registrars[i], NULL) == 0);
	for (int i = 1; i <= NOTICES; i++)
		REQUIRE(seen[i] == 1);
	int fds = count_fds();
	while (waiting < READERS)
		usleep(1000);
	usleep(20000);
	ibv_sa_destroy_event_channel(channel);
	for (int i = 0; i < READERS; i++)
		REQUIRE(pthread_join(readers[i], NULL) == 0);
	REQUIRE(count_fds() == fds - 4);
	server_until("live", 0);
	printf("good\n");
	return 0;
}
