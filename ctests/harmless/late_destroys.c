// SPDX-License-Identifier: MIT OR Apache-2.0
//
// late_destroys [LIBRARY]: a program whose library (linked if built with -DLINKED, or opened and never closed) destroys
// its objects in its destructor, when main has returned.

#include <dlfcn.h>
#include <stdio.h>

#ifdef LINKED
void library_start(void);
#else
#define library_start NULL
#endif

int main(int argc, char **argv)
{
	void (*start)(void) = library_start;

	if (argc > 1) {
		void *handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
		if (!handle) {
			printf("%s\n", dlerror());
			return 1;
		}
		start = (void (*)(void))dlsym(handle, "library_start");
	}
	if (!start)
		return 2;
	start();
	printf("main returns\n");
	fflush(stdout);
	return 0;
}
