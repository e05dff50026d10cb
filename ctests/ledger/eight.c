// SPDX-License-Identifier: MIT OR Apache-2.0
//
// eight N: eight threads get and acknowledge N events each, from one context and one channel: of one QP and one
// CQ that all share, and of one QP for each. Each acknowledges what it got, whoever queued it.

#include "ledger.h"

enum { THREADS = 8 };

static struct thing shared, comp, own[THREADS];
static int n;

static void *work(void *argument)
{
	struct thing *mine = argument;
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *cq_context;

	for (int i = 0; i < n; i++) {
		inject(&shared, 0);
		inject(mine, 0);
		inject(&comp, 0);
		for (int j = 0; j < 2; j++) {
			REQUIRE(ibv_get_async_event(shared.context, &event) == 0);
			ibv_ack_async_event(&event);
		}
		REQUIRE(ibv_get_cq_event(comp.channel, &cq, &cq_context) == 0);
		ibv_ack_cq_events(cq, 1);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct ibv_context *context = open_first();
	pthread_t threads[THREADS];

	REQUIRE(argc == 2);
	n = atoi(argv[1]);
	shared = make_on(context, "qp");
	comp = make_on(context, "comp");
	say("shared=%u", shared.qp->qp_num);
	say("comp=%u", comp.its_cq->handle);
	for (int i = 0; i < THREADS; i++) {
		own[i] = make_on(context, "qp");
		say("own=%u", own[i].qp->qp_num);
	}
	for (int i = 0; i < THREADS; i++)
		REQUIRE(pthread_create(&threads[i], NULL, work, &own[i]) == 0);
	for (int i = 0; i < THREADS; i++)
		REQUIRE(pthread_join(threads[i], NULL) == 0);
	for (int i = 0; i < THREADS; i++) {
		REQUIRE(destroy(&own[i]) == 0);
		close_rest(&own[i]);
	}
	REQUIRE(destroy(&comp) == 0);
	close_rest(&comp);
	destroy_and_say(&shared);
	close_all(&shared);
	return 0;
}
