// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What a filter says reaches the daemon as it was said, and the notices that match come back.

#include "sa.h"

int main(void)
{
	struct ibv_context *device = open_device("ibsim0");
	struct ibv_sa_event_channel *channel = make_channel();
	struct ibv_sa_id *id;
	struct ibv_sa_inform_filter filter = {
		.comp_mask = IBV_SA_INFORM_TRAP | IBV_SA_INFORM_IS_GENERIC | IBV_SA_INFORM_SUBJECT_GID,
		.flags = IBV_SA_AUTO_REREGISTER,
		.trap_number = IBV_SA_SM_TRAP_GID_OUT_OF_SERVICE,
		.is_generic = 1,
		.subject_gid.raw = { 0xfe, 0x80, [15] = 9 },
	};

	REQUIRE(ibv_sa_register_inform_info_ex(channel, device, 1, &filter, &id, &id) == 0);
	memset(&filter, 0xff, sizeof(filter));
	expect_status(channel, &id, 0);
	const char *last = server("last");
	REQUIRE(strstr(last, "flags 1"));
	REQUIRE(strstr(last, "is_generic: Some(true)") && strstr(last, "trap: Some(65)"));
	REQUIRE(strstr(last, "subject: Some(Gid(fe80::9))") && strstr(last, "gid: None") && strstr(last, "lids: None"));
	server("notice 0 65 fe80::8");
	server("notice 0 64 fe80::9");
	server("notice 0 65 fe80::9");
	struct ibv_sa_event *event = get_notice(channel, &id, 65);
	REQUIRE(subject(event) == 9);
	REQUIRE(ibv_sa_ack_event(event) == 0);
	nothing_comes(channel, 10);
	REQUIRE(ibv_sa_free_id(id) == 0);

	// All the other components, and a device by name.
	memset(&filter, 0, sizeof(filter));
	filter.comp_mask = IBV_SA_INFORM_GID | IBV_SA_INFORM_LIDS | IBV_SA_INFORM_TYPE | IBV_SA_INFORM_PRODUCER |
			   IBV_SA_INFORM_SUBJECT_LID;
	filter.device_name = "mlx5_3";
	filter.gid.raw[15] = 3;
	filter.lid_begin = 5, filter.lid_end = 6, filter.type = 3, filter.producer = 4, filter.subject_lid = 77;
	REQUIRE(ibv_sa_register_inform_info_ex(channel, NULL, 2, &filter, NULL, &id) == 0);
	expect_status(channel, NULL, 0);
	last = server("last");
	REQUIRE(strstr(last, "mlx5_3/2 (0x0000000000000000)"));
	REQUIRE(strstr(last, "gid: Some(::3)") && strstr(last, "begin: 5, end: 6") && strstr(last, "kind: Some(3)"));
	REQUIRE(strstr(last, "producer: Some(4)") && strstr(last, "Some(Lid(77))") && strstr(last, "trap: None"));
	REQUIRE(ibv_sa_free_id(id) == 0);

	// Everything.
	id = make_active(channel, device, IBV_SA_SM_TRAP_ALL, NULL);
	REQUIRE(strstr(server("last"), "trap: None"));
	server("notice 0 66 ff12::1");
	REQUIRE(ibv_sa_ack_event(get_notice(channel, NULL, 66)) == 0);
	REQUIRE(ibv_sa_free_id(id) == 0);
	ibv_sa_destroy_event_channel(channel);
	printf("good\n");
	return 0;
}
