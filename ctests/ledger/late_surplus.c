// SPDX-License-Identifier: MIT OR Apache-2.0
//
// late_surplus PLUGIN FORM: a plug-in gets an event; while the main thread sits in the destroy, another one
// acknowledges it. Then a second object lives the same life. How many threads there are a second later: threads=N.

#include <dirent.h>
#include <dlfcn.h>

#include "ledger.h"

static struct thing t;
static struct ibv_async_event event;

static void *acknowledge(void *argument)
{
	sleep_ms(300);
	ack(&t, &event);
	return argument;
}

static int threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	int n = 0;

	REQUIRE(dir);
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

int main(int argc, char **argv)
{
	struct ibv_async_event (*around_take)(const struct thing *, int);
	pthread_t thread;

	REQUIRE(argc == 3);
	void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
	REQUIRE(plugin);
	REQUIRE(*(void **)&around_take = dlsym(plugin, "around_take"));
	struct ibv_context *context = open_first();
	for (int i = 0; i < 2; i++) {
		t = make_on(context, argv[2]);
		inject(&t, 0);
		event = around_take(&t, 0);
		REQUIRE(pthread_create(&thread, NULL, acknowledge, NULL) == 0);
		destroy_and_say(&t);
		REQUIRE(pthread_join(thread, NULL) == 0);
	}
	sleep_ms(1000);
	say("threads=%d", threads());
	return 0;
}
