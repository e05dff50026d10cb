// SPDX-License-Identifier: MIT OR Apache-2.0
//
// cancel_ack FORM: a thread that was cancelled acknowledges an event twice, which is no cancellation point and leaves
// errno alone.

#include "ledger.h"

static struct thing t;
static volatile int acked, error;

static void *acknowledge(void *argument)
{
	struct ibv_async_event event = inject_and_take(&t, 0);

	pthread_cancel(pthread_self());
	errno = 77;
	ack(&t, &event);
	ack(&t, &event);
	error = errno;
	acked = 2;
	pthread_testcancel();
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	void *result;

	REQUIRE(argc == 2);
	t = make(argv[1]);
	say_thing("object", &t);
	REQUIRE(pthread_create(&thread, NULL, acknowledge, NULL) == 0);
	REQUIRE(pthread_join(thread, &result) == 0);
	say("cancelled=%d", result == PTHREAD_CANCELED);
	say("acked=%d errno=%d", acked, error);
	round_in_another_thread(t.context);
	return 0;
}
