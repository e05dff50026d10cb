// SPDX-License-Identifier: MIT OR Apache-2.0
//
// gap DEVICE PORT: waits with poll(2) for one registration's events and prints them, while daemons end and begin. The
// descriptor is the same one from the first to the last.

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <infiniband/ibv_sa.h>

int main(int argc, char **argv)
{
	struct ibv_sa_inform_filter filter = {
		.comp_mask = IBV_SA_INFORM_IS_GENERIC | IBV_SA_INFORM_TRAP,
		.is_generic = 1,
		.trap_number = IBV_SA_SM_TRAP_GID_OUT_OF_SERVICE,
		.flags = IBV_SA_AUTO_REREGISTER,
	};
	struct ibv_sa_event_channel *channel = ibv_sa_create_event_channel();
	struct stat first, now;
	struct pollfd ready;
	struct ibv_sa_id *id;

	if (argc != 3 || !channel)
		return perror("gap DEVICE PORT"), 1;
	setlinebuf(stdout);
	ready = (struct pollfd){ .fd = channel->fd, .events = POLLIN };
	if (fcntl(ready.fd, F_SETFL, O_NONBLOCK) || fstat(ready.fd, &first))
		return perror("fd"), 1;
	filter.device_name = argv[1];
	if (ibv_sa_register_inform_info_ex(channel, NULL, (uint8_t)atoi(argv[2]), &filter, NULL, &id))
		return perror("register"), 1;

	while (poll(&ready, 1, -1) == 1) {
		struct ibv_sa_event *event;

		if (ready.revents != POLLIN || channel->fd != ready.fd || fstat(ready.fd, &now) ||
		    now.st_ino != first.st_ino || now.st_dev != first.st_dev)
			return fprintf(stderr, "another descriptor, revents %#x\n", (unsigned)ready.revents), 1;
		while (!ibv_sa_get_event(channel, &event)) {
			printf("%s %d\n", ibv_sa_event_str(event), event->status);
			ibv_sa_ack_event(event);
		}
	}
	perror("poll");
	return 1;
}
