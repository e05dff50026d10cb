/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Measures single verbs calls, in whatever way this process reaches them: straight, or through a
 * preloaded libibv_sa. Linked with the bench double (provider.c).
 *
 *   calls VARIANT                  time: one line "CASE VARIANT NANOSECONDS" for each batch
 *   calls VARIANT CASE ITERATIONS  runs one case that often and prints nothing, for counting instructions
 *
 * VARIANT is what the caller has set up (none, off, errors, full); it is checked, so that no table can
 * show a shim that was not there.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCHES 5
#define MOST_WCS 16
#define THREADS 8
#define POLLERS 2

struct bench {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_cq *empty, *one, *sixteen;
	struct ibv_qp *qp; /* completes to `one` */
	struct ibv_cq *pollers[POLLERS][3]; /* with 0, 1 and 16 completions at each poll */
	struct ibv_comp_channel *channels[THREADS]; /* each with a CQ of its own */
	struct ibv_cq *cqs[THREADS];
};

static __attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("calls: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

/* ---- the cases; each loop has its call in it and little else -------------------------------- */

static void poll(struct ibv_cq *cq, int each, unsigned long iterations)
{
	struct ibv_wc wc[MOST_WCS];
	unsigned long polled = 0;

	for (unsigned long i = 0; i < iterations; i++)
		polled += (unsigned long)ibv_poll_cq(cq, MOST_WCS, wc);
	if (polled != iterations * (unsigned long)each)
		fail("%lu polls found %lu completions, %d each were there", iterations, polled, each);
}

static void poll_empty(const struct bench *bench, unsigned long iterations)
{
	poll(bench->empty, 0, iterations);
}

static void poll_1(const struct bench *bench, unsigned long iterations)
{
	poll(bench->one, 1, iterations);
}

static void poll_16(const struct bench *bench, unsigned long iterations)
{
	poll(bench->sixteen, 16, iterations);
}

static const int each_poll[3] = { 0, 1, MOST_WCS };

struct poller {
	struct ibv_cq *cq;
	int each;
	unsigned long iterations;
};

static void *poll_thread(void *argument)
{
	const struct poller *poller = argument;

	poll(poller->cq, poller->each, poller->iterations);
	return NULL;
}

/* The iterations are shared out: with as many CPUs, and nothing shared, a poll takes half the time. */
static void poll_threads(const struct bench *bench, int kind, unsigned long iterations)
{
	pthread_t threads[POLLERS];
	struct poller pollers[POLLERS];

	for (int i = 0; i < POLLERS; i++) {
		pollers[i] = (struct poller){ bench->pollers[i][kind], each_poll[kind], iterations / POLLERS };
		if (pthread_create(&threads[i], NULL, poll_thread, &pollers[i]))
			fail("pthread_create");
	}
	for (int i = 0; i < POLLERS; i++)
		pthread_join(threads[i], NULL);
}

static void poll_empty_2(const struct bench *bench, unsigned long iterations)
{
	poll_threads(bench, 0, iterations);
}

static void poll_1_2(const struct bench *bench, unsigned long iterations)
{
	poll_threads(bench, 1, iterations);
}

static void poll_16_2(const struct bench *bench, unsigned long iterations)
{
	poll_threads(bench, 2, iterations);
}

/* A poll beside each post keeps the CQ from filling up. */
static void post_receives(const struct bench *bench, unsigned long iterations)
{
	struct ibv_recv_wr wr = { 0 }, *bad;
	struct ibv_wc wc;

	for (unsigned long i = 0; i < iterations; i++)
		if (ibv_post_recv(bench->qp, &wr, &bad) || ibv_poll_cq(bench->one, 1, &wc) != 1)
			fail("a post and a poll failed");
}

static void async_event(const struct bench *bench, unsigned long iterations)
{
	struct ibv_async_event event;

	for (unsigned long i = 0; i < iterations; i++) {
		if (ibv_get_async_event(bench->context, &event))
			fail("ibv_get_async_event: %m");
		ibv_ack_async_event(&event);
	}
}

static void comp_events(struct ibv_comp_channel *channel, unsigned long iterations)
{
	struct ibv_cq *cq;
	void *cq_context;

	for (unsigned long i = 0; i < iterations; i++) {
		if (ibv_get_cq_event(channel, &cq, &cq_context))
			fail("ibv_get_cq_event: %m");
		ibv_ack_cq_events(cq, 1);
	}
}

static void comp_event(const struct bench *bench, unsigned long iterations)
{
	comp_events(bench->channel, iterations);
}

struct work {
	struct ibv_comp_channel *channel;
	unsigned long iterations;
};

static void *comp_event_thread(void *argument)
{
	const struct work *work = argument;

	comp_events(work->channel, work->iterations);
	return NULL;
}

/* The iterations are shared out: on a machine with as many CPUs a call takes an eighth of the time. */
static void comp_event_threads(const struct bench *bench, unsigned long iterations)
{
	pthread_t threads[THREADS];
	struct work work[THREADS];

	for (int i = 0; i < THREADS; i++) {
		work[i] = (struct work){ bench->channels[i], iterations / THREADS };
		if (pthread_create(&threads[i], NULL, comp_event_thread, &work[i]))
			fail("pthread_create");
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void forwarded(const struct bench *bench, unsigned long iterations)
{
	struct ibv_srq srq = { .context = bench->context };
	struct ibv_srq_attr attr;

	for (unsigned long i = 0; i < iterations; i++)
		if (ibv_query_srq(&srq, &attr))
			fail("ibv_query_srq: %m");
}

static void forwarded_context(const struct bench *bench, unsigned long iterations)
{
	struct ibv_device_attr attr;

	for (unsigned long i = 0; i < iterations; i++)
		if (ibv_query_device(bench->context, &attr))
			fail("ibv_query_device: %m");
}

static const struct {
	const char *name;
	void (*run)(const struct bench *bench, unsigned long iterations);
	unsigned long batch; /* iterations that take a millisecond or less: seldom interrupted */
} cases[] = {
	{ "poll_empty", poll_empty, 200000 },
	{ "poll_1", poll_1, 60000 },
	{ "poll_16", poll_16, 30000 },
	{ "poll_empty_2", poll_empty_2, 2000000 }, /* long enough for the threads' births not to count */
	{ "poll_1_2", poll_1_2, 2000000 },
	{ "poll_16_2", poll_16_2, 1000000 },
	{ "post_poll", post_receives, 30000 },
	{ "async_event", async_event, 4000 },
	{ "comp_event", comp_event, 4000 },
	{ "comp_event_8", comp_event_threads, 40000 }, /* as above */
	{ "forwarded", forwarded, 200000 },
	{ "forwarded_context", forwarded_context, 100000 },
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

/* ---- around them ---------------------------------------------------------------------------- */

static void set_up(struct bench *bench)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !list[0] || strcmp(list[0]->name, "bench0"))
		fail("this is not the bench double: it must be found as libibverbs.so.1");
	bench->context = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	if (!bench->context)
		fail("ibv_open_device: %m");
	bench->channel = ibv_create_comp_channel(bench->context);
	if (!bench->channel)
		fail("ibv_create_comp_channel: %m");
	bench->one = ibv_create_cq(bench->context, 1, NULL, NULL, 0);
	bench->sixteen = ibv_create_cq(bench->context, 16, NULL, NULL, 0);
	bench->empty = ibv_create_cq(bench->context, 0, NULL, bench->channel, 0);
	if (!bench->one || !bench->sixteen || !bench->empty)
		fail("ibv_create_cq: %m");
	struct ibv_qp_init_attr attr = {
		.send_cq = bench->one, .recv_cq = bench->one, .qp_type = IBV_QPT_RC,
	};
	bench->qp = ibv_create_qp(NULL, &attr);
	if (!bench->qp)
		fail("ibv_create_qp: %m");
	for (int i = 0; i < 3 * POLLERS; i++) {
		struct ibv_cq *cq = ibv_create_cq(bench->context, each_poll[i % 3], NULL, NULL, 0);

		if (!cq)
			fail("ibv_create_cq: %m");
		bench->pollers[i / 3][i % 3] = cq;
	}
	for (int i = 0; i < THREADS; i++) {
		bench->channels[i] = ibv_create_comp_channel(bench->context);
		if (!bench->channels[i])
			fail("ibv_create_comp_channel: %m");
		bench->cqs[i] = ibv_create_cq(bench->context, 0, NULL, bench->channels[i], 0);
		if (!bench->cqs[i])
			fail("ibv_create_cq: %m");
	}
}

static void tear_down(const struct bench *bench)
{
	for (int i = 0; i < THREADS; i++)
		if (ibv_destroy_cq(bench->cqs[i]) || ibv_destroy_comp_channel(bench->channels[i]))
			fail("the end of CQ %d failed: %m", i);
	for (int i = 0; i < 3 * POLLERS; i++)
		if (ibv_destroy_cq(bench->pollers[i / 3][i % 3]))
			fail("the end of a CQ failed: %m");
	if (ibv_destroy_qp(bench->qp) || ibv_destroy_cq(bench->one) || ibv_destroy_cq(bench->sixteen) || ibv_destroy_cq(bench->empty) ||
	    ibv_destroy_comp_channel(bench->channel) || ibv_close_device(bench->context))
		fail("the end failed: %m");
}

static void check_variant(const char *variant, const struct bench *bench)
{
	void *version = dlsym(RTLD_DEFAULT, "ibv_sa_version");
	bool shim = version != NULL;
	bool watched = false;
	Dl_info ours, poll_cq;

	if (shim) {
		if (!dladdr(version, &ours) || !dladdr((void *)bench->context->ops.poll_cq, &poll_cq))
			fail("dladdr does not know where the functions are");
		watched = ours.dli_fbase == poll_cq.dli_fbase;
	}
	if (shim != !!strcmp(variant, "none") || watched != (shim && strcmp(variant, "off")))
		fail("not the variant '%s': the shim is %s, polls are %s", variant, shim ? "there" : "not there",
		     watched ? "watched" : "not watched");
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static void time_all(const char *variant, const struct bench *bench)
{
	for (size_t i = 0; i < CASES; i++) {
		cases[i].run(bench, cases[i].batch / 10); /* warms up */
		for (int batch = 0; batch < BATCHES; batch++) {
			double start = now();

			cases[i].run(bench, cases[i].batch);
			printf("%s %s %.3f\n", cases[i].name, variant, (now() - start) / (double)cases[i].batch);
		}
	}
}

static void run_one(const char *name, const char *iterations, const struct bench *bench)
{
	for (size_t i = 0; i < CASES; i++) {
		if (strcmp(cases[i].name, name))
			continue;
		cases[i].run(bench, strtoul(iterations, NULL, 10));
		return;
	}
	fail("there is no case '%s'", name);
}

int main(int argc, char **argv)
{
	struct bench bench;

	if (argc != 2 && argc != 4)
		fail("usage: calls none|off|errors|full [CASE ITERATIONS]");
	set_up(&bench);
	check_variant(argv[1], &bench);
	if (argc == 2)
		time_all(argv[1], &bench);
	else
		run_one(argv[2], argv[3], &bench);
	tear_down(&bench);
	return 0;
}
