/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program that gets notices through libibv_sa, and notes how long each took since its Report arrived. The bench
 * (crates/bench) has put that time, of CLOCK_MONOTONIC, and the number of the report into the GID that the notice is
 * about.
 *
 *   notices NUMBER REGISTRATIONS REPORTS CHUNK FILE
 *
 * Writes its number, a byte, when all registrations are active and after each chunk of reports; and at its end to FILE
 * the times: nanoseconds, 32 bits each. Each registration has to get each report once and in order.
 */
#define _GNU_SOURCE
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/ibv_sa.h>

static void fail(const char *what)
{
	fprintf(stderr, "notices: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void say(unsigned char number)
{
	if (write(STDOUT_FILENO, &number, 1) != 1)
		fail("write");
}

static struct ibv_sa_event *get(struct ibv_sa_event_channel *channel)
{
	struct ibv_sa_event *event;

	if (ibv_sa_get_event(channel, &event))
		fail("ibv_sa_get_event");
	return event;
}

/* Returns how long ago the report arrived. */
static uint32_t check(const struct ibv_sa_event *event, uint64_t at)
{
	uint64_t *last = event->context, told[2];
	union ibv_gid gid;

	errno = 0;
	if (event->attr_id != IBV_SA_ATTR_NOTICE || event->status || ibv_sa_notice_gid(event, &gid))
		fail(ibv_sa_event_str(event));
	memcpy(told, gid.raw, sizeof(told));
	if (be64toh(told[1]) != ++*last)
		fail("a notice out of turn");
	return (uint32_t)(at - be64toh(told[0]));
}

int main(int argc, char **argv)
{
	if (argc != 6)
		fail("NUMBER REGISTRATIONS REPORTS CHUNK FILE");
	prctl(PR_SET_PDEATHSIG, SIGKILL);

	unsigned char number = (unsigned char)atoi(argv[1]);
	size_t registrations = (size_t)atoi(argv[2]), reports = (size_t)atoi(argv[3]), chunk = (size_t)atoi(argv[4]);
	size_t all = registrations * reports;
	uint64_t *last = calloc(registrations, sizeof(*last));
	struct ibv_sa_id **ids = calloc(registrations, sizeof(struct ibv_sa_id *));
	uint32_t *times = calloc(all, sizeof(*times));
	struct ibv_sa_event_channel *channel = ibv_sa_create_event_channel();
	struct ibv_sa_inform_filter filter = {
		.comp_mask = IBV_SA_INFORM_IS_GENERIC | IBV_SA_INFORM_TRAP,
		.device_name = "embedded0",
		.trap_number = IBV_SA_SM_TRAP_GID_IN_SERVICE,
		.is_generic = 1,
	};

	if (!last || !ids || !times || !channel)
		fail("a channel");
	for (size_t i = 0; i < registrations; i++)
		if (ibv_sa_register_inform_info_ex(channel, NULL, 1, &filter, &last[i], &ids[i]))
			fail("ibv_sa_register_inform_info_ex");
	for (size_t i = 0; i < registrations; i++) {
		struct ibv_sa_event *event = get(channel);

		if (event->attr_id != IBV_SA_ATTR_INFORM_INFO || event->status)
			fail(ibv_sa_event_str(event));
		ibv_sa_ack_event(event);
	}
	say(number);
	for (size_t i = 0; i < all; i++) {
		struct ibv_sa_event *event = get(channel);

		times[i] = check(event, now());
		ibv_sa_ack_event(event);
		if ((i + 1) % (registrations * chunk) == 0 || i + 1 == all)
			say(number);
	}

	struct ibv_sa_event *more;

	if (fcntl(channel->fd, F_SETFL, O_NONBLOCK) || !ibv_sa_get_event(channel, &more) || errno != EAGAIN)
		fail("an event after the last");
	for (size_t i = 0; i < registrations; i++)
		if (ibv_sa_free_id(ids[i]))
			fail("ibv_sa_free_id");
	ibv_sa_destroy_event_channel(channel);

	FILE *file = fopen(argv[5], "w");

	if (!file || fwrite(times, sizeof(*times), all, file) != all || fclose(file))
		fail(argv[5]);
	free(times);
	free(ids);
	free(last);
	return 0;
}
