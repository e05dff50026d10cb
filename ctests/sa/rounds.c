// SPDX-License-Identifier: MIT OR Apache-2.0
//
// rounds REGISTRATIONS CHANNELS [DEVICE PORT]: so many are made and freed; memory and descriptors stay as they are.
// With a device and a port the daemon is a real one, and what is left there is for others to see.

#include "sa.h"

// The kernel gives pages in groups and takes them back when it likes: the most of the first third of the rounds against
// the least of the last.
static long most, least = -1;

static void look(int round, int rounds)
{
	long now = round % 20 ? -1 : memory_kib();

	if (now >= 0 && round < rounds / 3)
		most = now > most ? now : most;
	else if (now >= 0 && round > rounds / 3 * 2)
		least = least < 0 || now < least ? now : least;
}

static void stays_flat(const char *what)
{
	if (least > most + 512)
		dprintf(2, "%s: %ld KiB grew to %ld KiB\n", what, most, least);
	REQUIRE(most > 0 && least > 0 && least <= most + 512);
	least = -1;
	most = 0;
}

static void one_registration(struct ibv_sa_event_channel *channel, struct ibv_context *device)
{
	struct ibv_sa_id *id = make_active(channel, device, IBV_SA_SM_TRAP_GID_IN_SERVICE, NULL);

	REQUIRE(ibv_sa_free_id(id) == 0);
}

int main(int argc, char **argv)
{
	struct ibv_context *device = open_device("ibsim0");
	struct ibv_sa_event_channel *channel = make_channel();

	bool scripted = argc == 3;

	REQUIRE(argc == 3 || argc == 5);
	if (scripted)
		server("live");
	int registrations = atoi(argv[1]), channels = atoi(argv[2]), fds = count_fds();
	for (int i = 0; i < registrations; i++) {
		look(i, registrations);
		one_registration(channel, device);
	}
	stays_flat("registrations");
	REQUIRE(count_fds() == fds);
	for (int i = 0; i < channels; i++) {
		struct ibv_sa_event_channel *other = make_channel();

		look(i, channels);
		one_registration(other, device);
		ibv_sa_destroy_event_channel(other);
	}
	REQUIRE(count_fds() == fds);
	stays_flat("channels");
	if (scripted) {
		server_until("live", 0);
		server_until("connections", 1);
	}
	ibv_sa_destroy_event_channel(channel);
	printf("good\n");
	return 0;
}
