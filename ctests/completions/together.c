// SPDX-License-Identifier: MIT OR Apache-2.0
//
// together threads NUMBER: two threads poll the two CQs of one QP, on which so many completions each fail.
// together handler NUMBER: a signal handler polls one of them, whatever it interrupts, the program the other.
// Prints how many failed of each kind.

#include <sys/time.h>

#include "completions.h"

static struct thing t;
static struct ibv_cq *other_cq;
static struct ibv_qp *qp;
static int number;
static atomic_bool go;
static volatile int handled;

static void fill(struct ibv_cq *cq, uint64_t wr_id)
{
	struct ibv_wc *wc = calloc((size_t)number, sizeof(*wc));

	REQUIRE(wc);
	// The first one everywhere is a failure, the rest follows from it.
	for (int i = 0; i < number; i++)
		wc[i] = completion(i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR, qp->qp_num, wr_id, 0xff);
	REQUIRE(scripted_wc(cq, wc, number) == 0);
	free(wc);
}

static void *poll_all(void *cq)
{
	struct ibv_wc wc[8];

	while (!go)
		;
	for (int left = number, n; left; left -= n)
		n = ibv_poll_cq(cq, 8, wc);
	return NULL;
}

static void handle(int signal)
{
	struct ibv_wc wc;
	int before = errno;

	(void)signal;
	if (handled < number)
		handled += ibv_poll_cq(other_cq, 1, &wc);
	REQUIRE(errno == before);
}

static void in_handler(void)
{
	struct sigaction action = { .sa_handler = handle, .sa_flags = SA_RESTART };
	struct itimerval often = { .it_interval.tv_usec = 100, .it_value.tv_usec = 100 }, never = { 0 };
	struct ibv_wc wc;
	int polled = 0;

	REQUIRE(sigaction(SIGALRM, &action, NULL) == 0);
	REQUIRE(setitimer(ITIMER_REAL, &often, NULL) == 0);
	// Also while QPs come and go, each with a line of its own.
	while (handled < number || polled < number) {
		struct ibv_qp *more = qp_on(t.pd, t.its_cq, t.its_cq);

		if (polled < number)
			polled += ibv_poll_cq(t.its_cq, 1, &wc);
		REQUIRE(ibv_destroy_qp(more) == 0);
	}
	REQUIRE(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	REQUIRE(argc == 3);
	number = atoi(argv[2]);
	t = make("cq");
	REQUIRE(other_cq = ibv_create_cq(t.context, 16, NULL, NULL, 0));
	qp = qp_on(t.pd, t.its_cq, other_cq);
	say_qp("qp", qp);
	fill(t.its_cq, 0x11);
	fill(other_cq, 0x22);
	if (!strcmp(argv[1], "handler")) {
		in_handler();
	} else {
		REQUIRE(pthread_create(&threads[0], NULL, poll_all, t.its_cq) == 0);
		REQUIRE(pthread_create(&threads[1], NULL, poll_all, other_cq) == 0);
		go = true;
		REQUIRE(pthread_join(threads[0], NULL) == 0);
		REQUIRE(pthread_join(threads[1], NULL) == 0);
	}
	say("failures=2");
	say("flushes=%d", 2 * number - 2);
	REQUIRE(ibv_destroy_qp(qp) == 0);
	REQUIRE(ibv_destroy_cq(other_cq) == 0);
	REQUIRE(destroy(&t) == 0);
	close_all(&t);
	return 0;
}
