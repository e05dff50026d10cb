// SPDX-License-Identifier: MIT OR Apache-2.0
//
// CQs of two devices take turns at one address: two completions each on the first device, three on the second.
// Prints how many turns there were at the same address.

#include "harmless.h"

static void *turn(struct ibv_context *context, int n)
{
	struct ibv_wc wc[3] = { { .status = IBV_WC_SUCCESS } };
	struct ibv_cq *cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	void *address = cq;

	REQUIRE(cq);
	REQUIRE(scripted_wc(cq, wc, n) == 0);
	REQUIRE(ibv_poll_cq(cq, 3, wc) == n);
	REQUIRE(ibv_destroy_cq(cq) == 0);
	return address;
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int same = 0;

	REQUIRE(list && list[0] && list[1]);
	struct ibv_context *first = ibv_open_device(list[0]);
	struct ibv_context *second = ibv_open_device(list[1]);
	REQUIRE(first && second);
	for (int i = 0; i < 10; i++) {
		void *address = turn(first, 2);

		same += address == turn(second, 3);
	}
	printf("same address: %s\n", same ? "yes" : "no");
	return 0;
}
