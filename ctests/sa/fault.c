// SPDX-License-Identifier: MIT OR Apache-2.0
//
// fault: each function, when the library has a fault of its own in it, fails with EIO. The thread can be cancelled
// afterwards as before.

#include "sa.h"

int main(void)
{
	struct ibv_context *device = open_device("ibsim0");
	struct ibv_sa_event_channel *channel = (void *)device;
	struct ibv_sa_event *event, notice = { .attr_id = IBV_SA_ATTR_NOTICE };
	struct ibv_sa_id *id;
	union ibv_gid gid;
	int state;

	errno = 0;
	REQUIRE(!ibv_sa_create_event_channel());
	REQUIRE(errno == EIO);
	FAILS(ibv_sa_register_inform_info(channel, device, 1, IBV_SA_SM_TRAP_ALL, NULL, &id), EIO);
	FAILS(ibv_sa_register_inform_info_ex(channel, device, 1, NULL, NULL, &id), EIO);
	FAILS(ibv_sa_get_event(channel, &event), EIO);
	FAILS(ibv_sa_ack_event(&notice), EIO);
	FAILS(ibv_sa_free_id((void *)channel), EIO);
	FAILS(ibv_sa_notice_trap(&notice), EIO);
	FAILS(ibv_sa_notice_lid(&notice), EIO);
	FAILS(ibv_sa_notice_gid(&notice, &gid), EIO);
	FAILS(ibv_sa_notice_issuer(&notice, &gid, NULL), EIO);
	ibv_sa_destroy_event_channel(channel);
	REQUIRE(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state) == 0);
	REQUIRE(state == PTHREAD_CANCEL_ENABLE);
	printf("good\n");
	return 0;
}
