// SPDX-License-Identifier: MIT OR Apache-2.0
//
// storm FORM OBJECTS ACKS [PAUSE-MS]: so many objects, one after the other, each get one event, so many acks too many,
// and (after the pause, if there is one) the destroy.

#include "ledger.h"

int main(int argc, char **argv)
{
	REQUIRE(argc >= 4);
	struct thing t = make(argv[1]);
	int objects = atoi(argv[2]), acks = atoi(argv[3]);

	i_am_called("storm");
	say_thread("thread");
	double start = now();
	for (int i = 0; i < objects; i++) {
		if (i)
			create(&t);
		if (i < 100)
			say_thing("object", &t);
		struct ibv_async_event event = inject_and_take(&t, 0);
		for (int j = 0; j < 1 + acks; j++)
			ack(&t, &event);
		if (argc > 4)
			sleep_ms(atoi(argv[4]));
		REQUIRE(destroy(&t) == 0);
	}
	say("took=%.2f", now() - start);
	close_all(&t);
	return 0;
}
