// SPDX-License-Identifier: MIT OR Apache-2.0
//
// Events of ports and of the device, and numbers that nobody knows yet, stay without an ack, or get two. One
// of the unknown ones has an object for its element.

#include "ledger.h"

int main(void)
{
	static const int types[] = {
		IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR,  IBV_EVENT_LID_CHANGE,
		IBV_EVENT_PKEY_CHANGE, IBV_EVENT_SM_CHANGE, IBV_EVENT_CLIENT_REREGISTER,
		IBV_EVENT_GID_CHANGE,  20 /* DEVICE_SPEED_CHANGE */, 21, 62, 63, 1000, 0x7fffffff,
	};
	struct thing t = make("qp");

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		for (int acks = 0; acks < 3; acks++) {
			void *element = types[i] == 21 ? t.address : (void *)1;
			struct ibv_async_event event;

			REQUIRE(scripted_async(t.context, types[i], element) == 0);
			REQUIRE(ibv_get_async_event(t.context, &event) == 0);
			REQUIRE((int)event.event_type == types[i]);
			for (int j = 0; j < acks; j++)
				ibv_ack_async_event(&event);
		}
	}
	destroy_and_say(&t);
	close_all(&t);
	return 0;
}
