// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A program without a name: it has set glibc's variable to NULL.

#define _GNU_SOURCE // program_invocation_short_name
#include "harmless.h"

int main(void)
{
	open_round_close();
	program_invocation_short_name = NULL;
	printf("one round\n");
	return 0;
}
