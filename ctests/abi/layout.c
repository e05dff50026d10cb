/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The offsets that the shim relies on, as the installed header has them. src/abi/layout.rs asserts the same
 * numbers of the committed bindings; they have not changed from rdma-core 44 to 65. Members of struct
 * verbs_context are counted back from its last member, because it grows at its front.
 */
#include <infiniband/verbs.h>
#include <stddef.h>

#define AT(type, member, offset) _Static_assert(offsetof(struct type, member) == (offset), #type "." #member)
#define SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type)
#define BACK(member, distance)                                                                                \
	_Static_assert(offsetof(struct verbs_context, context) - offsetof(struct verbs_context, member) == (distance), \
		       "verbs_context." #member)

SIZE(ibv_context, 328);
AT(ibv_context, device, 0);
AT(ibv_context, ops, 8);
AT(ibv_context, ops.poll_cq, 96);
AT(ibv_context, cmd_fd, 264);
AT(ibv_context, async_fd, 268);
AT(ibv_context, abi_compat, 320);
SIZE(ibv_device, 664);
SIZE(ibv_wc, 48);
AT(ibv_wc, status, 8);
SIZE(ibv_async_event, 16);
AT(ibv_async_event, event_type, 8);
SIZE(ibv_comp_channel, 16);
SIZE(ibv_cq, 128);
AT(ibv_cq, context, 0);
SIZE(ibv_cq_ex, 288);
AT(ibv_cq_ex, start_poll, 144);
SIZE(ibv_qp, 160);
AT(ibv_qp, context, 0);
SIZE(ibv_srq, 128);
AT(ibv_srq, context, 0);
SIZE(ibv_wq, 152);
AT(ibv_wq, context, 0);
AT(ibv_wq, events_completed, 144);
BACK(sz, 8);
BACK(create_srq_ex, 40);
BACK(create_qp_ex, 56);
BACK(open_qp, 64);
BACK(create_cq_ex, 120);
BACK(create_wq, 136);
BACK(destroy_wq, 152);

int main(void)
{
	return 0;
}
