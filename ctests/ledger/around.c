// SPDX-License-Identifier: MIT OR Apache-2.0
//
// around PLUGIN FORM WHAT: a plug-in that calls libibverbs itself does one of the steps, the program the rest.
//   read     the plug-in gets the event
//   ack      the plug-in acknowledges it
//   both     the plug-in gets and acknowledges
//   create   the plug-in makes the object
//   double   the same, and the program acknowledges twice
//   destroy  the plug-in destroys the object; the program makes another, at the same address
//   context  the context was opened by a provider's own call
//   twice    the same, and the program acknowledges twice
//   thirty   the plug-in gets thirty events, the program acknowledges them (in one call, if it can)
//   one_of_two  of two events the plug-in gets one; the program acknowledges both
//   mixed    the plug-in gets and acknowledges one event, the program gets another, and acknowledges it in a second
//            thread 300 ms after the destroy began

#include <dlfcn.h>

#include "ledger.h"

static struct ibv_async_event (*around_take)(const struct thing *t, int i);
static void (*around_ack)(const struct thing *t, const struct ibv_async_event *event);
static void (*around_create)(struct thing *t);
static int (*around_destroy)(const struct thing *t);

static void load(const char *plugin)
{
	void *handle = dlopen(plugin, RTLD_NOW | RTLD_DEEPBIND);

	REQUIRE(handle);
	REQUIRE(*(void **)&around_take = dlsym(handle, "around_take"));
	REQUIRE(*(void **)&around_ack = dlsym(handle, "around_ack"));
	REQUIRE(*(void **)&around_create = dlsym(handle, "around_create"));
	REQUIRE(*(void **)&around_destroy = dlsym(handle, "around_destroy"));
}

static struct ibv_context *open_around(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	REQUIRE(list && list[0]);
	struct ibv_context *context = scripted_open_around(list[0]);
	ibv_free_device_list(list);
	return context;
}

static void thirty(const struct thing *t)
{
	struct ibv_async_event events[30];

	for (int i = 0; i < 30; i++) {
		inject(t, 0);
		events[i] = around_take(t, 0);
	}
	if (t->kind == COMP)
		ibv_ack_cq_events(t->its_cq, 30);
	for (int i = 0; t->kind != COMP && i < 30; i++)
		ack(t, &events[i]);
	destroy_and_say(t);
}

static struct thing mixed;

static void *acknowledge_late(void *event)
{
	sleep_ms(400);
	ack(&mixed, event);
	return NULL;
}

static void mix(void)
{
	struct ibv_async_event event;
	pthread_t thread;

	inject(&mixed, 0);
	event = around_take(&mixed, 0);
	around_ack(&mixed, &event);
	event = inject_and_take(&mixed, 0);
	REQUIRE(pthread_create(&thread, NULL, acknowledge_late, &event) == 0);
	sleep_ms(100);
	destroy_and_say(&mixed);
	REQUIRE(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv)
{
	struct ibv_async_event event;

	REQUIRE(argc == 4);
	load(argv[1]);
	const char *what = argv[3];
	bool is_context = !strcmp(what, "context") || !strcmp(what, "twice");
	struct thing t = make_on(is_context ? open_around() : open_first(), argv[2]);

	i_am_called("around");
	if (!strcmp(what, "create") || !strcmp(what, "double")) {
		// The first one stays: two objects must not share an address.
		around_create(&t);
	} else if (!strcmp(what, "destroy")) {
		void *before = t.address;

		event = inject_and_take(&t, 0);
		ack(&t, &event);
		REQUIRE(around_destroy(&t) == 0);
		create(&t);
		say("same=%s", t.address == before ? "yes" : "no");
	}
	say_thing("object", &t);
	say_thread("thread");
	if (!strcmp(what, "mixed")) {
		mixed = t;
		mix();
		return 0;
	}
	if (!strcmp(what, "thirty")) {
		thirty(&t);
		return 0;
	}
	inject(&t, 0);
	bool takes = !strcmp(what, "read") || !strcmp(what, "both") || !strcmp(what, "one_of_two");
	event = takes ? around_take(&t, 0) : take(&t, 0);
	if (!strcmp(what, "one_of_two")) {
		inject_and_take(&t, 0);
		ack(&t, &event);
	}
	if (!strcmp(what, "ack") || !strcmp(what, "both"))
		around_ack(&t, &event);
	else
		ack(&t, &event);
	if (!strcmp(what, "double") || !strcmp(what, "twice"))
		ack(&t, &event);
	destroy_and_say(&t);
	return 0;
}
