// SPDX-License-Identifier: MIT OR Apache-2.0
//
// after_destroy FORM: an event is acknowledged once more when its object is destroyed.

#include "ledger.h"

int main(int argc, char **argv)
{
	REQUIRE(argc == 2);
	struct thing t = make(argv[1]);

	i_am_called("after");
	say_thing("object", &t);
	say_thread("thread");
	struct ibv_async_event event = inject_and_take(&t, 0);
	ack(&t, &event);
	destroy_and_say(&t);
	ack(&t, &event);
	say("acked=again");
	close_all(&t);
	return 0;
}
