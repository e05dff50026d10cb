// SPDX-License-Identifier: MIT OR Apache-2.0
//
// no_buffers: the kernel is short of memory when a registration is sent. It goes out later, and the program is not kept
// busy until then.

#define _GNU_SOURCE
#include "sa.h"

static long long until;
static int tried;

static long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

// In the place of libc's, for the library too.
ssize_t send(int fd, const void *packet, size_t length, int flags)
{
	if (fd != control && now_ms() < until) {
		errno = tried++ % 2 ? ENOMEM : ENOBUFS;
		return -1;
	}
	return syscall(SYS_sendto, fd, packet, length, flags, NULL, 0);
}

int main(void)
{
	struct ibv_context *device = open_device("ibsim0");
	struct ibv_sa_event_channel *channel = make_channel();
	struct ibv_sa_event *event;
	int woken = 0;

	until = now_ms() + 500;
	struct ibv_sa_id *id = make_id(channel, device, IBV_SA_SM_TRAP_ALL, NULL);
	set_nonblocking(channel, true);
	while (ibv_sa_get_event(channel, &event)) {
		REQUIRE(errno == EAGAIN);
		REQUIRE(readable(channel->fd, 10000));
		woken++;
	}
	REQUIRE(event->attr_id == IBV_SA_ATTR_INFORM_INFO && event->status == 0);
	REQUIRE(ibv_sa_ack_event(event) == 0);
	// Every 50 ms, and for the answers.
	REQUIRE(tried >= 1 && tried <= 11 && woken <= 15);
	REQUIRE(!readable(channel->fd, 100));
	REQUIRE(ibv_sa_free_id(id) == 0);
	server_until("live", 0);
	ibv_sa_destroy_event_channel(channel);
	printf("good\n");
	return 0;
}
