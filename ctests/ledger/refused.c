// SPDX-License-Identifier: MIT OR Apache-2.0
//
// refused FORM|channel ERRNO: a destroy is refused twice with that error; then it is not, and before that an event is
// acknowledged once too often. A channel is refused because it has a CQ.

#include "ledger.h"

static void channel(void)
{
	struct thing t = make("comp");

	say("object=completion channel fd %d (scr0)", t.channel->fd);
	say_thread("thread");
	say("refused=%d %d", ibv_destroy_comp_channel(t.channel),
	    ibv_destroy_comp_channel(t.channel));
	destroy_and_say(&t);
	close_all(&t);
}

int main(int argc, char **argv)
{
	REQUIRE(argc == 3);
	i_am_called("refused");
	if (!strcmp(argv[1], "channel")) {
		channel();
		return 0;
	}
	struct thing t = make(argv[1]);
	say_thing("object", &t);
	say_thread("thread");
	scripted_reply(destroy_function(&t), atoi(argv[2]), 0);
	int first = destroy(&t), second = destroy(&t);
	say("refused=%d %d", first, second);
	scripted_behave(destroy_function(&t));
	struct ibv_async_event event = inject_and_take(&t, 0);
	ack(&t, &event);
	ack(&t, &event);
	destroy_and_say(&t);
	close_all(&t);
	return 0;
}
