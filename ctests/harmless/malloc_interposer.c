// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A preload library of the usual kind: it counts allocations and finds the real ones by RTLD_NEXT.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

static atomic_long allocations, frees;

void *malloc(size_t size)
{
	static void *(*real)(size_t);

	if (!real)
		real = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	atomic_fetch_add(&allocations, 1);
	return real(size);
}

void free(void *memory)
{
	static void (*real)(void *);

	if (!real)
		real = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	if (memory)
		atomic_fetch_add(&frees, 1);
	real(memory);
}

__attribute__((destructor)) static void say(void)
{
	// The numbers are another matter: the program may print with malloc or without.
	dprintf(2, "interposer: %s, %s\n", allocations ? "allocations" : "none",
		frees ? "frees" : "none");
}
