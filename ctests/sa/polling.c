// SPDX-License-Identifier: MIT OR Apache-2.0
//
// polling poll|select|level|edge|nonblock: the descriptor says when there may be an event, and only then.

#include <sys/epoll.h>
#include <sys/select.h>

#include "sa.h"

static struct ibv_sa_event_channel *channel;
static int epoll = -1;

static bool ready(const char *how, int milliseconds)
{
	if (!strcmp(how, "poll"))
		return readable(channel->fd, milliseconds);
	if (!strcmp(how, "select")) {
		struct timeval time = { .tv_usec = milliseconds * 1000 };
		fd_set set;

		FD_ZERO(&set);
		FD_SET(channel->fd, &set);
		return select(channel->fd + 1, &set, NULL, NULL, &time) == 1;
	}
	struct epoll_event event = { .events = EPOLLIN | (strcmp(how, "edge") ? 0 : EPOLLET) };

	if (epoll < 0) {
		REQUIRE((epoll = epoll_create1(EPOLL_CLOEXEC)) >= 0);
		REQUIRE(epoll_ctl(epoll, EPOLL_CTL_ADD, channel->fd, &event) == 0);
	}
	return epoll_wait(epoll, &event, 1, milliseconds) == 1;
}

// Gets all there is; how many they were.
static int drain(void)
{
	struct ibv_sa_event *event;
	int number = 0;

	for (; ibv_sa_get_event(channel, &event) == 0; number++)
		REQUIRE(ibv_sa_ack_event(event) == 0);
	REQUIRE(errno == EAGAIN);
	return number;
}

// Events come, and each time the descriptor says so until there is none.
static int wait_for(const char *how, int number)
{
	int seen = 0;

	for (int i = 0; seen < number; i++) {
		REQUIRE(i < 1000);
		REQUIRE(ready(how, 5000));
		seen += drain();
	}
	return seen;
}

int main(int argc, char **argv)
{
	struct ibv_context *device = open_device("ibsim0");
	struct ibv_sa_event *event;

	REQUIRE(argc == 2);
	const char *how = argv[1];
	channel = make_channel();
	if (!strcmp(how, "nonblock")) {
		// O_NONBLOCK is looked at in each call.
		set_nonblocking(channel, true);
		FAILS(ibv_sa_get_event(channel, &event), EAGAIN);
		set_nonblocking(channel, false);
		struct ibv_sa_id *id = make_active(channel, device, IBV_SA_SM_TRAP_ALL, NULL);
		set_nonblocking(channel, true);
		FAILS(ibv_sa_get_event(channel, &event), EAGAIN);
		REQUIRE(ibv_sa_free_id(id) == 0);
		ibv_sa_destroy_event_channel(channel);
		printf("good\n");
		return 0;
	}
	set_nonblocking(channel, true);
	REQUIRE(!ready(how, 20));
	struct ibv_sa_id *id = make_id(channel, device, IBV_SA_SM_TRAP_ALL, NULL);
	REQUIRE(wait_for(how, 1) == 1);
	REQUIRE(!ready(how, 20));
	for (int round = 0; round < 100; round++) {
		server("notices 0 3 64");
		REQUIRE(wait_for(how, 3) == 3);
	}
	REQUIRE(!ready(how, 20));
	if (strcmp(how, "edge")) {
		// One of two: it stays readable.
		server("notices 0 2 64");
		REQUIRE(ready(how, 5000));
		REQUIRE(ibv_sa_ack_event(get(channel)) == 0);
		REQUIRE(ready(how, 5000));
		REQUIRE(ibv_sa_ack_event(get(channel)) == 0);
	}
	// One get learns of the loss of both: the descriptor says that there is one more, and then that there is none.
	struct ibv_sa_id *other = make_id(channel, device, IBV_SA_SM_TRAP_ALL, NULL);
	REQUIRE(wait_for(how, 1) == 1);
	server("close");
	REQUIRE(ready(how, 5000));
	REQUIRE(ibv_sa_ack_event(get(channel)) == 0);
	REQUIRE(ready(how, 5000));
	REQUIRE(drain() == 1);
	REQUIRE(!readable(channel->fd, 20));
	REQUIRE(ibv_sa_free_id(id) == 0 && ibv_sa_free_id(other) == 0);
	// What a free takes out of the queue is not announced.
	id = make_id(channel, device, IBV_SA_SM_TRAP_ALL, NULL);
	other = make_id(channel, device, IBV_SA_SM_TRAP_ALL, NULL);
	REQUIRE(wait_for(how, 2) == 2);
	server("close");
	REQUIRE(ready(how, 5000));
	event = get(channel);
	REQUIRE(event->status == -ENETRESET && ibv_sa_ack_event(event) == 0);
	REQUIRE(ibv_sa_free_id(id) == 0);
	REQUIRE(ibv_sa_free_id(other) == 0);
	REQUIRE(drain() == 0);
	REQUIRE(!readable(channel->fd, 20));
	ibv_sa_destroy_event_channel(channel);
	printf("good\n");
	return 0;
}
