// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A context that did not come through ibv_open_device, as those of mlx5dv_open_device do not.

#include "harmless.h"

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	REQUIRE(list && list[1]);
	struct ibv_context *context = scripted_open_around(list[1]);
	REQUIRE(context);
	ibv_free_device_list(list);
	one_round(context);
	one_round(context);
	REQUIRE(ibv_close_device(context) == 0);
	printf("alive: %d\n", scripted_alive());
	return 0;
}
