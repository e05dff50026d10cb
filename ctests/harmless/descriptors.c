// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Prints the descriptors that are open while RDMA is in use, at the end of the program's work, and those that a
// program started by exec inherits.

#include <dirent.h>

#include "harmless.h"

static void show(const char *when)
{
	DIR *dir = opendir("/proc/self/fd");
	int count = 0, highest = -1;

	REQUIRE(dir);
	for (struct dirent *entry; (entry = readdir(dir));) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] == '.' || fd == dirfd(dir))
			continue;
		count++;
		if (fd > highest)
			highest = fd;
	}
	closedir(dir);
	printf("%s: %d descriptors, the highest is %d\n", when, count, highest);
	fflush(stdout);
}

int main(void)
{
	show("before");
	struct ibv_context *context = open_first();
	one_round(context);
	show("in use");
	REQUIRE(system("ls /proc/self/fd | wc -l") == 0);
	REQUIRE(ibv_close_device(context) == 0);
	show("after");
	return 0;
}
