// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A plug-in for plugin_host whose destructor, which runs under the loader's lock, waits for a thread of its own;
// that thread makes calls then that nobody made before.

#include "harmless.h"

static struct ibv_context *context;
static struct ibv_pd *pd;
static pthread_t thread;
static volatile int leave;

static void *work(void *argument)
{
	while (!leave)
		usleep(1000);
	// Time for the destructor to be in the middle of its wait.
	usleep(20000);
	REQUIRE(ibv_dealloc_pd(pd) == 0);
	REQUIRE(ibv_close_device(context) == 0);
	return argument;
}

void *plugin_open(void)
{
	context = open_first();
	REQUIRE(pd = ibv_alloc_pd(context));
	REQUIRE(pthread_create(&thread, NULL, work, NULL) == 0);
	return context;
}

void plugin_close(void *unused)
{
	(void)unused;
}

__attribute__((destructor)) static void at_unload(void)
{
	if (!context)
		return;
	leave = 1;
	REQUIRE(pthread_join(thread, NULL) == 0);
	printf("joined\n");
	fflush(stdout);
}
