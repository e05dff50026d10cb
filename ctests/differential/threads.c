// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The differential test: every function at once from many threads. Where each one leads is found
// out when it is first called, and here that happens in all threads together.

#include <pthread.h>
#include <string.h>

#include "differential.h"

#define THREADS 8
#define ROUNDS 20

static pthread_barrier_t barrier;

static long answer_of(const struct function *function)
{
	switch (function->ret) {
	case RET_VOID:
		return 0;
	case RET_STRING:
		return (long)"a string of the provider";
	case RET_POINTER:
		return function->success ? *(long *)function->success : (long)0xfedcba9876543210UL;
	default:
		return 5;
	}
}

static void *thread(void *unused)
{
	pthread_barrier_wait(&barrier);
	for (int round = 0; round < ROUNDS; round++) {
		for (unsigned int i = 0; i < function_count; i++) {
			const struct function *function = &functions[i];
			struct result result = { .value = 0 };

			if (!function->scripted)
				continue;
			function->call(&result);
			MUST(result.err == UNTOUCHED);
			MUST(result.value == answer_of(function));
		}
	}
	return unused;
}

void run_threads(void)
{
	pthread_t threads[THREADS];

	// An event of no object: there is nothing to ack.
	memset(buffers, 0, sizeof(buffers));
	struct ibv_async_event event = { .event_type = IBV_EVENT_PORT_ERR };
	memcpy(buffers[0], &event, sizeof(event));
	scripted.reset();
	for (unsigned int i = 0; i < function_count; i++)
		if (functions[i].scripted)
			scripted.reply(functions[i].scripted, answer_of(&functions[i]), 0);

	pthread_barrier_init(&barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		MUST(!pthread_create(&threads[i], NULL, thread, NULL));
	for (int i = 0; i < THREADS; i++)
		MUST(!pthread_join(threads[i], NULL));
	pthread_barrier_destroy(&barrier);

	for (unsigned int i = 0; i < function_count; i++) {
		unsigned long calls = THREADS * ROUNDS;

		if (!functions[i].scripted)
			continue;
		if (scripted.calls(functions[i].scripted) != calls)
			say("%s: %lu calls arrived\n", functions[i].name,
			    scripted.calls(functions[i].scripted));
	}
	say("%u functions, %d calls of each\n", function_count, THREADS * ROUNDS);
	scripted.reset();
}
