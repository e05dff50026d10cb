// SPDX-License-Identifier: MIT OR Apache-2.0
//
// turned_away early|late: the daemon refuses and hangs up, without having read what the program said, or before the
// program has said it. Its words and its errno come through all the same.

#define _GNU_SOURCE
#include "sa.h"

static const char *order;

static void until_hung_up(int fd)
{
	struct pollfd hang = { .fd = fd };

	while (order && poll(&hang, 1, -1) < 1)
		;
}

// In the place of libc's, for the library too.
ssize_t send(int fd, const void *packet, size_t length, int flags)
{
	bool to_control = fd == control;

	if (!to_control && order && !strcmp(order, "late"))
		until_hung_up(fd);
	ssize_t sent = syscall(SYS_sendto, fd, packet, length, flags, NULL, 0);
	if (!to_control && order && !strcmp(order, "early"))
		until_hung_up(fd);
	return sent;
}

int main(int argc, char **argv)
{
	struct ibv_context *device = open_device("ibsim0");
	struct ibv_sa_event_channel *channel = make_channel();
	struct ibv_sa_event *event;
	int a;

	REQUIRE(argc == 2);
	const struct ibv_sa_inform_filter filter = {
		.comp_mask = IBV_SA_INFORM_TRAP,
		.trap_number = IBV_SA_SM_TRAP_GID_IN_SERVICE,
		.flags = IBV_SA_AUTO_REREGISTER,
	};
	struct ibv_sa_id *id, *other;

	REQUIRE(ibv_sa_register_inform_info_ex(channel, device, 1, &filter, &a, &id) == 0);
	expect_status(channel, &a, 0);
	server("turn-away %s %d too many", argv[1], EBUSY);
	int fds = count_fds();
	order = argv[1];
	for (int i = 0; i < 2; i++) {
		errno = 0;
		REQUIRE(!ibv_sa_create_event_channel());
		REQUIRE(errno == EBUSY);
	}
	REQUIRE(count_fds() == fds);

	// The same for a channel that has to reconnect.
	order = NULL;
	server("close");
	expect_status(channel, &a, -ENETRESET);
	order = argv[1];
	expect_status(channel, &a, -EBUSY);
	order = NULL;
	server("turn-away nobody");
	expect_status(channel, &a, 0);

	// A daemon that ends with a request unread: what it had sent is not lost.
	server("stall");
	other = make_id(channel, device, IBV_SA_SM_TRAP_GID_OUT_OF_SERVICE, NULL);
	server("notice 0 64 fe80::9");
	server("close");
	usleep(20000);
	event = get_notice(channel, &a, 64);
	REQUIRE(subject(event) == 9 && ibv_sa_ack_event(event) == 0);
	for (int i = 0; i < 2; i++) {
		event = get(channel);
		REQUIRE(event->status == -ENETRESET && ibv_sa_ack_event(event) == 0);
	}
	server("go");
	expect_status(channel, &a, 0);
	REQUIRE(ibv_sa_free_id(id) == 0 && ibv_sa_free_id(other) == 0);
	ibv_sa_destroy_event_channel(channel);
	printf("good\n");
	return 0;
}
