// SPDX-License-Identifier: MIT OR Apache-2.0
//
// told DEVICE PORT: prints what becomes of a registration that comes back by itself, until it is active.

#include "sa.h"

int main(int argc, char **argv)
{
	struct ibv_sa_event_channel *channel = make_channel();
	struct ibv_sa_inform_filter filter = { .flags = IBV_SA_AUTO_REREGISTER };
	struct ibv_sa_id *id;
	int status;

	REQUIRE(argc == 3);
	filter.device_name = argv[1];
	REQUIRE(ibv_sa_register_inform_info_ex(channel, NULL, (uint8_t)atoi(argv[2]), &filter, NULL, &id) == 0);
	do {
		struct ibv_sa_event *event = get(channel);

		REQUIRE(event->attr_id == IBV_SA_ATTR_INFORM_INFO);
		status = event->status;
		REQUIRE(printf("%d: %s\n", status, ibv_sa_status_str(status)) > 0 && fflush(stdout) == 0);
		REQUIRE(ibv_sa_ack_event(event) == 0);
	} while (status);
	REQUIRE(ibv_sa_free_id(id) == 0);
	ibv_sa_destroy_event_channel(channel);
	return 0;
}
