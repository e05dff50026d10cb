// SPDX-License-Identifier: MIT OR Apache-2.0
//
// spoilt ROUNDS: a daemon whose packets are spoilt, as answers to Hello and later. What is no message ends the
// connection, the rest is taken for what it says; and after each batch notices come as ever.

#include "sa.h"

enum { BATCH = 50, CHANNELS = 12 };

static struct ibv_context *device;

// No more than that can be said of an event that a daemon made up.
static bool is_sound(const struct ibv_sa_event *event)
{
	return ibv_sa_event_str(event) && event->status <= 0 && event->attr_count > 0 &&
	       (event->attr_id == IBV_SA_ATTR_NOTICE || event->attr_id == IBV_SA_ATTR_INFORM_INFO);
}

// Gets all events that are there. Returns the last status of the registration, which was `status` before.
static int drain(struct ibv_sa_event_channel *channel, void *context, int status, int *notices)
{
	struct ibv_sa_event *event;

	while (!ibv_sa_get_event(channel, &event)) {
		REQUIRE(event->context == context && is_sound(event));
		if (event->attr_id == IBV_SA_ATTR_INFORM_INFO)
			status = event->status;
		else if (notices)
			*notices += event->status == 0;
		REQUIRE(ibv_sa_ack_event(event) == 0);
	}
	REQUIRE(errno == EAGAIN);
	return status;
}

// A daemon that is as it should be, a new channel, one notice, once.
static void is_well(void)
{
	struct ibv_sa_event_channel *channel = make_channel();
	struct ibv_sa_id *id = make_active(channel, device, IBV_SA_SM_TRAP_GID_IN_SERVICE, &id);
	struct ibv_sa_event *event;

	server("notice %d 64 fe80::7", atoi(server("made")));
	event = get_notice(channel, &id, 64);
	REQUIRE(subject(event) == 7 && ibv_sa_ack_event(event) == 0);
	set_nonblocking(channel, true);
	FAILS(ibv_sa_get_event(channel, &event), EAGAIN);
	REQUIRE(ibv_sa_free_id(id) == 0);
	ibv_sa_destroy_event_channel(channel);
}

// The answer to the Hello of a new channel.
static void greeted(void)
{
	struct ibv_sa_event_channel *channel = ibv_sa_create_event_channel();
	int error = channel ? 0 : errno, wanted = atoi(server("spoilt errno"));

	if (error != wanted)
		dprintf(2, "errno %d, wanted %d\n", error, wanted);
	REQUIRE(error == wanted);
	if (channel)
		ibv_sa_destroy_event_channel(channel);
}

// A packet to an open connection.
static void told(void)
{
	struct ibv_sa_event_channel *channel = make_channel();
	struct ibv_sa_id *id = make_active(channel, device, IBV_SA_SM_TRAP_GID_IN_SERVICE, &id);

	set_nonblocking(channel, true);
	bool ends = atoi(server("spoil"));
	int status = drain(channel, &id, 0, NULL), notices = 0;

	if (ends) {
		REQUIRE(status == -ENETRESET);
	} else {
		// The connection goes on, and so does a registration to which nothing was said.
		server("notice %d 64 fe80::9", atoi(server("made")));
		REQUIRE(status || readable(channel->fd, 20000));
		drain(channel, &id, status, &notices);
		REQUIRE(notices == (status == 0));
	}
	server_until("spoilt wrong", 0);
	server("spoilt forget");
	REQUIRE(ibv_sa_free_id(id) == 0);
	ibv_sa_destroy_event_channel(channel);
}

// Answers to the Hellos of channels that connect again by themselves.
static void found_again(void)
{
	const struct ibv_sa_inform_filter filter = { .flags = IBV_SA_AUTO_REREGISTER };
	struct ibv_sa_event_channel *channels[CHANNELS];
	struct ibv_sa_id *ids[CHANNELS];
	int states[CHANNELS], well = 0, before = atoi(server("spoilt made"));

	for (int i = 0; i < CHANNELS; i++) {
		channels[i] = make_channel();
		REQUIRE(ibv_sa_register_inform_info_ex(channels[i], device, 1, &filter, &ids[i], &ids[i]) == 0);
		expect_status(channels[i], &ids[i], states[i] = 0);
		set_nonblocking(channels[i], true);
	}
	server("greet spoilt again");
	server("close");
	for (int tries = 0; well < CHANNELS; tries++) {
		REQUIRE(tries < 20000);
		if (atoi(server("spoilt made")) >= before + CHANNELS)
			server("greet welcome");
		well = 0;
		for (int i = 0; i < CHANNELS; i++) {
			states[i] = drain(channels[i], &ids[i], states[i], NULL);
			well += states[i] == 0 && tries > 0;
		}
		usleep(1000);
	}
	server_until("spoilt wrong", 0);
	server("spoilt forget");
	for (int i = 0; i < CHANNELS; i++) {
		REQUIRE(ibv_sa_free_id(ids[i]) == 0);
		ibv_sa_destroy_event_channel(channels[i]);
	}
}

int main(int argc, char **argv)
{
	REQUIRE(argc == 2);
	device = open_device("ibsim0");
	int fds = count_fds();
	for (int round = 0; round < atoi(argv[1]); round++) {
		server("greet spoilt new");
		for (int i = 0; i < BATCH; i++)
			greeted();
		server("spoilt forget");
		server("greet welcome");
		is_well();
		for (int i = 0; i < BATCH; i++)
			told();
		is_well();
		found_again();
		is_well();
	}
	// And the one to the daemon's controls.
	REQUIRE(count_fds() == fds + 1);
	printf("good\n");
	return 0;
}
