// SPDX-License-Identifier: MIT OR Apache-2.0
//
// replaced PLUGIN OLD NEW EVENTS: the program makes an object OLD and gets so many events of it; a plug-in acknowledges
// them, destroys the object and makes an object NEW at its address. The program gets and acknowledges one event
// of that one and destroys it. OLD and NEW are forms.

#include <dlfcn.h>

#include "ledger.h"

static void (*around_ack)(const struct thing *t, const struct ibv_async_event *event);
static void (*around_create)(struct thing *t);
static int (*around_destroy)(const struct thing *t);

int main(int argc, char **argv)
{
	struct ibv_async_event event;

	REQUIRE(argc == 5);
	void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
	REQUIRE(plugin);
	REQUIRE(*(void **)&around_ack = dlsym(plugin, "around_ack"));
	REQUIRE(*(void **)&around_create = dlsym(plugin, "around_create"));
	REQUIRE(*(void **)&around_destroy = dlsym(plugin, "around_destroy"));
	struct ibv_context *context = open_first();
	struct thing new = make_on(context, argv[3]);
	struct thing old = make_on(context, argv[2]);
	void *before = old.address;

	i_am_called("replaced");
	say_thread("thread");
	for (int i = 0; i < atoi(argv[4]); i++) {
		event = inject_and_take(&old, 0);
		around_ack(&old, &event);
	}
	REQUIRE(around_destroy(&old) == 0);
	// The one that was there only lent what a new one needs. Smaller ones may fit elsewhere first.
	for (int i = 0; i < 100 && new.address != before; i++)
		around_create(&new);
	say("same=%s", new.address == before ? "yes" : "no");
	say_thing("object", &new);
	event = inject_and_take(&new, 0);
	ack(&new, &event);
	destroy_and_say(&new);
	return 0;
}
