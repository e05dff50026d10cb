// SPDX-License-Identifier: MIT OR Apache-2.0
//
// One life: a channel, registrations, their events, notices, acks, frees.

#include "sa.h"

static void is_registration(struct ibv_sa_event *event)
{
	const unsigned char *info = event->attr;

	REQUIRE(event->attr_id == IBV_SA_ATTR_INFORM_INFO);
	REQUIRE(event->status == 0);
	REQUIRE(event->attr_count == 1 && event->attr_size == 36 && event->attr_offset == 40);
	REQUIRE((uintptr_t)info % 8 == 0);
	// InformInfo, IBA 13.4.8.3: LIDs from 0xffff, generic, subscribe, any type, trap 64, any producer.
	REQUIRE(info[16] == 0xff && info[17] == 0xff);
	REQUIRE(info[22] == 1 && info[23] == 1);
	REQUIRE(info[24] == 0xff && info[25] == 0xff);
	REQUIRE(info[26] == 0 && info[27] == 64);
	REQUIRE(info[33] == 0xff && info[34] == 0xff && info[35] == 0xff);
	REQUIRE(!strcmp(ibv_sa_event_str(event), "registration active"));
	REQUIRE(ibv_sa_ack_event(event) == 0);
}

static void is_notice(struct ibv_sa_event *event)
{
	const unsigned char *notice = event->attr;
	union ibv_gid gid;
	uint16_t lid;

	REQUIRE(event->attr_count == 1 && event->attr_size == 80 && event->attr_offset == 80);
	REQUIRE((uintptr_t)notice % 8 == 0);
	REQUIRE(notice[0] == 0x83 && notice[4] == 0 && notice[5] == 64);
	REQUIRE(ibv_sa_notice_gid(event, &gid) == 0);
	REQUIRE(gid.raw[0] == 0xfe && gid.raw[1] == 0x80 && gid.raw[13] == 0x10 && gid.raw[15] == 7);
	REQUIRE(ibv_sa_notice_issuer(event, &gid, &lid) == 0);
	REQUIRE(lid == 1 && gid.raw[15] == 1);
	REQUIRE(ibv_sa_notice_issuer(event, NULL, NULL) == 0);
	FAILS(ibv_sa_notice_lid(event), ENODATA);
	REQUIRE(!strcmp(ibv_sa_event_str(event), "GID in service"));
	REQUIRE(ibv_sa_ack_event(event) == 0);
}

int main(void)
{
	struct ibv_context *device = open_device("ibsim0");
	struct ibv_sa_event_channel *channel = make_channel();
	struct ibv_sa_id *one, *other;
	int context1, context2;

	REQUIRE(channel->fd > 2);
	REQUIRE(fcntl(channel->fd, F_GETFD) == FD_CLOEXEC);
	one = make_id(channel, device, IBV_SA_SM_TRAP_GID_IN_SERVICE, &context1);
	is_registration(get(channel));
	REQUIRE(strstr(server("last"), "ibsim0/1 (0x5c12000000000003) flags 0"));

	// The device is not needed any more.
	REQUIRE(ibv_close_device(device) == 0);
	server("notice 0 64 fe80::10:7");
	server("notice 0 65 fe80::10:7");
	is_notice(get_notice(channel, &context1, 64));
	nothing_comes(channel, 20);

	// The same trap again: each registration has its own event.
	device = open_device("ibsim0");
	other = make_active(channel, device, IBV_SA_SM_TRAP_GID_IN_SERVICE, &context2);
	REQUIRE(other != one);
	server("notice 0 64 fe80::2");
	REQUIRE(ibv_sa_ack_event(get_notice(channel, &context1, 64)) == 0);
	REQUIRE(ibv_sa_ack_event(get_notice(channel, &context2, 64)) == 0);

	// What was lost.
	server("overflow 2 17");
	struct ibv_sa_event *event = get(channel);
	REQUIRE(event->attr_id == IBV_SA_ATTR_NOTICE && event->status == -EOVERFLOW);
	REQUIRE(event->context == &context2 && event->attr == NULL && event->attr_count == 17);
	REQUIRE(event->attr_size == 0 && event->attr_offset == 0);
	REQUIRE(!strcmp(ibv_sa_event_str(event), "notices lost"));
	REQUIRE(!strcmp(ibv_sa_status_str(event->status), "notices were lost: events were not got in time"));
	FAILS(ibv_sa_notice_trap(event), EINVAL);
	REQUIRE(ibv_sa_ack_event(event) == 0);

	REQUIRE(ibv_sa_free_id(one) == 0);
	server_until("live", 1);
	REQUIRE(ibv_sa_free_id(other) == 0);
	server_until("live", 0);
	ibv_sa_destroy_event_channel(channel);
	server_until("connections", 0);
	REQUIRE(ibv_close_device(device) == 0);
	printf("good\n");
	return 0;
}
