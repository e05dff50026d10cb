// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A program with undefined behaviour that UBSan reports.

#include <limits.h>

#include "harmless.h"

int main(int argc, char **argv)
{
	volatile int large = INT_MAX;

	(void)argv;
	open_round_close();
	large += argc;
	printf("end %d\n", large);
	return 0;
}
