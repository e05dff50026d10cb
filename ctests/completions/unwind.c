// SPDX-License-Identifier: MIT OR Apache-2.0
//
// unwind WAY POLL: a poll does not return, or somebody looks at the stack meanwhile. POLL is `plain` or `start`, the
// first poll of an extended CQ. WAY is
//   cancelled   the thread is cancelled asynchronously
//   deferred    the same, at a cancellation point
//   exit        the provider ends the thread
//   forced      a forced unwinding that ends in the program's own frame, as of a language with exceptions
//   backtrace   backtrace(3) in the provider
//   signal      backtrace(3) in a signal handler that interrupts the provider
// The provider's function is the program's own.

#include <execinfo.h>
#include <setjmp.h>
#include <unwind.h>

#include "completions.h"

// The frames that polls are made from: all in this section.
#define CALLER __attribute__((noinline, section("callers")))
extern const char __start_callers[], __stop_callers[];

static const char *way;
static bool extended;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static _Atomic int cleaned, inside, seen;
static jmp_buf out;

static void cleanup(const int *value)
{
	cleaned += *value;
}

// Whether the callers are on the stack of this thread, and main's or the thread's first frame behind them.
static void look(void)
{
	void *frames[64];
	int n = backtrace(frames, 64), at = 0;

	while (at < n && ((char *)frames[at] < __start_callers || (char *)frames[at] >= __stop_callers))
		at++;
	seen = at < n && at + 1 < n ? 1 : -1;
}

static void handle(int number)
{
	(void)number;
	look();
}

static _Unwind_Reason_Code stop(int version, _Unwind_Action actions, _Unwind_Exception_Class class,
				struct _Unwind_Exception *exception, struct _Unwind_Context *at, void *argument)
{
	char *ip = (char *)_Unwind_GetIP(at);

	(void)version, (void)class, (void)exception, (void)argument;
	REQUIRE(!(actions & _UA_END_OF_STACK));
	// Ends in the frame that called the one with the cleanup.
	if (cleaned && ip >= __start_callers && ip < __stop_callers)
		longjmp(out, 1);
	return _URC_NO_REASON;
}

// What the provider does in the poll.
static void act(void)
{
	static struct _Unwind_Exception exception;

	inside = (int)syscall(SYS_gettid);
	if (!strcmp(way, "cancelled") || !strcmp(way, "signal")) {
		while (!seen)
			;
	} else if (!strcmp(way, "deferred")) {
		for (;;)
			pause();
	} else if (!strcmp(way, "exit")) {
		pthread_exit(&exception);
	} else if (!strcmp(way, "forced")) {
		_Unwind_ForcedUnwind(&exception, stop, NULL);
	} else {
		look();
	}
}

static int own_poll(struct ibv_cq *of, int number, struct ibv_wc *wc)
{
	REQUIRE(of == cq && number == 4);
	act();
	*wc = completion(IBV_WC_RETRY_EXC_ERR, qp->qp_num, 7, 0xff);
	return 1;
}

static int own_start_poll(struct ibv_cq_ex *of, struct ibv_poll_cq_attr *attr)
{
	REQUIRE((struct ibv_cq *)of == cq && !attr->comp_mask);
	act();
	of->status = IBV_WC_RETRY_EXC_ERR;
	of->wr_id = 7;
	return 0;
}

static struct ibv_cq_ex *(*provider_create)(struct ibv_context *, struct ibv_cq_init_attr_ex *);

static struct ibv_cq_ex *own_create(struct ibv_context *in, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *made = provider_create(in, attr);

	REQUIRE(made);
	made->start_poll = own_start_poll;
	made->read_qp_num = NULL;
	return made;
}

CALLER static void poll_it(void)
{
	__attribute__((cleanup(cleanup))) UNUSED int value = 1;
	struct ibv_poll_cq_attr attr = { 0 };
	struct ibv_wc wc[4];

	if (extended)
		REQUIRE(ibv_start_poll((struct ibv_cq_ex *)cq, &attr) == 0);
	else
		REQUIRE(ibv_poll_cq(cq, 4, wc) == 1);
}

CALLER static void poll_from_here(void)
{
	if (!setjmp(out))
		poll_it();
	// Not the last call: this frame must stay.
	__asm__ volatile("" ::: "memory");
}

static void *thread(void *argument)
{
	if (!strcmp(way, "cancelled"))
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	poll_from_here();
	return argument;
}

// The context is prepared before anybody sees it.
static void prepare(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	REQUIRE(list && list[0]);
	context = scripted_open_around(list[0]);
	ibv_free_device_list(list);
	context->ops.poll_cq = own_poll;
	provider_create = verbs_get_ctx(context)->create_cq_ex;
	verbs_get_ctx(context)->create_cq_ex = own_create;
	REQUIRE(pd = ibv_alloc_pd(context));
	// Seen now, at the latest.
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *first = ibv_create_cq(context, 4, NULL, channel, 0);
	struct ibv_cq_init_attr_ex attr = { .cqe = 4, .channel = channel };

	REQUIRE(channel && first);
	cq = extended ? ibv_cq_ex_to_cq(ibv_create_cq_ex(context, &attr)) : first;
	REQUIRE(cq);
	qp = qp_on(pd, cq, cq);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = handle };
	void *frames[4], *result;
	pthread_t polling;

	REQUIRE(argc == 3);
	way = argv[1];
	extended = !strcmp(argv[2], "start");
	// Loads what it needs.
	backtrace(frames, 4);
	REQUIRE(sigaction(SIGUSR1, &action, NULL) == 0);
	prepare();
	REQUIRE(pthread_create(&polling, NULL, thread, NULL) == 0);
	while (!inside)
		sched_yield();
	if (!strcmp(way, "cancelled") || !strcmp(way, "deferred"))
		REQUIRE(pthread_cancel(polling) == 0);
	if (!strcmp(way, "signal"))
		REQUIRE(pthread_kill(polling, SIGUSR1) == 0);
	REQUIRE(pthread_join(polling, &result) == 0);
	say("%s: %s, cleanup %d, callers %s", way,
	    result == PTHREAD_CANCELED ? "cancelled" : result ? "ended" : "came back", cleaned,
	    seen == 1 ? "seen" : seen ? "lost" : "not asked for");
	return 0;
}
