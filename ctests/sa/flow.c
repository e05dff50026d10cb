// SPDX-License-Identifier: MIT OR Apache-2.0
//
// flow TRAP BUSY DEVICE PORT: gets notices of that trap that are numbered, on registrations that come back by themselves,
// and acknowledges late. Each status and each number comes once and in order, whatever becomes of the daemon. Where BUSY
// is 1 another thread makes and ends channels and registrations all the time. Prints "ready", and then does what it is
// told, with a line when it is done:
//
//   until N     each registration has got notice N
//   free        there is no daemon: the spare registrations are freed, and there are no new ones
//   back N      all registrations were lost N times and are active, the spare ones are made again
//   told N M    each registration was told N times that it was lost, and M times that notices were: as many as are missing
//   measure     prints memory in KiB and the number of descriptors
//
// The end of stdin is its end.

#include "sa.h"

#define STEADY 4
#define SPARE 4
#define HELD 16

struct registration {
	struct ibv_sa_id *id;
	bool active;
	// The next notice may have any higher number: what came while nobody had subscribed is lost.
	bool fresh;
	int losses, overflows;
	unsigned long long last;
};

static struct registration all[STEADY + SPARE];
static struct ibv_sa_event *held[HELD];
static struct ibv_sa_event_channel *channel;
static int oldest, fd;
static struct ibv_sa_inform_filter filter = {
	.comp_mask = IBV_SA_INFORM_TRAP | IBV_SA_INFORM_IS_GENERIC,
	.is_generic = 1,
	.flags = IBV_SA_AUTO_REREGISTER,
};
static uint8_t port;

// Held while the thread has a channel of its own.
static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
static volatile bool stop;

static void enlist(struct registration *one)
{
	*one = (struct registration){ 0 };
	REQUIRE(ibv_sa_register_inform_info_ex(channel, NULL, port, &filter, one, &one->id) == 0);
}

static unsigned long long number_of(const struct ibv_sa_event *event)
{
	unsigned long long number = 0;

	// It is the first of the details.
	for (int i = 10; i < 18; i++)
		number = number << 8 | ((const unsigned char *)event->attr)[i];
	return number;
}

static void ack_later(struct ibv_sa_event *event)
{
	if (held[oldest])
		REQUIRE(ibv_sa_ack_event(held[oldest]) == 0);
	held[oldest] = event;
	oldest = (oldest + 1) % HELD;
}

static void take(struct ibv_sa_event *event)
{
	struct registration *one = event->context;

	if (!one) {
		REQUIRE(ibv_sa_ack_event(event) == 0);
		return;
	}
	if (event->status == -EOVERFLOW) {
		REQUIRE(event->attr_id == IBV_SA_ATTR_NOTICE && one->active && event->attr_count > 0);
		one->overflows++;
		one->last += (unsigned int)event->attr_count;
	} else if (event->attr_id == IBV_SA_ATTR_NOTICE) {
		unsigned long long number = number_of(event);

		if (!one->active || (one->fresh ? number <= one->last : number != one->last + 1))
			dprintf(2, "%llu follows %llu\n", number, one->last);
		REQUIRE(one->active && (one->fresh ? number > one->last : number == one->last + 1));
		one->fresh = false;
		one->last = number;
	} else {
		if (event->status != (one->active ? -ENETRESET : 0))
			dprintf(2, "status %d, %d lost\n", event->status, event->attr_count);
		REQUIRE(event->attr_id == IBV_SA_ATTR_INFORM_INFO);
		REQUIRE(event->status == (one->active ? -ENETRESET : 0));
		one->losses += one->active;
		one->active = one->fresh = !one->active;
	}
	if (one < all + STEADY)
		ack_later(event);
	else
		REQUIRE(ibv_sa_ack_event(event) == 0);
}

static void *make_and_end(void *argument)
{
	struct ibv_sa_event *event;

	while (!stop) {
		struct ibv_sa_id *id;

		// The other thread gets what becomes of it.
		if (!ibv_sa_register_inform_info_ex(channel, NULL, port, &filter, NULL, &id))
			REQUIRE(ibv_sa_free_id(id) == 0);
		else
			REQUIRE(is_without_daemon());
		REQUIRE(pthread_mutex_lock(&busy) == 0);
		struct ibv_sa_event_channel *own = ibv_sa_create_event_channel();

		REQUIRE(own || is_without_daemon());
		if (own) {
			set_nonblocking(own, true);
			if (!ibv_sa_register_inform_info_ex(own, NULL, port, &filter, own, &id)) {
				readable(own->fd, 5);
				if (!ibv_sa_get_event(own, &event))
					REQUIRE(event->context == own && ibv_sa_ack_event(event) == 0);
			}
			ibv_sa_destroy_event_channel(own);
		}
		REQUIRE(pthread_mutex_unlock(&busy) == 0);
		usleep(1000);
	}
	return argument;
}

static bool all_are_active(int number, int losses)
{
	for (int i = 0; i < number; i++) {
		REQUIRE(all[i].losses <= losses);
		if (!all[i].active || all[i].losses != (i < STEADY ? losses : 0))
			return false;
	}
	return true;
}

static void free_spare(void)
{
	for (int i = STEADY; i < STEADY + SPARE; i++)
		REQUIRE(ibv_sa_free_id(all[i].id) == 0);
	struct ibv_sa_id *id;

	FAILS(ibv_sa_register_inform_info_ex(channel, NULL, port, &filter, NULL, &id), ECONNREFUSED);
}

static void back(int losses)
{
	while (!all_are_active(STEADY, losses))
		take(get(channel));
	for (int i = STEADY; i < STEADY + SPARE; i++)
		enlist(&all[i]);
	while (!all_are_active(STEADY + SPARE, losses))
		take(get(channel));
}

static void until(unsigned long long number)
{
	for (int i = 0; i < STEADY + SPARE; i++)
		while (all[i].last < number)
			take(get(channel));
}

static void was_told(const char *numbers)
{
	char *next;
	int losses = (int)strtol(numbers, &next, 10), overflows = (int)strtol(next, NULL, 10);

	for (int i = 0; i < STEADY + SPARE; i++)
		REQUIRE(all[i].losses == losses && all[i].overflows == overflows);
}

static void measure(void)
{
	REQUIRE(pthread_mutex_lock(&busy) == 0);
	REQUIRE(printf("%ld %d\n", memory_kib(), count_fds()) > 0);
	REQUIRE(pthread_mutex_unlock(&busy) == 0);
}

static void obey(const char *line)
{
	if (!strncmp(line, "until ", 6))
		until(strtoull(line + 6, NULL, 10));
	else if (!strncmp(line, "back ", 5))
		back(atoi(line + 5));
	else if (!strncmp(line, "told ", 5))
		was_told(line + 5);
	else if (!strcmp(line, "free\n"))
		free_spare();
	else
		REQUIRE(!strcmp(line, "measure\n"));
	if (line[0] == 'm')
		measure();
	else
		REQUIRE(printf("%s", line) > 0);
	REQUIRE(fflush(stdout) == 0);
}

int main(int argc, char **argv)
{
	struct pollfd ready[2] = { { .fd = 0, .events = POLLIN } };
	pthread_t thread;
	char line[64];

	REQUIRE(argc == 5);
	filter.trap_number = htobe16((uint16_t)atoi(argv[1]));
	filter.device_name = argv[3];
	port = (uint8_t)atoi(argv[4]);
	channel = make_channel();
	fd = channel->fd;
	for (int i = 0; i < STEADY + SPARE; i++)
		enlist(&all[i]);
	while (!all_are_active(STEADY + SPARE, 0))
		take(get(channel));
	bool is_busy = atoi(argv[2]);

	REQUIRE(!is_busy || pthread_create(&thread, NULL, make_and_end, NULL) == 0);
	REQUIRE(puts("ready") >= 0 && fflush(stdout) == 0);
	for (;;) {
		struct ibv_sa_event *event;

		// The descriptor is for ever.
		REQUIRE(channel->fd == fd);
		ready[1] = (struct pollfd){ .fd = fd, .events = POLLIN };
		REQUIRE(poll(ready, 2, -1) > 0 && !(ready[1].revents & ~POLLIN));
		set_nonblocking(channel, true);
		while (!ibv_sa_get_event(channel, &event))
			take(event);
		REQUIRE(errno == EAGAIN);
		set_nonblocking(channel, false);
		if (!ready[0].revents)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			break;
		obey(line);
	}
	stop = true;
	REQUIRE(!is_busy || pthread_join(thread, NULL) == 0);
	for (int i = 0; i < HELD; i++)
		ack_later(NULL);
	for (int i = 0; i < STEADY + SPARE; i++)
		REQUIRE(ibv_sa_free_id(all[i].id) == 0);
	ibv_sa_destroy_event_channel(channel);
	printf("good\n");
	return 0;
}
