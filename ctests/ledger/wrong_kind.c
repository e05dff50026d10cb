// SPDX-License-Identifier: MIT OR Apache-2.0
//
// wrong_kind FORM TYPE: the number of the event in its structure is changed to another one before the ack, then
// the event as it came is acknowledged.

#include "ledger.h"

int main(int argc, char **argv)
{
	REQUIRE(argc == 3);
	struct thing t = make(argv[1]);

	i_am_called("wrong_kind");
	say_thing("object", &t);
	say_thread("thread");
	struct ibv_async_event event = inject_and_take(&t, 0), changed = event;
	changed.event_type = (enum ibv_event_type)atoi(argv[2]);
	ibv_ack_async_event(&changed);
	ack(&t, &event);
	destroy_and_say(&t);
	close_all(&t);
	return 0;
}
