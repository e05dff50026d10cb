// SPDX-License-Identifier: MIT OR Apache-2.0
//
// create ERRNO: no channel can be made, for this reason; and no descriptor is left open.

#include "sa.h"

int main(int argc, char **argv)
{
	REQUIRE(argc == 2);
	int fds = count_fds();

	for (int i = 0; i < 2; i++) {
		errno = 0;
		REQUIRE(!ibv_sa_create_event_channel());
		if (errno != atoi(argv[1]))
			dprintf(2, "errno %d (%s)\n", errno, strerror(errno));
		REQUIRE(errno == atoi(argv[1]));
	}
	REQUIRE(count_fds() == fds);
	printf("good\n");
	return 0;
}
