// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A plain RDMA program: N contexts one after the other (argument, 1 unless given), a round on each.

#include "harmless.h"

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 1;

	for (int i = 0; i < times; i++)
		open_round_close();
	printf("rounds: %d, alive: %d\n", times, scripted_alive());
	return 0;
}
