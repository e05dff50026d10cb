// SPDX-License-Identifier: MIT OR Apache-2.0
//
// dropped PLUGIN FORM WHAT: a daemon starts as root and gives up its rights: most of /proc/self is closed to it.
//   double  an event is acknowledged twice, and the destroy takes 2.5 s in the kernel
//   read    a plug-in gets an event, the program acknowledges it and destroys the object
//   late    another thread gets an event and acknowledges it 2.4 s after the destroy began

#include <dlfcn.h>
#include <grp.h>

#include "ledger.h"

static struct thing t;
static struct ibv_async_event event;

// What the provider's delay calls. As in the kernel the main thread sleeps where no signal reaches it: until a
// process that was made by vfork ends.
int usleep(useconds_t microseconds)
{
	struct timespec time = { .tv_sec = microseconds / 1000000,
				 .tv_nsec = microseconds % 1000000 * 1000 };

	if (syscall(SYS_gettid) != getpid())
		return nanosleep(&time, NULL);
	pid_t pid = vfork();
	if (pid == 0) {
		syscall(SYS_nanosleep, &time, NULL);
		_exit(0);
	}
	REQUIRE(pid > 0);
	REQUIRE(waitpid(pid, NULL, 0) == pid);
	return 0;
}

static void *acknowledge(void *argument)
{
	event = inject_and_take(&t, 0);
	i_am_called("reader");
	say_thread("reader");
	i_am_about_to_block();
	sleep_ms(2600);
	ack(&t, &event);
	return argument;
}

static void drop_rights(void)
{
	REQUIRE(setgroups(0, NULL) == 0);
	REQUIRE(setgid(65534) == 0);
	REQUIRE(setuid(65534) == 0);
	REQUIRE(open("/proc/self/syscall", O_RDONLY) < 0);
}

int main(int argc, char **argv)
{
	struct ibv_async_event (*around_take)(const struct thing *, int);
	pthread_t thread;

	REQUIRE(argc == 4);
	const char *what = argv[3];
	void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
	REQUIRE(plugin);
	REQUIRE(*(void **)&around_take = dlsym(plugin, "around_take"));
	t = make(argv[2]);
	drop_rights();
	i_am_called("dropped");
	say_thing("object", &t);
	say_thread("thread");
	if (!strcmp(what, "late")) {
		REQUIRE(pthread_create(&thread, NULL, acknowledge, NULL) == 0);
		while (!blocking_thread)
			sleep_ms(1);
		sleep_ms(200);
	} else if (!strcmp(what, "read")) {
		inject(&t, 0);
		event = around_take(&t, 0);
		ack(&t, &event);
	} else {
		event = inject_and_take(&t, 0);
		ack(&t, &event);
		ack(&t, &event);
		scripted_delay(destroy_function(&t), 2500);
	}
	destroy_and_say(&t);
	if (!strcmp(what, "late"))
		REQUIRE(pthread_join(thread, NULL) == 0);
	return 0;
}
