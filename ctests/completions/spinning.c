// SPDX-License-Identifier: MIT OR Apache-2.0
//
// spinning TIMES FOUND: a thread polls without end and is cancelled asynchronously, so many times, each time after
// another while. The provider's function, which is the program's own and holds nothing, finds so many good completions
// each time.

#include "completions.h"

static struct ibv_cq *cq;
static int found;
static _Atomic bool polling;

static int own_poll(struct ibv_cq *of, int number, struct ibv_wc *wc)
{
	(void)of, (void)number;
	if (found)
		*wc = (struct ibv_wc){ .status = IBV_WC_SUCCESS };
	return found;
}

static void *poll_for_ever(void *argument)
{
	struct ibv_wc wc[4];

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;) {
		REQUIRE(ibv_poll_cq(cq, 4, wc) == found);
		polling = true;
	}
	return argument;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int cancelled = 0;

	REQUIRE(argc == 3 && list && list[0]);
	found = atoi(argv[2]);
	struct ibv_context *context = scripted_open_around(list[0]);
	ibv_free_device_list(list);
	context->ops.poll_cq = own_poll;
	REQUIRE(cq = ibv_create_cq(context, 4, NULL, NULL, 0));
	for (int i = 0; i < atoi(argv[1]); i++) {
		pthread_t thread;
		void *result;

		polling = false;
		REQUIRE(pthread_create(&thread, NULL, poll_for_ever, NULL) == 0);
		while (!polling)
			sched_yield();
		// A while in which nothing sleeps.
		for (volatile int n = i % 50; n; n--)
			;
		REQUIRE(pthread_cancel(thread) == 0);
		REQUIRE(pthread_join(thread, &result) == 0);
		cancelled += result == PTHREAD_CANCELED;
	}
	say("cancelled=%d", cancelled);
	return 0;
}
