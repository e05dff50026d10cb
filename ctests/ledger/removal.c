// SPDX-License-Identifier: MIT OR Apache-2.0
//
// removal blocking|nonblocking STEP...: the device of a context goes away while an event of a QP is open. Steps:
//   fatal    DEVICE_FATAL is queued
//   remove   the device is gone
//   get      gets an async event: get=TYPE, or get=-1 and the error number
//   poll     POLLERR is what poll(2) would say; here only whether the descriptor is readable
//   query    asks for the port: query=RET
//   command  modifies the QP, makes a PD, makes a CQ and an extended CQ: command=RET ERRNO ERRNO ERRNO
//   eio      one command fails with EIO, as a device that is there may answer: eio=RET
//   destroy  destroys the QP: destroyed=RET
//   rest     destroys SRQ, CQ and channel: rest=RET RET RET
//   ack      acknowledges the event
//   close    closes the context
//   again    a second context of the same device: opened, used, closed
// Afterwards the program ends.

#include <poll.h>

#include "ledger.h"

static struct ibv_context *context;
static struct objects o;

static void get(void)
{
	struct ibv_async_event event;

	errno = 0;
	int ret = ibv_get_async_event(context, &event);
	if (ret)
		say("get=%d %d", ret, errno);
	else
		say("get=%d", (int)event.event_type);
}

static int failed_with(const void *object)
{
	REQUIRE(!object);
	return errno;
}

static void command(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 8 };
	int modify = ibv_modify_qp(o.qp, &attr, IBV_QP_STATE);
	int pd = failed_with(ibv_alloc_pd(context));
	int cq = failed_with(ibv_create_cq(context, 8, NULL, NULL, 0));

	say("command=%d %d %d %d", modify, pd, cq, failed_with(ibv_create_cq_ex(context, &cq_attr)));
}

static void step(const char *name, struct ibv_async_event *event)
{
	struct ibv_port_attr port;

	if (!strcmp(name, "fatal")) {
		REQUIRE(scripted_async(context, IBV_EVENT_DEVICE_FATAL, NULL) == 0);
	} else if (!strcmp(name, "remove")) {
		scripted_remove(context);
	} else if (!strcmp(name, "get")) {
		get();
	} else if (!strcmp(name, "poll")) {
		struct pollfd fd = { .fd = context->async_fd, .events = POLLIN };

		say("poll=%d", poll(&fd, 1, 0));
	} else if (!strcmp(name, "query")) {
		say("query=%d", ibv_query_port(context, 1, &port));
	} else if (!strcmp(name, "command")) {
		command();
	} else if (!strcmp(name, "eio")) {
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };

		scripted_reply("ibv_modify_qp", EIO, 0);
		say("eio=%d", ibv_modify_qp(o.qp, &attr, IBV_QP_STATE));
		scripted_behave("ibv_modify_qp");
	} else if (!strcmp(name, "destroy")) {
		double start = now();

		say("destroyed=%d", ibv_destroy_qp(o.qp));
		say("waited=%.2f", now() - start);
	} else if (!strcmp(name, "rest")) {
		int srq = ibv_destroy_srq(o.srq), cq = ibv_destroy_cq(o.cq);

		say("rest=%d %d %d", srq, cq, ibv_destroy_comp_channel(o.channel));
	} else if (!strcmp(name, "ack")) {
		ibv_ack_async_event(event);
	} else if (!strcmp(name, "close")) {
		say("closed=%d", ibv_close_device(context));
	} else if (!strcmp(name, "again")) {
		open_round_close();
		say("again=0");
	} else {
		REQUIRE(!"a step");
	}
}

int main(int argc, char **argv)
{
	struct ibv_async_event event;

	REQUIRE(argc > 2);
	context = open_first();
	o = make_objects(context);
	i_am_called("removal");
	say_thread("thread");
	say("object=QP qp_num %u (handle %u, scr0)", o.qp->qp_num, o.qp->handle);
	if (!strcmp(argv[1], "nonblocking"))
		REQUIRE(fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0);
	REQUIRE(scripted_async(context, IBV_EVENT_COMM_EST, o.qp) == 0);
	REQUIRE(ibv_get_async_event(context, &event) == 0);
	for (int i = 2; i < argc; i++)
		step(argv[i], &event);
	say("end=0");
	return 0;
}
