// SPDX-License-Identifier: MIT OR Apache-2.0
//
// refused_open FORM: a thread holds an event of an object that others still use, and destroys it: refused with EBUSY.
// It acknowledges the event, and destroys the object again.

#include "ledger.h"

int main(int argc, char **argv)
{
	REQUIRE(argc == 2);
	struct thing t = make(argv[1]);

	i_am_called("refused_open");
	say_thing("object", &t);
	say_thread("thread");
	struct ibv_async_event event = inject_and_take(&t, 0);
	scripted_reply(destroy_function(&t), EBUSY, 0);
	say("refused=%d", destroy(&t));
	scripted_behave(destroy_function(&t));
	sleep_ms(300);
	ack(&t, &event);
	destroy_and_say(&t);
	close_all(&t);
	return 0;
}
