// SPDX-License-Identifier: MIT OR Apache-2.0
//
// realtime FORM: a thread with real-time priority destroys an object whose event another one holds. How the threads are
// scheduled that are neither: stranger=POLICY PRIORITY, as in sched_getscheduler(2).

#include <dirent.h>
#include <sched.h>

#include "ledger.h"

static struct thing t;
static pid_t holder;

static void *hold(void *argument)
{
	struct ibv_async_event event = inject_and_take(&t, 0);
	struct sched_param param;
	struct dirent *entry;

	holder = (pid_t)syscall(SYS_gettid);
	i_am_about_to_block();
	sleep_ms(500);
	DIR *dir = opendir("/proc/self/task");
	REQUIRE(dir);
	while ((entry = readdir(dir))) {
		pid_t tid = atoi(entry->d_name);

		if (tid == 0 || tid == getpid() || tid == holder)
			continue;
		REQUIRE(sched_getparam(tid, &param) == 0);
		say("stranger=%d %d", sched_getscheduler(tid), param.sched_priority);
	}
	closedir(dir);
	ack(&t, &event);
	return argument;
}

int main(int argc, char **argv)
{
	struct sched_param param = { .sched_priority = 1 };
	pthread_t thread;

	REQUIRE(argc == 2);
	t = make(argv[1]);
	REQUIRE(pthread_create(&thread, NULL, hold, NULL) == 0);
	while (!blocking_thread)
		sleep_ms(1);
	REQUIRE(sched_setscheduler(0, SCHED_FIFO, &param) == 0);
	destroy_and_say(&t);
	REQUIRE(pthread_join(thread, NULL) == 0);
	close_all(&t);
	return 0;
}
