// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A program with a bug that a sanitizer or valgrind finds: reads one byte past its memory. The RDMA
// before and after is in order.

#include "harmless.h"

int main(int argc, char **argv)
{
	char *volatile memory = malloc(16);

	(void)argv;
	open_round_close();
	memset(memory, 1, 16);
	if (memory[15 + argc] == 17)
		printf("unlikely\n");
	free(memory);
	open_round_close();
	printf("end\n");
	return 0;
}
