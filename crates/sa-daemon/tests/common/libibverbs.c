/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A test double for libibverbs, as much of it as tells of a device's events: fake0, whose events are those that somebody
 * writes into the fifo DOUBLE_DIR/events, each as two native ints, event_type and port_num. An InfiniBand port that an SM
 * asks to subscribe again is what needs hardware otherwise. "calls" has a line for each call of note. With a file
 * "hung-up" there the events end at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the daemon knows of the structure, which it does not make. */
_Static_assert(offsetof(struct ibv_context, async_fd) == 34 * sizeof(void *) + sizeof(int) - sizeof(void *),
	       "async_fd is after one pointer, 32 functions and an int");
_Static_assert(sizeof(struct ibv_async_event) == 16 && offsetof(struct ibv_async_event, event_type) == 8,
	       "an event is an element and a type");

static struct ibv_device device = { .name = "fake0" };
static struct ibv_device *list[] = { &device, NULL };

static const char *path(const char *name)
{
	static __thread char room[4096];

	snprintf(room, sizeof(room), "%s/%s", getenv("DOUBLE_DIR"), name);
	return room;
}

static void called(const char *what)
{
	int fd = open(path("calls"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

	if (fd < 0 || dprintf(fd, "%s\n", what) < 0)
		abort();
	close(fd);
}

struct ibv_device **ibv_get_device_list(int *count)
{
	*count = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **devices)
{
	(void)devices;
}

const char *ibv_get_device_name(struct ibv_device *one)
{
	return one->name;
}

struct ibv_context *ibv_open_device(struct ibv_device *one)
{
	struct ibv_context *context = calloc(1, sizeof(*context));

	called("open_device");
	context->device = one;
	/* Both ends, so that there is no end of file between two writers. */
	context->async_fd = open(path("events"), O_RDWR | O_CLOEXEC);
	if (access(path("hung-up"), F_OK) == 0) {
		int ends[2];

		close(context->async_fd);
		if (pipe2(ends, O_CLOEXEC))
			abort();
		close(ends[1]);
		context->async_fd = ends[0];
	}
	if (context->async_fd < 0)
		abort();
	return context;
}

int ibv_close_device(struct ibv_context *context)
{
	called("close_device");
	close(context->async_fd);
	free(context);
	return 0;
}

int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	int got[2];
	ssize_t size = read(context->async_fd, got, sizeof(got));

	if (size != sizeof(got)) {
		if (size >= 0)
			errno = EAGAIN;
		return -1;
	}
	memset(event, 0, sizeof(*event));
	event->event_type = got[0];
	event->element.port_num = got[1];
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	called("ack");
}
