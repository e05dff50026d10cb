// SPDX-License-Identifier: MIT OR Apache-2.0
//
// wrong_cq [corrected]: two CQs on one channel; the event of one is acknowledged on the other. With
// `corrected` on the right one too.

#include "ledger.h"

int main(int argc, char **argv)
{
	struct thing right = make("comp"), wrong = right;

	(void)argv;
	create(&wrong);
	i_am_called("wrong_cq");
	say_thing("right", &right);
	say_thing("wrong", &wrong);
	say_thread("thread");
	inject_and_take(&right, 0);
	ibv_ack_cq_events(wrong.its_cq, 1);
	if (argc > 1)
		ibv_ack_cq_events(right.its_cq, 1);
	say("wrong_destroyed=%d", destroy(&wrong));
	destroy_and_say(&right);
	close_all(&right);
	return 0;
}
