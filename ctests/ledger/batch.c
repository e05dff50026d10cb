// SPDX-License-Identifier: MIT OR Apache-2.0
//
// batch READS ACKS...: that many completion events are got, then acknowledged in batches of those sizes.

#include "ledger.h"

int main(int argc, char **argv)
{
	REQUIRE(argc >= 2);
	int reads = atoi(argv[1]);
	struct thing t = make("comp");

	i_am_called("batch");
	say_thing("object", &t);
	say_thread("thread");
	for (int i = 0; i < reads; i++)
		inject(&t, i);
	for (int i = 0; i < reads; i++)
		take(&t, i);
	for (int i = 2; i < argc; i++)
		ibv_ack_cq_events(t.its_cq, (unsigned int)atoi(argv[i]));
	destroy_and_say(&t);
	close_all(&t);
	return 0;
}
