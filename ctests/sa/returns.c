// SPDX-License-Identifier: MIT OR Apache-2.0
//
// returns register-nodev|register-busy|activate-nodev|first|good: a daemon comes back and refuses what it had. What may be possible later is told once and asked for again
// until it is, if the registration wants that; the rest is final.

#include "sa.h"

static struct ibv_sa_event_channel *channel;
static struct ibv_context *device;

static struct ibv_sa_id *make(unsigned int flags, void *context)
{
	const struct ibv_sa_inform_filter filter = {
		.comp_mask = IBV_SA_INFORM_TRAP,
		.trap_number = IBV_SA_SM_TRAP_GID_IN_SERVICE,
		.flags = flags,
	};
	struct ibv_sa_id *id;

	REQUIRE(ibv_sa_register_inform_info_ex(channel, device, 1, &filter, context, &id) == 0);
	return id;
}

// what: "register", where the daemon refuses at once, or "activate", where it finds out later.
static void refused_for_a_while(const char *what, int status)
{
	int wanted, plain;
	struct ibv_sa_id *id = make(IBV_SA_AUTO_REREGISTER, &wanted);

	expect_status(channel, &wanted, 0);
	struct ibv_sa_id *once = make(0, &plain);
	expect_status(channel, &plain, 0);
	int made = atoi(server("made"));

	server("%s %d", what, status);
	server("close");
	for (int i = 0; i < 2; i++) {
		struct ibv_sa_event *event = get(channel);

		REQUIRE(event->status == -ENETRESET && ibv_sa_ack_event(event) == 0);
	}
	expect_status(channel, &wanted, status);
	// It is asked a second time, and what it says is no news. Not at once, and the program sleeps meanwhile.
	int woken = 0;
	for (time_t begin = time(NULL); atoi(server("made")) < made + 2; woken += readable(channel->fd, 1000)) {
		nothing_comes(channel, 0);
		REQUIRE(time(NULL) - begin < 30);
	}
	REQUIRE(woken <= 5);
	nothing_comes(channel, 50);
	// Another one's question does not bring this one's forward.
	int before = atoi(server("made"));
	struct ibv_sa_id *late = make(0, NULL);
	expect_status(channel, NULL, status);
	REQUIRE(atoi(server("made")) <= before + 2);
	server("%s 0", what);
	expect_status(channel, &wanted, 0);
	server("notice 0 64 fe80::8");
	struct ibv_sa_event *event = get_notice(channel, &wanted, 64);
	REQUIRE(subject(event) == 8 && ibv_sa_ack_event(event) == 0);
	nothing_comes(channel, 20);
	REQUIRE(!readable(channel->fd, 0));
	REQUIRE(ibv_sa_free_id(late) == 0 && ibv_sa_free_id(once) == 0 && ibv_sa_free_id(id) == 0);
	server_until("live", 0);
}

// The first answer: a place may become free, but a device that was never there is a wrong name.
static void refused_at_first(void)
{
	int wanted;

	server("register %d", -ENODEV);
	struct ibv_sa_id *unknown = make(IBV_SA_AUTO_REREGISTER, &unknown);
	expect_status(channel, &unknown, -ENODEV);
	REQUIRE(!readable(channel->fd, 6000));
	server("register %d", -EBUSY);
	struct ibv_sa_id *id = make(IBV_SA_AUTO_REREGISTER, &wanted);
	expect_status(channel, &wanted, -EBUSY);
	server("register 0");
	expect_status(channel, &wanted, 0);
	REQUIRE(ibv_sa_free_id(unknown) == 0 && ibv_sa_free_id(id) == 0);
	server_until("live", 0);
}

static void refused_for_good(int status)
{
	int wanted;
	struct ibv_sa_id *id = make(IBV_SA_AUTO_REREGISTER, &wanted);

	expect_status(channel, &wanted, 0);
	server("register %d", status);
	server("close");
	expect_status(channel, &wanted, -ENETRESET);
	expect_status(channel, &wanted, status);
	int made = atoi(server("made"));
	nothing_comes(channel, 100);
	REQUIRE(!readable(channel->fd, 6000));
	REQUIRE(atoi(server("made")) == made);
	server("register 0");
	REQUIRE(ibv_sa_free_id(id) == 0);
}

// Freed while it waits to be asked for again.
static void freed_meanwhile(void)
{
	struct ibv_sa_id *id = make(IBV_SA_AUTO_REREGISTER, &id);

	expect_status(channel, &id, 0);
	server("register %d", -ENODEV);
	server("close");
	expect_status(channel, &id, -ENETRESET);
	expect_status(channel, &id, -ENODEV);
	REQUIRE(ibv_sa_free_id(id) == 0);
	FAILS(ibv_sa_free_id(id), EINVAL);
	server("register 0");
	server_until("live", 0);
}

int main(int argc, char **argv)
{
	REQUIRE(argc == 2);
	device = open_device("ibsim0");
	channel = make_channel();
	if (!strcmp(argv[1], "register-nodev"))
		refused_for_a_while("register", -ENODEV);
	else if (!strcmp(argv[1], "register-busy"))
		refused_for_a_while("register", -EBUSY);
	else if (!strcmp(argv[1], "activate-nodev"))
		refused_for_a_while("activate", -ENODEV);
	else if (!strcmp(argv[1], "first"))
		refused_at_first();
	else
		refused_for_good(-EACCES);
	freed_meanwhile();
	ibv_sa_destroy_event_channel(channel);
	printf("good\n");
	return 0;
}
