// SPDX-License-Identifier: MIT OR Apache-2.0
//
// gid_watch DEVICE PORT: says which ports of the subnet come and go.
//
//   cc gid_watch.c $(pkg-config --cflags --libs ibv_sa)

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include <infiniband/ibv_sa.h>

int main(int argc, char **argv)
{
	struct ibv_sa_inform_filter filter = {
		.comp_mask = IBV_SA_INFORM_IS_GENERIC | IBV_SA_INFORM_TRAP,
		.is_generic = 1,
		.flags = IBV_SA_AUTO_REREGISTER,
	};
	struct ibv_sa_event_channel *channel = ibv_sa_create_event_channel();
	struct ibv_sa_event *event;
	struct ibv_sa_id *in, *out;

	if (argc != 3 || !channel)
		return perror("gid_watch DEVICE PORT"), 1;
	setlinebuf(stdout);
	filter.device_name = argv[1];
	filter.trap_number = IBV_SA_SM_TRAP_GID_IN_SERVICE;
	if (ibv_sa_register_inform_info_ex(channel, NULL, (uint8_t)atoi(argv[2]), &filter, "in", &in))
		return perror("register"), 1;
	filter.trap_number = IBV_SA_SM_TRAP_GID_OUT_OF_SERVICE;
	if (ibv_sa_register_inform_info_ex(channel, NULL, (uint8_t)atoi(argv[2]), &filter, "out", &out))
		return perror("register"), 1;

	while (!ibv_sa_get_event(channel, &event)) {
		char text[INET6_ADDRSTRLEN];
		union ibv_gid gid;

		if (!ibv_sa_notice_gid(event, &gid))
			printf("%s: %s\n", ibv_sa_event_str(event), inet_ntop(AF_INET6, gid.raw, text, sizeof(text)));
		else
			printf("%s (%s): %s\n", ibv_sa_event_str(event), (char *)event->context,
			       ibv_sa_status_str(event->status));
		ibv_sa_ack_event(event);
	}
	perror("ibv_sa_get_event");
	ibv_sa_destroy_event_channel(channel); // and its registrations
	return 1;
}
