// SPDX-License-Identifier: MIT OR Apache-2.0
//
// devices [drop]: how many devices there are, and the name of the first; then opens it if there is
// one. With `drop` the program first gives up the rights of its effective user.

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

int main(int argc, char **argv)
{
	int count = -1;

	if (argc > 1 && !strcmp(argv[1], "drop") && seteuid(65534))
		return 2;
	struct ibv_device **list = ibv_get_device_list(&count);
	printf("devices: %d\n", count);
	if (!list)
		printf("none: errno %d\n", errno);
	if (list && list[0]) {
		printf("first: %s\n", ibv_get_device_name(list[0]));
		struct ibv_context *context = ibv_open_device(list[0]);
		if (context)
			ibv_close_device(context);
	}
	if (list)
		ibv_free_device_list(list);
	return 0;
}
