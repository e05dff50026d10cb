// SPDX-License-Identifier: MIT OR Apache-2.0
//
// many FORM N: so many objects are alive at one time; each gets one event, which is acknowledged.

#include "ledger.h"

int main(int argc, char **argv)
{
	REQUIRE(argc == 3);
	int n = atoi(argv[2]);
	struct thing t = make(argv[1]);
	void **objects = calloc((size_t)n, sizeof(*objects));

	objects[0] = t.address;
	for (int i = 1; i < n; i++) {
		create(&t);
		objects[i] = t.address;
	}
	for (int i = 0; i < n; i++) {
		t.address = objects[i];
		struct ibv_async_event event = inject_and_take(&t, 0);
		ack(&t, &event);
	}
	double start = now();
	for (int i = 0; i < n; i++) {
		t.address = objects[i];
		REQUIRE(destroy(&t) == 0);
	}
	say("waited=%.2f", now() - start);
	close_all(&t);
	free(objects);
	return 0;
}
