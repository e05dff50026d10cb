// SPDX-License-Identifier: MIT OR Apache-2.0
//
// One thread gets events of every kind of object and hands copies of them, in reverse order, to four threads
// that acknowledge them. The structures that the gets filled are overwritten before that.

#include "ledger.h"

enum { ROUNDS = 50, FORMS = 5, THREADS = 4 };

static const char *const forms[FORMS] = { "qp", "cq", "srq", "wq", "comp" };
static struct thing things[FORMS];
static struct ibv_async_event copies[ROUNDS * FORMS];
static atomic_int next = ROUNDS * FORMS;

static void *acknowledge(void *argument)
{
	for (;;) {
		int i = atomic_fetch_sub(&next, 1) - 1;

		if (i < 0)
			return argument;
		ack(&things[i % FORMS], &copies[i]);
	}
}

int main(void)
{
	struct ibv_context *context = open_first();
	pthread_t threads[THREADS];
	int n = 0;

	for (int i = 0; i < FORMS; i++)
		things[i] = make_on(context, forms[i]);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < FORMS; i++) {
			struct ibv_async_event event = inject_and_take(&things[i], round);

			copies[n++] = event;
			memset(&event, 0x5a, sizeof(event));
		}
	}
	for (int i = 0; i < THREADS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, acknowledge, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
	for (int i = 0; i < FORMS; i++) {
		REQUIRE(destroy(&things[i]) == 0);
		close_rest(&things[i]);
	}
	REQUIRE(ibv_close_device(context) == 0);
	say("destroyed=0");
	return 0;
}
