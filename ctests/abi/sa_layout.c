/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The structures and numbers of <infiniband/ibv_sa.h>, as programs written for the user SA interface of OFED expect
 * them. src/sa/types.rs asserts the same. Also C++: a constant expression has to be one in both.
 */
#include <infiniband/ibv_sa.h>

#include <arpa/inet.h>
#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
#define ASSERT static_assert
#else
#define ASSERT _Static_assert
#endif
#define AT(type, member, offset) ASSERT(offsetof(struct type, member) == (offset), #type "." #member)
#define SIZE(type, size) ASSERT(sizeof(struct type) == (size), #type)

SIZE(ibv_sa_event_channel, 4);
AT(ibv_sa_event_channel, fd, 0);
SIZE(ibv_sa_event, 40);
AT(ibv_sa_event, context, 0);
AT(ibv_sa_event, status, 8);
AT(ibv_sa_event, attr_count, 12);
AT(ibv_sa_event, attr_size, 16);
AT(ibv_sa_event, attr_offset, 20);
AT(ibv_sa_event, attr_id, 24);
AT(ibv_sa_event, attr, 32);
SIZE(ibv_sa_inform_filter, 64);
AT(ibv_sa_inform_filter, comp_mask, 0);
AT(ibv_sa_inform_filter, flags, 4);
AT(ibv_sa_inform_filter, device_name, 8);
AT(ibv_sa_inform_filter, gid, 16);
AT(ibv_sa_inform_filter, subject_gid, 32);
AT(ibv_sa_inform_filter, lid_begin, 48);
AT(ibv_sa_inform_filter, lid_end, 50);
AT(ibv_sa_inform_filter, subject_lid, 52);
AT(ibv_sa_inform_filter, type, 54);
AT(ibv_sa_inform_filter, trap_number, 56);
AT(ibv_sa_inform_filter, is_generic, 58);
AT(ibv_sa_inform_filter, reserved, 59);
AT(ibv_sa_inform_filter, producer, 60);

/* A constant expression: it can be a case. */
static int number(__be16 trap)
{
	switch (trap) {
	case IBV_SA_SM_TRAP_GID_IN_SERVICE: return 64;
	case IBV_SA_SM_TRAP_GID_OUT_OF_SERVICE: return 65;
	case IBV_SA_SM_TRAP_CREATE_MC_GROUP: return 66;
	case IBV_SA_SM_TRAP_DELETE_MC_GROUP: return 67;
	case IBV_SA_SM_TRAP_PATH_UNAVAILABLE: return 68;
	case IBV_SA_SM_TRAP_PATH_CHANGED: return 69;
	case IBV_SA_SM_TRAP_PORT_CHANGE_STATE: return 128;
	case IBV_SA_SM_TRAP_LINK_INTEGRITY: return 129;
	case IBV_SA_SM_TRAP_EXCESSIVE_BUFFER_OVERRUN: return 130;
	case IBV_SA_SM_TRAP_FLOW_CONTROL_UPDATE_EXPIRED: return 131;
	case IBV_SA_SM_TRAP_CAPABILITY_CHANGED: return 144;
	case IBV_SA_SM_TRAP_SYSTEM_IMAGE_GUID_CHANGED: return 145;
	case IBV_SA_SM_TRAP_BAD_M_KEY: return 256;
	case IBV_SA_SM_TRAP_BAD_P_KEY: return 257;
	case IBV_SA_SM_TRAP_BAD_Q_KEY: return 258;
	case IBV_SA_SM_TRAP_BAD_P_KEY_AT_SWITCH: return 259;
	case IBV_SA_SM_TRAP_ALL: return 0xffff;
	default: return -1;
	}
}

int main(void)
{
	static const int known[] = { 64, 65, 66, 67, 68, 69, 128, 129, 130, 131, 144, 145, 256, 257, 258, 259, 0xffff };
	const unsigned char wire[2] = { 0x00, 0x40 };
	const __be16 in_service = IBV_SA_SM_TRAP_GID_IN_SERVICE;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (number(htons((unsigned short)known[i])) != known[i])
			return 1;
	if (memcmp(wire, &in_service, 2) || IBV_SA_ATTR_NOTICE != htons(2) || IBV_SA_ATTR_INFORM_INFO != htons(3))
		return 2;
	return 0;
}
