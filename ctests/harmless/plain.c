// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A program without RDMA: prints who it is, writes to both streams and ends with 42.

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(void)
{
	char *memory = malloc(1000);

	if (!memory)
		return 1;
	snprintf(memory, 1000, "uid %d, euid %d", (int)getuid(), (int)geteuid());
	printf("%s\n", memory);
	fprintf(stderr, "to stderr\n");
	free(memory);
	return 42;
}
