// SPDX-License-Identifier: MIT OR Apache-2.0
//
// What becomes of a registration: refused by the daemon, refused by the SA, lost, active again.

#include "sa.h"

static struct ibv_sa_event_channel *channel;
static struct ibv_context *device;

static void refused(int status)
{
	server("register %d", status);
	struct ibv_sa_id *id = make_id(channel, device, IBV_SA_SM_TRAP_GID_IN_SERVICE, &channel);
	expect_status(channel, &channel, status);
	server("register 0");
	REQUIRE(ibv_sa_free_id(id) == 0);
	FAILS(ibv_sa_free_id(id), EINVAL);
}

static void lost(int status)
{
	server("activate %d", status);
	struct ibv_sa_id *id = make_id(channel, device, IBV_SA_SM_TRAP_GID_IN_SERVICE, &channel);
	expect_status(channel, &channel, status);
	// Not active: no notice is for it.
	server("notice 0 64 fe80::1");
	nothing_comes(channel, 10);
	server("activate 0");
	REQUIRE(ibv_sa_free_id(id) == 0);
	server_until("live", 0);
}

int main(void)
{
	device = open_device("ibsim0");
	channel = make_channel();
	const int of_daemon[] = { -EACCES, -EBUSY, -ENODEV, -EOPNOTSUPP, -EEXIST };
	const int of_sa[] = { -EACCES, -EINVAL, -ETIMEDOUT, -EBUSY, -ENETDOWN, -ENETRESET };

	for (unsigned int i = 0; i < sizeof(of_daemon) / sizeof(int); i++)
		refused(of_daemon[i]);
	for (unsigned int i = 0; i < sizeof(of_sa) / sizeof(int); i++)
		lost(of_sa[i]);

	// Lost and found; the same status is not told twice.
	struct ibv_sa_id *id = make_active(channel, device, IBV_SA_SM_TRAP_GID_IN_SERVICE, &channel);
	server("status 0 %d", -ENETDOWN);
	server("status 0 %d", -ENETDOWN);
	server("status 0 0");
	expect_status(channel, &channel, -ENETDOWN);
	expect_status(channel, &channel, 0);
	server("notice 0 64 fe80::5");
	REQUIRE(ibv_sa_ack_event(get_notice(channel, &channel, 64)) == 0);
	nothing_comes(channel, 10);

	// A daemon that is silent: no event, and it can be freed.
	server("register silent");
	struct ibv_sa_id *waiting = make_id(channel, device, IBV_SA_SM_TRAP_GID_IN_SERVICE, NULL);
	nothing_comes(channel, 10);
	REQUIRE(ibv_sa_free_id(waiting) == 0);
	REQUIRE(ibv_sa_free_id(id) == 0);

	// A trap in host order: taken as it was meant.
	server("register 0");
	id = make_active(channel, device, 64, NULL);
	REQUIRE(strstr(server("last"), "trap: Some(64)"));
	REQUIRE(ibv_sa_free_id(id) == 0);
	ibv_sa_destroy_event_channel(channel);
	printf("good\n");
	return 0;
}
