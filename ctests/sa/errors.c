// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Every errno of the functions that need no missing daemon for it.

#include "sa.h"

static struct ibv_sa_event_channel *channel;
static struct ibv_context *device, *ethernet;

static int registered(struct ibv_sa_event_channel *on, struct ibv_context *at, uint8_t port, struct ibv_sa_id **id)
{
	return ibv_sa_register_inform_info(on, at, port, IBV_SA_SM_TRAP_ALL, NULL, id);
}

static int filtered(struct ibv_context *at, const struct ibv_sa_inform_filter *filter)
{
	struct ibv_sa_id *id = (void *)8;
	int result = ibv_sa_register_inform_info_ex(channel, at, 1, filter, NULL, &id);

	REQUIRE(result == 0 || id == (void *)8);
	if (!result)
		REQUIRE(ibv_sa_free_id(id) == 0);
	return result;
}

static void of_register(void)
{
	struct ibv_sa_id *id = (void *)8;
	int foreign;

	FAILS(registered(NULL, device, 1, &id), EINVAL);
	FAILS(registered((void *)&foreign, device, 1, &id), EINVAL);
	FAILS(registered(channel, NULL, 1, &id), EINVAL);
	FAILS(registered(channel, device, 1, NULL), EINVAL);
	FAILS(registered(channel, device, 0, &id), EINVAL);
	FAILS(registered(channel, device, 2, &id), EINVAL);
	FAILS(registered(channel, device, 255, &id), EINVAL);
	FAILS(registered(channel, ethernet, 1, &id), EOPNOTSUPP);
	REQUIRE(id == (void *)8);
	struct ibv_sa_event_channel *gone = make_channel();
	ibv_sa_destroy_event_channel(gone);
	FAILS(registered(gone, device, 1, &id), EBADF);
}

static void of_filters(void)
{
	struct ibv_sa_inform_filter filter = { 0 };
	struct ibv_sa_id *id;
	char name[80];

	FAILS(filtered(device, NULL), EINVAL);
	FAILS(ibv_sa_register_inform_info_ex(channel, device, 1, &filter, NULL, NULL), EINVAL);
	FAILS(ibv_sa_register_inform_info_ex(NULL, device, 1, &filter, NULL, &id), EINVAL);
	FAILS(ibv_sa_register_inform_info_ex(channel, device, 0, &filter, NULL, &id), EINVAL);
	FAILS(ibv_sa_register_inform_info_ex(channel, ethernet, 1, &filter, NULL, &id), EOPNOTSUPP);
	REQUIRE(filtered(device, &filter) == 0);

#define BAD(member, value)                                                                         \
	do {                                                                                       \
		filter.member = (value);                                                           \
		FAILS(filtered(device, &filter), EINVAL);                                          \
		memset(&filter, 0, sizeof(filter));                                                \
	} while (0)
	BAD(comp_mask, 1 << 8);
	BAD(flags, 2);
	BAD(comp_mask, IBV_SA_INFORM_SUBJECT_GID | IBV_SA_INFORM_SUBJECT_LID);
	BAD(comp_mask, IBV_SA_INFORM_SUBJECT_GID);
	BAD(comp_mask, IBV_SA_INFORM_SUBJECT_LID);
	BAD(comp_mask, IBV_SA_INFORM_LIDS);
	BAD(device_name, "ibsim0");
	filter.comp_mask = IBV_SA_INFORM_LIDS, filter.lid_begin = 9;
	BAD(lid_end, 8);
	filter.comp_mask = IBV_SA_INFORM_TYPE;
	BAD(type, 0x80);
	filter.comp_mask = IBV_SA_INFORM_PRODUCER;
	BAD(producer, 1 << 24);
	filter.comp_mask = IBV_SA_INFORM_IS_GENERIC;
	BAD(is_generic, 2);

	// Members that the mask does not name do not count.
	filter.type = 0x80, filter.producer = 1 << 24, filter.is_generic = 7;
	REQUIRE(filtered(device, &filter) == 0);

	// By name.
	FAILS(filtered(NULL, &filter), EINVAL);
	filter.device_name = "";
	FAILS(filtered(NULL, &filter), EINVAL);
	filter.device_name = "a/b";
	FAILS(filtered(NULL, &filter), EINVAL);
	memset(name, 'x', sizeof(name));
	name[65] = 0;
	filter.device_name = name;
	FAILS(filtered(NULL, &filter), EINVAL);
	name[64] = 0;
	REQUIRE(filtered(NULL, &filter) == 0);
	filter.device_name = "mlx5_7";
	FAILS(ibv_sa_register_inform_info_ex(channel, NULL, 0, &filter, NULL, &id), EINVAL);
}

static void of_the_rest(void)
{
	struct ibv_sa_event *event, copy = { .attr_id = IBV_SA_ATTR_NOTICE };
	union ibv_gid gid;
	int foreign[16] = { 0 };

	FAILS(ibv_sa_get_event(NULL, &event), EINVAL);
	FAILS(ibv_sa_get_event((void *)foreign, &event), EINVAL);
	FAILS(ibv_sa_get_event(channel, NULL), EINVAL);
	FAILS(ibv_sa_ack_event(NULL), EINVAL);
	FAILS(ibv_sa_ack_event((void *)foreign), EINVAL);
	FAILS(ibv_sa_ack_event((void *)channel), EINVAL);
	FAILS(ibv_sa_free_id(NULL), EINVAL);
	FAILS(ibv_sa_free_id((void *)foreign), EINVAL);
	FAILS(ibv_sa_free_id((void *)channel), EINVAL);
	struct ibv_sa_id *id = make_active(channel, device, IBV_SA_SM_TRAP_ALL, NULL);
	FAILS(ibv_sa_ack_event((void *)id), EINVAL);
	FAILS(ibv_sa_free_id((void *)((char *)id + 8)), EINVAL);
	REQUIRE(ibv_sa_free_id(id) == 0);
	FAILS(ibv_sa_free_id(id), EINVAL);
	ibv_sa_destroy_event_channel(NULL);
	ibv_sa_destroy_event_channel((void *)foreign);

	FAILS(ibv_sa_notice_trap(NULL), EINVAL);
	FAILS(ibv_sa_notice_trap(&copy), EINVAL);
	FAILS(ibv_sa_notice_lid(NULL), EINVAL);
	FAILS(ibv_sa_notice_lid(&copy), EINVAL);
	FAILS(ibv_sa_notice_gid(NULL, &gid), EINVAL);
	FAILS(ibv_sa_notice_gid(&copy, NULL), EINVAL);
	FAILS(ibv_sa_notice_issuer(NULL, &gid, NULL), EINVAL);
	REQUIRE(!strcmp(ibv_sa_event_str(NULL), "no event"));
	copy.attr_id = 77;
	REQUIRE(!strcmp(ibv_sa_event_str(&copy), "unknown event"));
	REQUIRE(!strcmp(ibv_sa_trap_str(IBV_SA_SM_TRAP_BAD_Q_KEY), "bad Q_Key"));
	REQUIRE(!strcmp(ibv_sa_trap_str(7), "unknown trap"));
	REQUIRE(!strcmp(ibv_sa_status_str(12345), "unknown status"));
}

// Notices that say other things than the daemon's.
static void decoding(void)
{
	unsigned char notice[80] = { 0x81, 0, 0, 2, 0, 128, 0, 9 };
	struct ibv_sa_event event = { .attr_id = IBV_SA_ATTR_NOTICE, .attr = notice, .attr_size = 80, .attr_count = 1 };
	union ibv_gid gid;

	notice[10] = 0x12, notice[11] = 0x34;
	REQUIRE(ibv_sa_notice_trap(&event) == 128);
	REQUIRE(ibv_sa_notice_lid(&event) == 0x1234);
	FAILS(ibv_sa_notice_gid(&event, &gid), ENODATA);
	REQUIRE(!strcmp(ibv_sa_event_str(&event), "link state changed"));
	event.attr_size = 79;
	FAILS(ibv_sa_notice_lid(&event), EINVAL);
	event.attr_size = 80;
	notice[0] = 0x04;
	FAILS(ibv_sa_notice_trap(&event), EINVAL);
	REQUIRE(!strcmp(ibv_sa_event_str(&event), "notice of a vendor"));
}

int main(void)
{
	int fds;

	// Before there is any channel.
	FAILS(ibv_sa_free_id((void *)&fds), EINVAL);
	FAILS(ibv_sa_ack_event((void *)&fds), EINVAL);
	device = open_device("ibsim0");
	ethernet = open_device("scr0");
	channel = make_channel();
	server("live");
	fds = count_fds();
	of_register();
	of_filters();
	of_the_rest();
	decoding();
	REQUIRE(count_fds() == fds);
	ibv_sa_destroy_event_channel(channel);
	FAILS(ibv_sa_get_event(channel, (struct ibv_sa_event **)&device), EBADF);
	ibv_sa_destroy_event_channel(channel);
	printf("good\n");
	return 0;
}
