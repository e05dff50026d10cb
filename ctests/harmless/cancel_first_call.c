// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The very first RDMA call is made by a thread with a cancel pending: whatever is set up, looked up or
// printed then, the thread must come to the next cancellation point of its own and end there.

#include "harmless.h"

static void *victim(void *argument)
{
	pthread_cancel(pthread_self());
	// No cancellation point in libibverbs.
	ibv_ack_async_event(&(struct ibv_async_event){ .event_type = IBV_EVENT_PORT_ERR });
	printf("past the first call\n");
	pthread_testcancel();
	printf("not cancelled\n");
	return argument;
}

int main(void)
{
	pthread_t thread;
	void *result;

	// Without a lock of stdio: puts is a cancellation point only when it writes.
	setvbuf(stdout, NULL, _IOFBF, 4096);
	REQUIRE(pthread_create(&thread, NULL, victim, NULL) == 0);
	REQUIRE(pthread_join(thread, &result) == 0);
	printf("%s\n", result == PTHREAD_CANCELED ? "cancelled" : "not cancelled");
	struct ibv_context *context = open_first();
	round_in_another_thread(context);
	return 0;
}
