// SPDX-License-Identifier: MIT OR Apache-2.0
//
// acks FORM READS ACKS: one thread gets that many events, acknowledges that many times, and destroys.

#include "ledger.h"

int main(int argc, char **argv)
{
	REQUIRE(argc == 4);
	int reads = atoi(argv[2]), acks = atoi(argv[3]);
	struct thing t = make(argv[1]);

	i_am_called("acks");
	say_thing("object", &t);
	say_thread("thread");
	double start = now();
	for (int i = 0; i < reads; i++)
		inject_and_take(&t, 0);
	struct ibv_async_event event = event_of(&t, 0);
	for (int i = 0; i < acks; i++)
		ack(&t, &event);
	say("held=%.2f", now() - start);
	destroy_and_say(&t);
	close_all(&t);
	return 0;
}
