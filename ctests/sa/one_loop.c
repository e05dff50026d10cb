// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The example one_loop with a second thread that makes all three kinds of events happen.

#include <dlfcn.h>
#include <pthread.h>

#define main example
#include "../examples/one_loop.c"
#undef main
#include "sa.h"

static void *happen(void *argument)
{
	void *provider;
	int (*async)(struct ibv_context *, int, void *);
	int (*comp)(struct ibv_comp_channel *, struct ibv_cq *);
	int (*add)(struct ibv_cq *, const struct ibv_wc *, int);
	struct ibv_wc wc = { .wr_id = 42 };

	server_until("live", 1);
	REQUIRE(provider = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD));
	*(void **)&async = dlsym(provider, "scripted_async");
	*(void **)&comp = dlsym(provider, "scripted_comp");
	*(void **)&add = dlsym(provider, "scripted_wc");
	REQUIRE(async && comp && add);
	usleep(50000);
	server("notice 0 65 fe80::3");
	usleep(50000);
	REQUIRE(async(context, IBV_EVENT_PORT_ACTIVE, (void *)1) == 0);
	usleep(50000);
	REQUIRE(add(cq, &wc, 1) == 0 && comp(completions, cq) == 0);
	usleep(50000);
	REQUIRE(async(context, IBV_EVENT_DEVICE_FATAL, NULL) == 0);
	return argument;
}

int main(void)
{
	char *arguments[] = { "one_loop", "ibsim0", "1", NULL };
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, happen, NULL) == 0);
	REQUIRE(example(3, arguments) == 0);
	REQUIRE(pthread_join(thread, NULL) == 0);
	return 0;
}
