// SPDX-License-Identifier: MIT OR Apache-2.0
//
// fork_in_dlopen LIBRARY TIMES: children are made by _Fork, without atfork handlers, while another thread opens and
// closes a library: the loader's lock may be held for ever in the child, which calls a function not called before.

#define _GNU_SOURCE // _Fork
#include <dlfcn.h>

#include "harmless.h"

static void *open_and_close(void *library)
{
	for (;;) {
		void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);

		REQUIRE(handle);
		dlclose(handle);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	int good = 0;

	REQUIRE(argc == 3);
	int times = atoi(argv[2]);
	REQUIRE(ibv_get_device_list(NULL));
	REQUIRE(pthread_create(&thread, NULL, open_and_close, argv[1]) == 0);
	for (int i = 0; i < times; i++) {
		int status;
		pid_t pid = _Fork();

		REQUIRE(pid >= 0);
		if (pid == 0) {
			alarm(2);
			ibv_event_type_str(IBV_EVENT_CQ_ERR);
			_exit(0);
		}
		REQUIRE(waitpid(pid, &status, 0) == pid);
		good += status == 0;
		// One that hangs costs two seconds; a few say enough.
		if (i + 1 - good == 3)
			break;
	}
	printf("good children: %d of %d\n", good, times);
	fflush(stdout);
	_exit(0);
}
