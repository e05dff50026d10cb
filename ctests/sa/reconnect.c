// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The daemon ends and comes back. Registrations are told of it, those that want it are made again; the descriptor stays.

#include "sa.h"

static struct ibv_sa_event_channel *channel;
static struct ibv_context *device;

static struct ibv_sa_id *make_auto(void *context)
{
	const struct ibv_sa_inform_filter filter = {
		.comp_mask = IBV_SA_INFORM_TRAP,
		.trap_number = IBV_SA_SM_TRAP_GID_IN_SERVICE,
		.flags = IBV_SA_AUTO_REREGISTER,
	};
	struct ibv_sa_id *id;

	REQUIRE(ibv_sa_register_inform_info_ex(channel, device, 1, &filter, context, &id) == 0);
	return id;
}

int main(void)
{
	struct ibv_sa_event *event;
	struct ibv_sa_id *again, *plain, *third;
	int a, p;

	device = open_device("ibsim0");
	channel = make_channel();
	int fd = channel->fd;
	again = make_auto(&a);
	expect_status(channel, &a, 0);
	plain = make_active(channel, device, IBV_SA_SM_TRAP_GID_IN_SERVICE, &p);

	// What was sent before the end is not lost with it.
	server("notice 1 64 fe80::7");
	server("stop");
	event = get_notice(channel, &a, 64);
	REQUIRE(ibv_sa_ack_event(event) == 0);
	struct ibv_sa_event *one = get(channel), *two = get(channel);
	REQUIRE(one->status == -ENETRESET && two->status == -ENETRESET);
	REQUIRE(!strcmp(ibv_sa_event_str(one), "registration lost"));
	REQUIRE(ibv_sa_ack_event(one) == 0 && ibv_sa_ack_event(two) == 0);
	nothing_comes(channel, 300);

	// Without a daemon: no new registration, and the frees work.
	FAILS(ibv_sa_register_inform_info(channel, device, 1, IBV_SA_SM_TRAP_ALL, NULL, &third), ENOENT);
	REQUIRE(ibv_sa_free_id(plain) == 0);

	server("start");
	expect_status(channel, &a, 0);
	REQUIRE(channel->fd == fd);
	server("notice 0 64 fe80::8");
	event = get_notice(channel, &a, 64);
	REQUIRE(subject(event) == 8 && ibv_sa_ack_event(event) == 0);
	nothing_comes(channel, 20);

	// A daemon that ends while nobody looks: the next registration finds the new one.
	server("close");
	third = make_id(channel, device, IBV_SA_SM_TRAP_GID_OUT_OF_SERVICE, &p);
	int found[3] = { 0 };
	for (int i = 0; i < 3; i++) {
		event = get(channel);
		REQUIRE(event->attr_id == IBV_SA_ATTR_INFORM_INFO);
		found[event->context == &p ? 0 : event->status == 0 ? 1 : 2]++;
		REQUIRE(event->context != &p || event->status == 0);
		REQUIRE(ibv_sa_ack_event(event) == 0);
	}
	REQUIRE(found[0] == 1 && found[1] == 1 && found[2] == 1);

	// It sends what is no message: that is its end.
	server("garbage");
	one = get(channel), two = get(channel);
	REQUIRE(one->status == -ENETRESET && two->status == -ENETRESET);
	REQUIRE(ibv_sa_ack_event(one) == 0 && ibv_sa_ack_event(two) == 0);
	expect_status(channel, &a, 0);

	// It refuses the second time.
	server("greet refuse %d too many", EBUSY);
	server("close");
	expect_status(channel, &a, -ENETRESET);
	expect_status(channel, &a, -EBUSY);
	nothing_comes(channel, 200);
	server("greet welcome");
	expect_status(channel, &a, 0);

	// It is silent: that is no daemon.
	server("greet silent");
	server("close");
	expect_status(channel, &a, -ENETRESET);
	time_t before = time(NULL);
	expect_status(channel, &a, -ETIMEDOUT);
	REQUIRE(time(NULL) - before >= 4);
	server("greet welcome");
	expect_status(channel, &a, 0);

	server("stop");
	REQUIRE(ibv_sa_free_id(again) == 0);
	REQUIRE(ibv_sa_free_id(third) == 0);
	ibv_sa_destroy_event_channel(channel);
	printf("good\n");
	return 0;
}
