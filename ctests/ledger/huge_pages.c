// SPDX-License-Identifier: MIT OR Apache-2.0
//
// huge_pages: the mappings of at least 4 MiB that belong to no file, after an event: large=N, and how many of them must
// not become huge pages: small_pages=N (proc(5), VmFlags, nh).

#include "ledger.h"

int main(void)
{
	struct thing t = make("qp");
	struct ibv_async_event event = inject_and_take(&t, 0);
	unsigned long from, to, inode;
	bool is_large = false;
	int large = 0, small_pages = 0;
	char line[512];
	FILE *maps = fopen("/proc/self/smaps", "re");

	ack(&t, &event);
	REQUIRE(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %*s %*s %*s %lu", &from, &to, &inode) == 3) {
			is_large = inode == 0 && to - from >= 4 << 20;
			large += is_large;
		} else if (is_large && !strncmp(line, "VmFlags:", 8)) {
			small_pages += strstr(line, " nh") != NULL;
		}
	}
	fclose(maps);
	say("large=%d", large);
	say("small_pages=%d", small_pages);
	REQUIRE(destroy(&t) == 0);
	close_all(&t);
	return 0;
}
