// SPDX-License-Identifier: MIT OR Apache-2.0
//
// crowd WHAT N: more than anybody expects.
//   contexts  N contexts open at one time, an event on each
//   cqs       N CQs alive at one time, two completions and an event on each
//   devices   N devices, each from a provider with functions of its own, a round on each

#include <sys/resource.h>

#include "harmless.h"

static void many_contexts(int n)
{
	struct ibv_context **contexts = calloc((size_t)n, sizeof(*contexts));

	for (int i = 0; i < n; i++) {
		contexts[i] = open_first();
		REQUIRE(scripted_async(contexts[i], IBV_EVENT_PORT_ERR, (void *)1) == 0);
	}
	for (int i = 0; i < n; i++)
		get_and_ack_async(contexts[i], IBV_EVENT_PORT_ERR);
	for (int i = 0; i < n; i++)
		REQUIRE(ibv_close_device(contexts[i]) == 0);
	free(contexts);
}

static void many_cqs(int n)
{
	struct ibv_context *context = open_first();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq **cqs = calloc((size_t)n, sizeof(*cqs));
	struct ibv_wc wc[2] = { { .status = IBV_WC_SUCCESS } };
	struct ibv_cq *cq;
	void *cq_context;

	for (int i = 0; i < n; i++)
		REQUIRE(cqs[i] = ibv_create_cq(context, 16, NULL, channel, 0));
	for (int i = 0; i < n; i++) {
		REQUIRE(scripted_wc(cqs[i], wc, 2) == 0);
		REQUIRE(ibv_poll_cq(cqs[i], 2, wc) == 2);
		REQUIRE(scripted_comp(channel, cqs[i]) == 0);
		REQUIRE(ibv_get_cq_event(channel, &cq, &cq_context) == 0);
		ibv_ack_cq_events(cq, 1);
	}
	for (int i = 0; i < n; i++)
		REQUIRE(ibv_destroy_cq(cqs[i]) == 0);
	REQUIRE(ibv_destroy_comp_channel(channel) == 0);
	REQUIRE(ibv_close_device(context) == 0);
	free(cqs);
}

static void many_devices(int n)
{
	int count = 0;

	scripted_devices(n);
	struct ibv_device **list = ibv_get_device_list(&count);
	REQUIRE(count == n);
	for (int i = 0; i < n; i++) {
		struct ibv_context *context = ibv_open_device(list[i]);

		REQUIRE(context);
		one_round(context);
		REQUIRE(ibv_close_device(context) == 0);
	}
	ibv_free_device_list(list);
}

int main(int argc, char **argv)
{
	struct rlimit limit = { .rlim_cur = 20000, .rlim_max = 20000 };

	REQUIRE(argc == 3);
	// A context takes a few descriptors.
	REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
	int n = atoi(argv[2]);
	if (!strcmp(argv[1], "contexts"))
		many_contexts(n);
	else if (!strcmp(argv[1], "cqs"))
		many_cqs(n);
	else if (!strcmp(argv[1], "devices"))
		many_devices(n);
	printf("%s: %d, alive: %d\n", argv[1], n, scripted_alive());
	return 0;
}
