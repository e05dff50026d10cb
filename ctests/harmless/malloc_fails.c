// SPDX-License-Identifier: MIT OR Apache-2.0
//
// malloc_fails WHEN: there is no memory left
//   first   at the first RDMA call, because malloc says so
//   limit   at the first RDMA call, because the address space is used up (RLIMIT_AS)
//   exit    from the end of main on
// A call may fail then; the program goes on.

#include <sys/resource.h>

#include "harmless.h"

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t number, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

static volatile bool failing;

static bool fails(void)
{
	if (failing)
		errno = ENOMEM;
	return failing;
}

void *malloc(size_t size)
{
	return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t number, size_t size)
{
	return fails() ? NULL : __libc_calloc(number, size);
}

void *realloc(void *memory, size_t size)
{
	return fails() ? NULL : __libc_realloc(memory, size);
}

static void use_up_the_address_space(void)
{
	struct rlimit limit = { 0, 0 };
	FILE *file = fopen("/proc/self/statm", "r");
	unsigned long pages;

	REQUIRE(file && fscanf(file, "%lu", &pages) == 1);
	fclose(file);
	limit.rlim_cur = limit.rlim_max = (pages + 2) * (rlim_t)sysconf(_SC_PAGESIZE);
	REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
	for (size_t size = 1 << 20; size >= 16; size /= 2) {
		void *volatile memory;

		do {
			memory = __libc_malloc(size);
		} while (memory);
	}
}

int main(int argc, char **argv)
{
	REQUIRE(argc == 2);
	if (!strcmp(argv[1], "exit")) {
		open_round_close();
		dprintf(1, "one round\n");
		failing = true;
		return 0;
	}
	if (!strcmp(argv[1], "limit"))
		use_up_the_address_space();
	else
		failing = true;
	struct ibv_device **list = ibv_get_device_list(NULL);
	int error = errno;
	if (list)
		dprintf(1, "a list\n");
	else
		dprintf(1, "no list, errno is set: %d\n", error != 0);
	_exit(0);
}
