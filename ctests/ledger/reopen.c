// SPDX-License-Identifier: MIT OR Apache-2.0
//
// reopen FORM: a context is closed with an object alive and its event not acknowledged; the same device is opened again, an
// object made, its event acknowledged once, and the old one's too. The old object's memory is still there.

#include "ledger.h"

int main(int argc, char **argv)
{
	REQUIRE(argc == 2);
	struct thing old = make(argv[1]);

	i_am_called("reopen");
	say_thing("old", &old);
	struct ibv_async_event first = inject_and_take(&old, 0);
	REQUIRE(ibv_close_device(old.context) == 0);
	say("closed=0");
	struct thing t = make(argv[1]);
	say("same_context=%s", t.context == old.context ? "yes" : "no");
	say_thing("object", &t);
	struct ibv_async_event second = inject_and_take(&t, 0);
	ack(&t, &second);
	ack(&old, &first);
	destroy_and_say(&t);
	close_rest(&t);
	REQUIRE(ibv_close_device(t.context) == 0);
	return 0;
}
