// SPDX-License-Identifier: MIT OR Apache-2.0
//
// partly_around PLUGIN FORM MS: the program gets two events of an object, a plug-in acknowledges the first. The main
// thread destroys the object, and another thread acknowledges the second MS milliseconds later; or nobody, if
// MS is 0.

#include <dlfcn.h>

#include "ledger.h"

static struct thing t;
static struct ibv_async_event second;

static void *acknowledge(void *argument)
{
	sleep_ms(*(long *)argument);
	ack(&t, &second);
	return argument;
}

int main(int argc, char **argv)
{
	void (*around_ack)(const struct thing *, const struct ibv_async_event *);
	pthread_t thread;

	REQUIRE(argc == 4);
	void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
	REQUIRE(plugin);
	REQUIRE(*(void **)&around_ack = dlsym(plugin, "around_ack"));
	long ms = atoi(argv[3]);
	t = make(argv[2]);
	i_am_called("partly_around");
	say_thing("object", &t);
	say_thread("thread");
	struct ibv_async_event first = inject_and_take(&t, 0);
	second = inject_and_take(&t, 1);
	around_ack(&t, &first);
	if (ms)
		REQUIRE(pthread_create(&thread, NULL, acknowledge, &ms) == 0);
	destroy_and_say(&t);
	if (ms)
		REQUIRE(pthread_join(thread, NULL) == 0);
	close_all(&t);
	return 0;
}
