// SPDX-License-Identifier: MIT OR Apache-2.0
//
// crowd NUMBER: a user may have so many connections with the daemon. One more is refused with EBUSY; when one has gone
// there is room again.

#include <sys/resource.h>

#include "sa.h"

int main(int argc, char **argv)
{
	struct rlimit files;
	int number = argc == 2 ? atoi(argv[1]) : 0;
	struct ibv_sa_event_channel **channels = calloc((size_t)number + 1, sizeof(*channels));

	REQUIRE(number > 0 && channels);
	REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
	files.rlim_cur = files.rlim_max;
	REQUIRE(setrlimit(RLIMIT_NOFILE, &files) == 0);
	for (int i = 0; i < number; i++)
		channels[i] = make_channel();
	for (int i = 0; i < 2; i++) {
		errno = 0;
		REQUIRE(!ibv_sa_create_event_channel());
		REQUIRE(errno == EBUSY);
	}
	ibv_sa_destroy_event_channel(channels[0]);
	// The daemon may still have it in its books.
	for (int i = 0; !(channels[0] = ibv_sa_create_event_channel()); i++) {
		REQUIRE(errno == EBUSY && i < 2000);
		usleep(10000);
	}
	for (int i = 0; i < number; i++)
		ibv_sa_destroy_event_channel(channels[i]);
	free(channels);
	printf("good\n");
	return 0;
}
