// SPDX-License-Identifier: MIT OR Apache-2.0
//
// rounds REGISTRATIONS CHANNELS: so many are made and freed; memory and descriptors stay as they are.

#include "sa.h"

static long memory_kib(void)
{
	char text[128];
	int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

	REQUIRE(file >= 0);
	ssize_t length = read(file, text, sizeof(text) - 1);
	close(file);
	REQUIRE(length > 0);
	text[length] = 0;
	return strtol(text, NULL, 10) * (sysconf(_SC_PAGESIZE) / 1024);
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
	long before = 0;

	REQUIRE(argc == 3);
	server("live");
	int registrations = atoi(argv[1]), channels = atoi(argv[2]), fds = count_fds();
	for (int i = 0; i < registrations; i++) {
		if (i == registrations / 4)
			before = memory_kib();
		one_registration(channel, device);
	}
	REQUIRE(count_fds() == fds);
	for (int i = 0; i < channels; i++) {
		struct ibv_sa_event_channel *other = make_channel();

		one_registration(other, device);
		ibv_sa_destroy_event_channel(other);
	}
	REQUIRE(count_fds() == fds);
	long grown = memory_kib() - before;
	if (grown > 1024)
		dprintf(2, "grown by %ld KiB\n", grown);
	REQUIRE(grown <= 1024);
	server_until("live", 0);
	server_until("connections", 1);
	ibv_sa_destroy_event_channel(channel);
	printf("good\n");
	return 0;
}
