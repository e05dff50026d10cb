// SPDX-License-Identifier: MIT OR Apache-2.0
//
// reuse FORM [OTHER]: an object lives, is destroyed, and another one (of the other form) comes to live at its address:
// its event is acknowledged once, then the old object's event a second time.

#include "ledger.h"

int main(int argc, char **argv)
{
	struct ibv_async_event old, new;

	REQUIRE(argc >= 2);
	struct thing t = make(argv[1]);
	void *before = t.address;
	i_am_called("reuse");
	say_thing("old", &t);
	old = inject_and_take(&t, 0);
	ack(&t, &old);
	REQUIRE(destroy(&t) == 0);

	const struct thing was = t;
	t.form = argv[argc - 1];
	t.kind = kind_of(t.form);
	create(&t);
	say("same=%s", t.address == before ? "yes" : "no");
	say_thing("object", &t);
	say_thread("thread");
	new = inject_and_take(&t, 0);
	ack(&t, &new);
	ack(&was, &old);
	destroy_and_say(&t);
	close_all(&t);
	return 0;
}
