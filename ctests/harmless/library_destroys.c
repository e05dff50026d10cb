// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A library for late_destroys that uses RDMA and cleans up in its destructor.

#include "harmless.h"

static struct objects o;

void library_start(void)
{
	o = make_objects(open_first());
}

__attribute__((destructor)) static void clean_up(void)
{
	if (!o.context)
		return;
	destroy_objects(&o);
	REQUIRE(ibv_close_device(o.context) == 0);
	printf("destructor: all destroyed\n");
	fflush(stdout);
}
