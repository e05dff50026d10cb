// SPDX-License-Identifier: MIT OR Apache-2.0
//
// early FORM EARLY READS LATE: EARLY acks come before the gets of READS events, LATE after them.

#include "ledger.h"

int main(int argc, char **argv)
{
	REQUIRE(argc == 5);
	struct thing t = make(argv[1]);
	struct ibv_async_event event = event_of(&t, 0);

	i_am_called("early");
	say_thing("object", &t);
	say_thread("thread");
	for (int i = 0; i < atoi(argv[2]); i++)
		ack(&t, &event);
	for (int i = 0; i < atoi(argv[3]); i++)
		inject_and_take(&t, 0);
	for (int i = 0; i < atoi(argv[4]); i++)
		ack(&t, &event);
	destroy_and_say(&t);
	close_all(&t);
	return 0;
}
