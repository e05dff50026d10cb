// SPDX-License-Identifier: MIT OR Apache-2.0
//
// untouched: which library has the functions that the program polls through, and that it creates an extended CQ with.

#include "completions.h"

#include <dlfcn.h>

// Through an integer: C has no conversion from a function's address.
#define OWNER(key, function) owner(key, (uintptr_t)(function))

static void owner(const char *key, uintptr_t address)
{
	Dl_info info;

	REQUIRE(dladdr((void *)address, &info) && info.dli_fname);
	const char *slash = strrchr(info.dli_fname, '/');
	say("%s=%s", key, slash ? slash + 1 : info.dli_fname);
}

int main(void)
{
	struct thing t = make("qp");
	struct ibv_cq_init_attr_ex attr = { .cqe = 16 };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(t.context, &attr);

	REQUIRE(cq);
	OWNER("poll_cq", t.context->ops.poll_cq);
	OWNER("start_poll", cq->start_poll);
	OWNER("next_poll", cq->next_poll);
	OWNER("end_poll", cq->end_poll);
	OWNER("read_qp_num", cq->read_qp_num);
	OWNER("create_cq_ex", verbs_get_ctx(t.context)->create_cq_ex);
	REQUIRE(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
	REQUIRE(destroy(&t) == 0);
	close_all(&t);
	return 0;
}
