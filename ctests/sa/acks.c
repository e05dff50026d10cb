// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Acks: any thread, any order, once. Addresses of events and registrations are not used again soon.

#include "sa.h"

#define NUMBER 50
static struct ibv_sa_event *events[NUMBER];

static void *ack_from(void *first)
{
	for (int i = (int)(intptr_t)first; i < NUMBER; i += 2)
		REQUIRE(ibv_sa_ack_event(events[i]) == 0);
	return NULL;
}

int main(void)
{
	struct ibv_context *device = open_device("ibsim0");
	struct ibv_sa_event_channel *channel = make_channel();
	struct ibv_sa_id *id = make_active(channel, device, IBV_SA_SM_TRAP_ALL, NULL);
	pthread_t thread;

	server("notices 0 %d 64", NUMBER);
	for (int i = 0; i < NUMBER; i++) {
		events[i] = get(channel);
		REQUIRE(subject(events[i]) == (unsigned long long)i + 1);
	}
	// Backwards in this thread, forwards in another.
	REQUIRE(pthread_create(&thread, NULL, ack_from, (void *)1) == 0);
	for (int i = NUMBER - 2; i >= 0; i -= 2)
		REQUIRE(ibv_sa_ack_event(events[i]) == 0);
	REQUIRE(pthread_join(thread, NULL) == 0);
	for (int i = 0; i < NUMBER; i++)
		FAILS(ibv_sa_ack_event(events[i]), EINVAL);

	// The next 1,024 events lie elsewhere.
	server("notices 0 1 64");
	struct ibv_sa_event *first = get(channel);
	REQUIRE(ibv_sa_ack_event(first) == 0);
	for (int i = 0; i < 1024; i += 64) {
		server("notices 0 64 64");
		for (int n = 0; n < 64; n++) {
			struct ibv_sa_event *event = get(channel);

			REQUIRE(event != first);
			REQUIRE(ibv_sa_ack_event(event) == 0);
			FAILS(ibv_sa_ack_event(first), EINVAL);
		}
	}
	// And the next 1,024 registrations.
	REQUIRE(ibv_sa_free_id(id) == 0);
	for (int i = 0; i < 1024; i++) {
		struct ibv_sa_id *other = make_id(channel, device, IBV_SA_SM_TRAP_ALL, NULL);

		REQUIRE(other != id);
		FAILS(ibv_sa_free_id(id), EINVAL);
		REQUIRE(ibv_sa_free_id(other) == 0);
	}
	// An event that nobody has got cannot be acknowledged, by whatever address.
	id = make_active(channel, device, IBV_SA_SM_TRAP_ALL, NULL);
	server("notices 0 2 64");
	struct ibv_sa_event *event = get(channel);
	int wrong = 0;
	for (char *near = (char *)event - 512; near < (char *)event + 512; near += 8)
		wrong += near != (char *)event && ibv_sa_ack_event((void *)near) == 0;
	REQUIRE(wrong == 0);
	REQUIRE(ibv_sa_ack_event(event) == 0);
	// Freed: the one that is queued is gone, and its ack is no ack.
	REQUIRE(ibv_sa_free_id(id) == 0);
	nothing_comes(channel, 10);
	ibv_sa_destroy_event_channel(channel);
	FAILS(ibv_sa_ack_event(event), EINVAL);
	printf("good\n");
	return 0;
}
