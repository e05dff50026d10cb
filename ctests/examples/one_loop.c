// SPDX-License-Identifier: MIT OR Apache-2.0
//
// one_loop DEVICE PORT: one thread, one poll(2), three kinds of events: notices of the SA, asynchronous events of the
// device, completions. Ends with the device, or on SIGINT.

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/ibv_sa.h>

static struct ibv_context *context;
static struct ibv_comp_channel *completions;
static struct ibv_cq *cq;
static volatile sig_atomic_t interrupted;

static void interrupt(int number)
{
	interrupted = number;
}

static int fail(const char *what)
{
	perror(what);
	return 1;
}

static void serve_notices(struct ibv_sa_event_channel *channel)
{
	struct ibv_sa_event *event;

	while (!ibv_sa_get_event(channel, &event)) {
		printf("SA: %s: %s\n", ibv_sa_event_str(event),
		       event->attr_id == IBV_SA_ATTR_INFORM_INFO ? ibv_sa_status_str(event->status) : "look again");
		ibv_sa_ack_event(event);
	}
}

// Until EAGAIN: the descriptors have O_NONBLOCK.
static int serve_device(void)
{
	struct ibv_async_event event;
	int fatal = 0;

	while (!ibv_get_async_event(context, &event)) {
		printf("device: %s\n", ibv_event_type_str(event.event_type));
		fatal |= event.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&event);
	}
	return fatal;
}

static void serve_completions(void)
{
	struct ibv_cq *of;
	struct ibv_wc wc;
	void *cq_context;

	while (!ibv_get_cq_event(completions, &of, &cq_context)) {
		ibv_ack_cq_events(of, 1);
		// Armed before it is polled: what comes in between makes an event.
		if (ibv_req_notify_cq(of, 0))
			perror("ibv_req_notify_cq");
		while (ibv_poll_cq(of, 1, &wc) > 0)
			printf("completion: wr_id %llu\n", (unsigned long long)wc.wr_id);
	}
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_sa_event_channel *channel = ibv_sa_create_event_channel();
	struct sigaction action = { .sa_handler = interrupt };
	struct ibv_sa_id *id;

	if (argc != 3 || !list || !channel)
		return fail("one_loop DEVICE PORT");
	setlinebuf(stdout);
	for (int i = 0; list[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!context)
		return fail(argv[1]);
	completions = ibv_create_comp_channel(context);
	cq = completions ? ibv_create_cq(context, 16, NULL, completions, 0) : NULL;
	if (!cq || ibv_req_notify_cq(cq, 0))
		return fail("CQ");
	if (ibv_sa_register_inform_info(channel, context, (uint8_t)atoi(argv[2]), IBV_SA_SM_TRAP_ALL, NULL, &id))
		return fail("ibv_sa_register_inform_info");

	const int fds[] = { channel->fd, context->async_fd, completions->fd };
	for (int i = 0; i < 3; i++)
		if (fcntl(fds[i], F_SETFL, fcntl(fds[i], F_GETFL) | O_NONBLOCK))
			return fail("fcntl");
	sigaction(SIGINT, &action, NULL);
	for (int fatal = 0; !fatal && !interrupted;) {
		struct pollfd ready[3];

		for (int i = 0; i < 3; i++)
			ready[i] = (struct pollfd){ .fd = fds[i], .events = POLLIN };
		if (poll(ready, 3, -1) < 0 && errno != EINTR)
			return fail("poll");
		serve_notices(channel);
		serve_completions();
		fatal = serve_device();
	}
	ibv_sa_free_id(id);
	ibv_sa_destroy_event_channel(channel);
	ibv_destroy_cq(cq);
	ibv_destroy_comp_channel(completions);
	ibv_close_device(context);
	printf("end\n");
	return 0;
}
