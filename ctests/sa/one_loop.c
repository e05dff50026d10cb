// SPDX-License-Identifier: MIT OR Apache-2.0
//
// one_loop DEVICE PORT: the example of that name, with a second thread that makes the device's events happen. It reads
// from stdin what is next, one word a line: async, completion, fatal.

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
	char word[32];

	REQUIRE(provider = dlopen("libibverbs.so.1", RTLD_NOW));
	*(void **)&async = dlsym(provider, "scripted_async");
	*(void **)&comp = dlsym(provider, "scripted_comp");
	*(void **)&add = dlsym(provider, "scripted_wc");
	REQUIRE(async && comp && add);
	while (fgets(word, sizeof(word), stdin)) {
		if (!strcmp(word, "async\n"))
			REQUIRE(async(context, IBV_EVENT_PORT_ACTIVE, (void *)1) == 0);
		else if (!strcmp(word, "completion\n"))
			REQUIRE(add(cq, &wc, 1) == 0 && comp(completions, cq) == 0);
		else if (!strcmp(word, "fatal\n"))
			REQUIRE(async(context, IBV_EVENT_DEVICE_FATAL, NULL) == 0);
	}
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, happen, NULL) == 0);
	return example(argc, argv);
}
