// SPDX-License-Identifier: MIT OR Apache-2.0
//
// unload LIBRARY: the library is loaded and unloaded five times, unused and then used, and once more used after
// it was unloaded while a context of it was open.

#include <dlfcn.h>

#include "harmless.h"

#define LOOK_UP(handle, name) ((__typeof__(&name))dlsym(handle, #name))

int main(int argc, char **argv)
{
	void *handle;

	REQUIRE(argc == 2);
	for (int i = 0; i < 5; i++) {
		REQUIRE(handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL));
		REQUIRE(dlclose(handle) == 0);
	}
	REQUIRE(handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL));
	struct ibv_device **list = LOOK_UP(handle, ibv_get_device_list)(NULL);
	REQUIRE(list && list[0]);
	struct ibv_context *context = LOOK_UP(handle, ibv_open_device)(list[0]);
	REQUIRE(context);
	LOOK_UP(handle, ibv_free_device_list)(list);
	REQUIRE(dlclose(handle) == 0);

	// The program's own libibverbs, and the tables of the context, which may lead into the library.
	one_round(context);
	REQUIRE(handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL));
	REQUIRE(LOOK_UP(handle, ibv_close_device)(context) == 0);
	REQUIRE(dlclose(handle) == 0);
	printf("done, alive: %d\n", scripted_alive());
	return 0;
}
