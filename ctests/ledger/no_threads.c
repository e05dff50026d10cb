// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A preloaded library that lets NO_THREADS_AFTER threads be made and no more, as a limit of the system would.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	static atomic_int made;
	const char *most = getenv("NO_THREADS_AFTER");
	int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
		(int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
			RTLD_NEXT, "pthread_create");

	if (atomic_fetch_add(&made, 1) >= (most ? atoi(most) : 0))
		return EAGAIN;
	return real(thread, attr, start, arg);
}
