// SPDX-License-Identifier: MIT OR Apache-2.0
//
// storm: prints "ready"; then many threads and children do everything at once, until stdin ends, while the daemon is
// killed and started again. Nothing hangs, nothing fails in a way that the manuals do not name, and nothing is left.

#define _GNU_SOURCE
#include "sa.h"

static volatile bool stop;
static struct ibv_sa_event_channel *shared;
static struct ibv_context *device;
static volatile int made;

static struct ibv_sa_id *enlist(struct ibv_sa_event_channel *channel, unsigned int flags)
{
	const struct ibv_sa_inform_filter filter = { .device_name = "ibsim0", .flags = flags };
	struct ibv_sa_id *id = NULL;
	int failed = flags ? ibv_sa_register_inform_info_ex(channel, NULL, 1, &filter, channel, &id) :
			     ibv_sa_register_inform_info(channel, device, 1, IBV_SA_SM_TRAP_ALL, channel, &id);

	if (failed)
		REQUIRE(!id && (is_without_daemon() || (stop && errno == EBADF)));
	return id;
}

static void read_some(struct ibv_sa_event_channel *channel)
{
	struct ibv_sa_event *event;

	for (int i = 0; i < 3; i++) {
		readable(channel->fd, 2);
		if (ibv_sa_get_event(channel, &event)) {
			REQUIRE(errno == EAGAIN);
			return;
		}
		REQUIRE(event->context == channel && ibv_sa_event_str(event));
		REQUIRE(ibv_sa_ack_event(event) == 0);
		FAILS(ibv_sa_ack_event(event), EINVAL);
	}
}

static void *with_channels(void *argument)
{
	while (!stop) {
		struct ibv_sa_event_channel *channel = ibv_sa_create_event_channel();

		if (!channel) {
			REQUIRE(is_without_daemon());
			usleep(1000);
			continue;
		}
		__sync_fetch_and_add(&made, 1);
		set_nonblocking(channel, true);
		struct ibv_sa_id *one = enlist(channel, 0), *two = enlist(channel, IBV_SA_AUTO_REREGISTER);
		read_some(channel);
		REQUIRE(!one || ibv_sa_free_id(one) == 0);
		read_some(channel);
		// The other ends with the channel.
		ibv_sa_destroy_event_channel(channel);
		REQUIRE(!two || ibv_sa_free_id(two) == -1);
	}
	return argument;
}

static void *with_registrations(void *argument)
{
	while (!stop) {
		struct ibv_sa_id *id = enlist(shared, (unsigned int)made % 2);

		usleep(500);
		if (id && ibv_sa_free_id(id))
			REQUIRE(stop);
	}
	return argument;
}

static void *with_events(void *argument)
{
	struct ibv_sa_event *event;

	while (!ibv_sa_get_event(shared, &event))
		REQUIRE(ibv_sa_ack_event(event) == 0);
	REQUIRE(stop && errno == EBADF);
	return argument;
}

static void *with_children(void *argument)
{
	struct ibv_sa_event *event;
	int status;

	while (!stop) {
		pid_t pid = fork();

		if (pid == 0) {
			FAILS(ibv_sa_get_event(shared, &event), EBADF);
			_exit(0);
		}
		REQUIRE(waitpid(pid, &status, 0) == pid && status == 0);
		usleep(2000);
	}
	return argument;
}

int main(void)
{
	void *(*const work[])(void *) = { with_channels, with_channels, with_registrations, with_registrations,
					  with_events, with_events, with_children };
	pthread_t threads[sizeof(work) / sizeof(*work)];
	const int number = sizeof(work) / sizeof(*work);
	char byte;

	device = open_device("ibsim0");
	int fds = count_fds();
	shared = make_channel();
	// Without a daemon there would be none.
	REQUIRE(puts("ready") >= 0 && fflush(stdout) == 0);
	for (int i = 0; i < number; i++)
		REQUIRE(pthread_create(&threads[i], NULL, work[i], NULL) == 0);
	while (read(0, &byte, 1) > 0)
		;
	stop = true;
	// Those that are about to use it find it destroyed.
	ibv_sa_destroy_event_channel(shared);
	for (int i = 0; i < number; i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
	REQUIRE(made > 0);
	// A reader that was on its way into the wait may have cost one.
	REQUIRE(count_fds() <= fds + 1);
	printf("good\n");
	return 0;
}
