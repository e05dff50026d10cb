// SPDX-License-Identifier: MIT OR Apache-2.0
//
// burst REGISTRATIONS GIDS DEVICE PORT: so many registrations of trap 65 and as many of trap 64. Prints "ready" when all
// are active. When each has got each of so many GIDs, once, of 65 and then of 64, prints the trap and when the first and
// the last came, in nanoseconds. When stdin ends, nothing more has come.

#include "sa.h"

#define MOST_GIDS 256

struct registration {
	__be16 trap;
	bool seen[MOST_GIDS];
	int number;
};

static unsigned long long gids[MOST_GIDS];
static int known;

static int number_of(unsigned long long gid)
{
	int i = 0;

	while (i < known && gids[i] != gid)
		i++;
	REQUIRE(i < MOST_GIDS);
	if (i == known)
		gids[known++] = gid;
	return i;
}

static long long now(void)
{
	struct timespec time;

	REQUIRE(clock_gettime(CLOCK_MONOTONIC, &time) == 0);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static void one(struct ibv_sa_event_channel *channel, int trap)
{
	struct ibv_sa_event *event = get(channel);
	struct registration *registration = event->context;

	if (event->attr_id != IBV_SA_ATTR_NOTICE)
		dprintf(2, "status %d, %d lost\n", event->status, event->attr_count);
	REQUIRE(event->attr_id == IBV_SA_ATTR_NOTICE);
	REQUIRE(ibv_sa_notice_trap(event) == trap);
	REQUIRE(registration->trap == htobe16(trap));
	bool *seen = &registration->seen[number_of(subject(event))];
	REQUIRE(!*seen);
	*seen = true;
	registration->number++;
	REQUIRE(ibv_sa_ack_event(event) == 0);
}

int main(int argc, char **argv)
{
	struct ibv_sa_event_channel *channel = make_channel();
	struct ibv_sa_inform_filter filter = {
		.comp_mask = IBV_SA_INFORM_TRAP | IBV_SA_INFORM_IS_GENERIC,
		.is_generic = 1,
	};
	char byte;

	REQUIRE(argc == 5);
	int number = atoi(argv[1]), wanted = atoi(argv[2]), port = atoi(argv[4]);
	struct registration *all = calloc((size_t)number * 2, sizeof(*all));

	REQUIRE(all && wanted > 0 && wanted <= MOST_GIDS);
	filter.device_name = argv[3];
	for (int i = 0; i < number * 2; i++) {
		struct ibv_sa_id *id;

		filter.trap_number = i % 2 ? IBV_SA_SM_TRAP_GID_IN_SERVICE : IBV_SA_SM_TRAP_GID_OUT_OF_SERVICE;
		all[i].trap = filter.trap_number;
		REQUIRE(ibv_sa_register_inform_info_ex(channel, NULL, (uint8_t)port, &filter, &all[i], &id) == 0);
	}
	for (int i = 0; i < number * 2; i++) {
		struct ibv_sa_event *event = get(channel);

		REQUIRE(event->attr_id == IBV_SA_ATTR_INFORM_INFO && event->status == 0);
		REQUIRE(ibv_sa_ack_event(event) == 0);
	}
	REQUIRE(puts("ready") >= 0 && fflush(stdout) == 0);
	for (int trap = 65; trap >= 64; trap--) {
		long long first = 0;

		for (int i = 0; i < number * wanted; i++) {
			one(channel, trap);
			first = first ? first : now();
		}
		// That is how many there are, and none came twice.
		REQUIRE(known == wanted);
		REQUIRE(printf("%d %lld %lld\n", trap, first, now()) > 0 && fflush(stdout) == 0);
	}
	while (read(0, &byte, 1) > 0)
		;
	for (int i = 0; i < number * 2; i++)
		REQUIRE(all[i].number == wanted);
	nothing_comes(channel, 0);
	ibv_sa_destroy_event_channel(channel);
	free(all);
	printf("good\n");
	return 0;
}
