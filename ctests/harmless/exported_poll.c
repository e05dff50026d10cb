// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Polls a CQ as a program without a C compiler does, by the symbol ibv_poll_cq, and by the inline function: five
// completions each way.

#define _GNU_SOURCE
#include <dlfcn.h>

#include "harmless.h"

int main(void)
{
	int (*poll)(struct ibv_cq *, int, struct ibv_wc *) =
		(int (*)(struct ibv_cq *, int, struct ibv_wc *))dlsym(RTLD_DEFAULT, "ibv_poll_cq");
	struct ibv_wc wc[5] = { { .status = IBV_WC_SUCCESS } }, polled[8];

	REQUIRE(poll);
	struct objects o = make_objects(open_first());
	REQUIRE(scripted_wc(o.cq, wc, 5) == 0);
	REQUIRE(poll(o.cq, 8, polled) == 5);
	REQUIRE(scripted_wc(o.cq, wc, 5) == 0);
	REQUIRE(ibv_poll_cq(o.cq, 8, polled) == 5);
	REQUIRE(poll(o.cq, 8, polled) == 0);
	destroy_objects(&o);
	printf("calls of the provider: %lu\n", scripted_calls("ops.poll_cq"));
	return 0;
}
