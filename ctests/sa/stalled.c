// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A daemon that does not read: registrations and frees do not wait for it, and all is said once it reads again.

#include "sa.h"

#define NUMBER 1000

int main(void)
{
	struct ibv_context *device = open_device("ibsim0");
	struct ibv_sa_event_channel *channel = make_channel();
	static struct ibv_sa_id *ids[NUMBER];
	int seen = 0;

	server("stall");
	for (int i = 0; i < NUMBER; i++)
		ids[i] = make_id(channel, device, IBV_SA_SM_TRAP_ALL, ids);
	for (int i = 0; i < NUMBER; i += 2)
		REQUIRE(ibv_sa_free_id(ids[i]) == 0);
	nothing_comes(channel, 20);
	server("go");
	while (seen < NUMBER / 2) {
		expect_status(channel, ids, 0);
		seen++;
	}
	nothing_comes(channel, 20);
	server_until("live", NUMBER / 2);
	for (int i = 1; i < NUMBER; i += 2)
		REQUIRE(ibv_sa_free_id(ids[i]) == 0);
	// Whatever the socket did not take at once goes out with the next call.
	nothing_comes(channel, 50);
	server_until("live", 0);
	ibv_sa_destroy_event_channel(channel);
	printf("good\n");
	return 0;
}
