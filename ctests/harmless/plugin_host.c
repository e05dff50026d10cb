// SPDX-License-Identifier: MIT OR Apache-2.0
//
// plugin_host FLAG PLUGIN [unload]: a program without RDMA loads a plug-in that has it. FLAG is local,
// global or deepbind. With `unload` the plug-in is closed and loaded again in the middle.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *load(const char *flag, const char *plugin)
{
	int flags = RTLD_NOW;

	if (!strcmp(flag, "global"))
		flags |= RTLD_GLOBAL;
	if (!strcmp(flag, "deepbind"))
		flags |= RTLD_DEEPBIND;
	void *handle = dlopen(plugin, flags);
	if (!handle)
		printf("%s\n", dlerror());
	return handle;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	void *handle = load(argv[1], argv[2]);
	if (!handle)
		return 1;
	void *(*open)(void) = (void *(*)(void))dlsym(handle, "plugin_open");
	void *context = open();

	if (argc > 3) {
		printf("closed: %d\n", dlclose(handle));
		handle = load(argv[1], argv[2]);
		if (!handle)
			return 1;
	}
	void (*close)(void *) = (void (*)(void *))dlsym(handle, "plugin_close");
	close(context);
	printf("closed: %d\n", dlclose(handle));
	return 0;
}
