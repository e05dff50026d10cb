// SPDX-License-Identifier: MIT OR Apache-2.0
//
// two_cqs MISSING: events of two CQs come mixed from one channel and are acknowledged in one batch for each
// CQ; that many of the second one's are not.

#include "ledger.h"

int main(int argc, char **argv)
{
	struct thing a = make("comp"), b = a;
	unsigned int of_a = 0, of_b = 0;

	REQUIRE(argc == 2);
	create(&b);
	i_am_called("two_cqs");
	say_thing("first", &a);
	say_thing("second", &b);
	say_thread("thread");
	for (int i = 0; i < 60; i++)
		inject(i % 3 ? &b : &a, i);
	for (int i = 0; i < 60; i++) {
		struct ibv_cq *cq;
		void *cq_context;

		REQUIRE(ibv_get_cq_event(a.channel, &cq, &cq_context) == 0);
		if (cq == a.its_cq)
			of_a++;
		else
			of_b++;
	}
	ibv_ack_cq_events(b.its_cq, of_b - (unsigned int)atoi(argv[1]));
	ibv_ack_cq_events(a.its_cq, of_a);
	say("first_destroyed=%d", destroy(&a));
	destroy_and_say(&b);
	close_all(&b);
	return 0;
}
