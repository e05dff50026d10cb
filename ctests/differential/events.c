// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The differential test: events of both kinds, their acks, and the destroys that wait for them.

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "differential.h"

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = ibv_open_device(list[0]);

	MUST(context);
	ibv_free_device_list(list);
	return context;
}

static void set_nonblocking(int fd, bool on)
{
	MUST(!fcntl(fd, F_SETFL, on ? O_NONBLOCK : 0));
}

static void get_async(struct ibv_context *context, struct ibv_async_event *event)
{
	memset(event, 0xee, sizeof(*event));
	errno = UNTOUCHED;
	say_int("get_async", ibv_get_async_event(context, event));
}

// Waits in its own thread until the main thread acks.
struct destroy {
	pthread_t thread;
	int (*destroy)(void *object);
	const char *function;
	void *object;
	int value;
	int err;
	volatile bool done;
};

static void *destroy_thread(void *argument)
{
	struct destroy *destroy = argument;

	errno = UNTOUCHED;
	destroy->value = destroy->destroy(destroy->object);
	destroy->err = errno;
	destroy->done = true;
	return NULL;
}

static void destroy_begin(struct destroy *destroy)
{
	struct timespec while_it_waits = { .tv_nsec = 20 * 1000 * 1000 };
	unsigned long calls = scripted.calls(destroy->function);

	MUST(!pthread_create(&destroy->thread, NULL, destroy_thread, destroy));
	while (scripted.calls(destroy->function) == calls)
		sched_yield();
	nanosleep(&while_it_waits, NULL);
	say("destroy %s\n", destroy->done ? "is done" : "waits");
}

static void destroy_end(struct destroy *destroy)
{
	MUST(!pthread_join(destroy->thread, NULL));
	say("destroy = %d errno %d\n", destroy->value, destroy->err);
}

static int destroy_qp(void *object)
{
	return ibv_destroy_qp(object);
}

static int destroy_cq(void *object)
{
	return ibv_destroy_cq(object);
}

// Every type of event, also one that no library knows: what is read, and that the ack counts.
static void every_type(void)
{
	struct ibv_context *context = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
	struct ibv_qp_init_attr qp_attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &qp_attr);
	struct ibv_srq_init_attr srq_attr = { .srq_context = NULL };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	struct ibv_wq_init_attr wq_attr = { .wq_type = IBV_WQT_RQ, .pd = pd, .cq = cq };
	struct ibv_wq *wq = OFFERED(ibv_create_wq)(context, &wq_attr);

	MUST(pd && cq && qp && srq && wq);
	for (int type = 0; type < 24; type++) {
		void *element = (void *)3; // a port
		const char *name = "port 3";

		switch (type) {
		case IBV_EVENT_CQ_ERR:
			element = cq, name = "the CQ";
			break;
		case IBV_EVENT_QP_FATAL:
		case IBV_EVENT_QP_REQ_ERR:
		case IBV_EVENT_QP_ACCESS_ERR:
		case IBV_EVENT_COMM_EST:
		case IBV_EVENT_SQ_DRAINED:
		case IBV_EVENT_PATH_MIG:
		case IBV_EVENT_PATH_MIG_ERR:
		case IBV_EVENT_QP_LAST_WQE_REACHED:
			element = qp, name = "the QP";
			break;
		case IBV_EVENT_SRQ_ERR:
		case IBV_EVENT_SRQ_LIMIT_REACHED:
			element = srq, name = "the SRQ";
			break;
		case IBV_EVENT_WQ_FATAL:
			element = wq, name = "the WQ";
			break;
		}
		MUST(!scripted.async(context, type, element));

		struct ibv_async_event event;
		get_async(context, &event);
		bool same = element == (void *)3 ? event.element.port_num == 3 :
						   (void *)event.element.qp == element;
		say(" type %d of %s\n", event.event_type, same ? name : "something else");
		errno = UNTOUCHED;
		ibv_ack_async_event(&event);
		say(" acked errno %d\n", errno);
	}
	say("acked: CQ %u QP %u SRQ %u WQ %u\n", cq->async_events_completed, qp->events_completed,
	    srq->events_completed, wq->events_completed);

	// What nobody read is taken back.
	MUST(!scripted.async(context, IBV_EVENT_QP_FATAL, qp));
	MUST(!scripted.async(context, IBV_EVENT_PORT_ACTIVE, (void *)1));
	MUST(!scripted.async(context, IBV_EVENT_WQ_FATAL, wq));
	errno = UNTOUCHED;
	say_int("destroy_wq", OFFERED(ibv_destroy_wq)(wq));
	say_int("destroy_qp", ibv_destroy_qp(qp));
	say_int("destroy_srq", ibv_destroy_srq(srq));
	say_int("destroy_cq", ibv_destroy_cq(cq));
	struct ibv_async_event event;
	get_async(context, &event);
	say(" type %d\n", event.event_type);
	errno = UNTOUCHED;
	say_int("dealloc_pd", ibv_dealloc_pd(pd));
	say_int("close", ibv_close_device(context));
}

// Events of several objects in one queue, got first and acked later in another order.
static void acked_late(void)
{
	struct ibv_context *context = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
	struct ibv_qp_init_attr qp_attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD };
	struct ibv_qp *qps[3];
	struct ibv_async_event events[9];

	for (int i = 0; i < 3; i++)
		qps[i] = ibv_create_qp(pd, &qp_attr);
	for (int i = 0; i < 9; i++)
		MUST(!scripted.async(context, IBV_EVENT_COMM_EST, qps[i % 3]));
	for (int i = 0; i < 9; i++)
		get_async(context, &events[i]);
	for (int i = 8; i >= 1; i--)
		ibv_ack_async_event(&events[i]);

	struct destroy destroy = { .destroy = destroy_qp, .function = "ibv_destroy_qp", .object = qps[0] };
	destroy_begin(&destroy);
	errno = UNTOUCHED;
	say_int("destroy_qp 1", ibv_destroy_qp(qps[1]));
	ibv_ack_async_event(&events[0]);
	destroy_end(&destroy);
	errno = UNTOUCHED;
	say_int("destroy_qp 2", ibv_destroy_qp(qps[2]));
	say_int("destroy_cq", ibv_destroy_cq(cq));
	say_int("dealloc_pd", ibv_dealloc_pd(pd));
	say_int("close", ibv_close_device(context));
}

static void on_signal(int number)
{
	(void)number;
}

// Gets that end without an event.
static void no_event(void)
{
	struct ibv_context *context = open_first();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_async_event event;
	struct ibv_cq *cq = NULL;
	void *cq_context = NULL;

	set_nonblocking(context->async_fd, true);
	set_nonblocking(channel->fd, true);
	get_async(context, &event);
	errno = UNTOUCHED;
	say_int("get_cq", ibv_get_cq_event(channel, &cq, &cq_context));
	set_nonblocking(context->async_fd, false);
	set_nonblocking(channel->fd, false);

	// The timer goes on: a signal that comes before the read is not the last.
	struct sigaction action = { .sa_handler = on_signal }; // no SA_RESTART
	struct itimerval often = { { 0, 5000 }, { 0, 5000 } }, off = { { 0, 0 }, { 0, 0 } };
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	get_async(context, &event);
	errno = UNTOUCHED;
	say_int("get_cq", ibv_get_cq_event(channel, &cq, &cq_context));
	setitimer(ITIMER_REAL, &off, NULL);
	say("cq %s\n", cq || cq_context ? "is written" : "is not written");

	int fd = context->async_fd;
	context->async_fd = -1;
	get_async(context, &event);
	context->async_fd = fd;
	fd = channel->fd;
	channel->fd = -1;
	errno = UNTOUCHED;
	say_int("get_cq", ibv_get_cq_event(channel, &cq, &cq_context));
	channel->fd = fd;

	errno = UNTOUCHED;
	say_int("destroy_channel", ibv_destroy_comp_channel(channel));
	say_int("close", ibv_close_device(context));
}

// The device goes away while there are objects and an event that nobody acked.
static void removed(void)
{
	struct ibv_context *context = open_first();
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
	struct ibv_qp_init_attr qp_attr = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &qp_attr);
	struct ibv_async_event event, fatal;

	MUST(!scripted.async(context, IBV_EVENT_QP_FATAL, qp));
	get_async(context, &event);
	MUST(!scripted.async(context, IBV_EVENT_DEVICE_FATAL, NULL));
	scripted.remove(context);
	get_async(context, &fatal);
	say(" type %d\n", fatal.event_type);
	get_async(context, &fatal);
	set_nonblocking(context->async_fd, true);
	get_async(context, &fatal);

	errno = UNTOUCHED;
	say_int("destroy_qp", ibv_destroy_qp(qp));
	say_int("destroy_cq", ibv_destroy_cq(cq));
	say_int("dealloc_pd", ibv_dealloc_pd(pd));
	errno = UNTOUCHED;
	say_pointer("create_cq", ibv_create_cq(context, 10, NULL, NULL, 0));
	errno = UNTOUCHED;
	say_pointer("create_channel", ibv_create_comp_channel(context));
	errno = UNTOUCHED;
	say_pointer("create_qp", ibv_create_qp(pd, &qp_attr));
	ibv_ack_async_event(&event);
	say("acked: QP %u\n", qp->events_completed);

	// As after a restart of the program with the setting that lets destroys through.
	setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 1);
	errno = UNTOUCHED;
	say_int("destroy_qp", ibv_destroy_qp(qp));
	say_int("destroy_cq", ibv_destroy_cq(cq));
	say_int("dealloc_pd", ibv_dealloc_pd(pd));
	say_int("close", ibv_close_device(context));
	unsetenv("RDMAV_ALLOW_DISASSOC_DESTROY");
}

void scenario_events(void)
{
	say("SCENARIO every type\n");
	every_type();
	say("SCENARIO acked late\n");
	acked_late();
	say("SCENARIO no event\n");
	no_event();
	say("SCENARIO removed\n");
	removed();
}

// ---- completion events ----------------------------------------------------------------------

void scenario_completions(void)
{
	say("SCENARIO completion events\n");
	struct ibv_context *context = open_first();
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	struct ibv_cq *cqs[2];
	int ours[2];
	int got[2] = { 0, 0 };

	for (int i = 0; i < 2; i++) {
		cqs[i] = ibv_create_cq(context, 10, &ours[i], channel, i);
		MUST(cqs[i]);
		errno = UNTOUCHED;
		say_int("req_notify", OFFERED(ibv_req_notify_cq)(cqs[i], i));
	}
	errno = UNTOUCHED;
	say_int("destroy_channel", ibv_destroy_comp_channel(channel));
	say_pointer("create_cq", ibv_create_cq(context, 10, NULL, channel, 99));

	for (int i = 0; i < 7; i++)
		MUST(!scripted.comp(channel, cqs[i % 3 == 0]));
	for (int i = 0; i < 7; i++) {
		struct ibv_cq *cq = NULL;
		void *cq_context = NULL;

		errno = UNTOUCHED;
		say_int("get_cq", ibv_get_cq_event(channel, &cq, &cq_context));
		int which = cq == cqs[1];
		say(" CQ %d, its context is %s\n", which,
		    cq == cqs[which] && cq_context == &ours[which] ? "right" : "wrong");
		got[which]++;
	}

	// All at once, none, and the last one while the destroy waits.
	errno = UNTOUCHED;
	ibv_ack_cq_events(cqs[0], 0);
	ibv_ack_cq_events(cqs[0], (unsigned int)got[0]);
	ibv_ack_cq_events(cqs[1], (unsigned int)got[1] - 1);
	say("acked: %u %u errno %d\n", cqs[0]->comp_events_completed,
	    cqs[1]->comp_events_completed, errno);
	MUST(!scripted.comp(channel, cqs[0])); // never read
	say_int("destroy_cq 0", ibv_destroy_cq(cqs[0]));
	struct destroy destroy = { .destroy = destroy_cq, .function = "ibv_destroy_cq", .object = cqs[1] };
	destroy_begin(&destroy);
	ibv_ack_cq_events(cqs[1], 1);
	destroy_end(&destroy);
	errno = UNTOUCHED;
	say_int("destroy_channel", ibv_destroy_comp_channel(channel));
	say_int("close", ibv_close_device(context));
}
