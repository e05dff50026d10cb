// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The scripted provider, a test double for libibverbs: event queues, gets and acks.
//
// A get is one plain read() of the descriptor that the program also has, as in libibverbs: a
// cancellation point, interrupted by signals, and no lock is held around it.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "internal.h"

int queue_open(struct queue *queue)
{
	char path[32];
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return -1;
	// Only the writer does not block: a full queue is the test's own mistake and must not hang.
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fds[0]);
	queue->drain_fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	queue->write_fd = fds[1];
	pthread_mutex_init(&queue->lock, NULL);
	if (queue->drain_fd < 0) {
		close(fds[0]);
		close(fds[1]);
		return -1;
	}
	return fds[0];
}

void queue_close(struct queue *queue)
{
	if (queue->write_fd >= 0)
		close(queue->write_fd);
	close(queue->drain_fd);
	pthread_mutex_destroy(&queue->lock);
}

static int queue_put(struct queue *queue, const void *record, size_t size, uint32_t *sent)
{
	int ret = -1;

	pthread_mutex_lock(&queue->lock);
	if (queue->write_fd < 0)
		errno = EIO;
	else if (write(queue->write_fd, record, size) == (ssize_t)size)
		ret = 0;
	if (!ret && sent)
		++*sent;
	pthread_mutex_unlock(&queue->lock);
	return ret;
}

static bool is_of_object(uint32_t type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
	case IBV_EVENT_WQ_FATAL:
		return true;
	default:
		return false;
	}
}

static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock_kept(void)
{
	pthread_mutex_lock(&kept_lock);
}

static void unlock_kept(void)
{
	pthread_mutex_unlock(&kept_lock);
}

// A child of fork(3) may be born while another thread is in here, and may destroy objects of its own.
__attribute__((constructor)) static void keep_forks_out(void)
{
	pthread_atfork(lock_kept, unlock_kept, unlock_kept);
}

// Everything is read and what belongs to others is put back, in order. It stands for work of the
// kernel, where no thread is cancelled.
uint32_t queue_take_async(struct queue *queue, const void *element)
{
	static struct async_record kept[4096]; // a pipe holds no more; under kept_lock
	struct async_record record;
	uint32_t taken = 0;
	size_t count = 0;
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&queue->lock);
	pthread_mutex_lock(&kept_lock);
	while (count < 4096 && read(queue->drain_fd, &record, sizeof(record)) == sizeof(record)) {
		if (is_of_object(record.event_type) && record.element == (uintptr_t)element)
			taken++;
		else
			kept[count++] = record;
	}
	for (size_t i = 0; i < count && queue->write_fd >= 0; i++)
		if (write(queue->write_fd, &kept[i], sizeof(kept[i])) < 0)
			break;
	pthread_mutex_unlock(&kept_lock);
	pthread_mutex_unlock(&queue->lock);
	pthread_setcancelstate(cancel_state, NULL);
	return taken;
}

uint32_t queue_take_comp(struct queue *queue, const struct ibv_cq *cq)
{
	static struct comp_record kept[8192];
	struct comp_record record;
	uint32_t taken = 0;
	size_t count = 0;
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&queue->lock);
	pthread_mutex_lock(&kept_lock);
	while (count < 8192 && read(queue->drain_fd, &record, sizeof(record)) == sizeof(record)) {
		if (record.cq == (uintptr_t)cq)
			taken++;
		else
			kept[count++] = record;
	}
	for (size_t i = 0; i < count && queue->write_fd >= 0; i++)
		if (write(queue->write_fd, &kept[i], sizeof(kept[i])) < 0)
			break;
	pthread_mutex_unlock(&kept_lock);
	pthread_mutex_unlock(&queue->lock);
	pthread_setcancelstate(cancel_state, NULL);
	return taken;
}

// ---- asynchronous events --------------------------------------------------------------------

int scripted_async(struct ibv_context *context, int type, void *element)
{
	struct async_record record = {
		.element = (uintptr_t)element,
		.event_type = (uint32_t)type,
	};
	uint32_t *sent = NULL;

	switch (type) {
	case IBV_EVENT_CQ_ERR:
		sent = &((struct cq *)element)->async_sent;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		sent = &((struct srq *)element)->sent;
		break;
	case IBV_EVENT_WQ_FATAL:
		sent = &((struct wq *)element)->sent;
		break;
	default:
		if (is_of_object((uint32_t)type))
			sent = &((struct qp *)element)->sent;
	}
	return queue_put(&context_of(context)->async, &record, sizeof(record), sent);
}

// A pipe without a writer reads as empty; the kernel says EIO there, or EAGAIN if the program asked
// for a descriptor that does not block.
static void removed_errno(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	errno = flags >= 0 && flags & O_NONBLOCK ? EAGAIN : EIO;
}

HIDDEN int behave_ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	struct async_record record;
	ssize_t got = read(context->async_fd, &record, sizeof(record));

	if (got != sizeof(record)) {
		if (!got && atomic_load(&context_of(context)->gone))
			removed_errno(context->async_fd);
		return -1;
	}
	event->event_type = record.event_type;
	if (is_of_object(record.event_type))
		event->element.qp = (void *)(uintptr_t)record.element;
	else
		event->element.port_num = (int)record.element;
	return 0;
}

static void ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed, uint32_t n)
{
	pthread_mutex_lock(mutex);
	*completed += n;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

HIDDEN void behave_ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;
	struct ibv_wq *wq = event->element.wq;

	if (!is_of_object(event->event_type))
		return;
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		ack(&cq->mutex, &cq->cond, &cq->async_events_completed, 1);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		ack(&srq->mutex, &srq->cond, &srq->events_completed, 1);
		break;
	case IBV_EVENT_WQ_FATAL:
		ack(&wq->mutex, &wq->cond, &wq->events_completed, 1);
		break;
	default:
		ack(&qp->mutex, &qp->cond, &qp->events_completed, 1);
	}
}

// ---- completion events ----------------------------------------------------------------------

HIDDEN struct ibv_comp_channel *behave_ibv_create_comp_channel(struct ibv_context *context)
{
	if (is_gone(context))
		return NULL;

	struct channel *channel = calloc(1, sizeof(*channel));
	if (!channel)
		return NULL;
	channel->channel.context = context;
	channel->channel.fd = queue_open(&channel->queue);
	if (channel->channel.fd < 0) {
		free(channel);
		return NULL;
	}
	scripted_made(channel, "Channel");
	return &channel->channel;
}

HIDDEN int behave_ibv_destroy_comp_channel(struct ibv_comp_channel *ibv_channel)
{
	struct channel *channel = (struct channel *)ibv_channel;
	struct ibv_context *context = ibv_channel->context;

	pthread_mutex_lock(&context->mutex);
	if (ibv_channel->refcnt) {
		pthread_mutex_unlock(&context->mutex);
		return EBUSY;
	}
	close(ibv_channel->fd);
	queue_close(&channel->queue);
	scripted_unmade(channel, "Channel");
	free(channel);
	pthread_mutex_unlock(&context->mutex);
	return 0;
}

int scripted_comp(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	struct comp_record record = { .cq = (uintptr_t)cq };

	return queue_put(&((struct channel *)channel)->queue, &record, sizeof(record),
			 &((struct cq *)cq)->comp_sent);
}

HIDDEN int behave_ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
				   void **cq_context)
{
	struct comp_record record;

	if (read(channel->fd, &record, sizeof(record)) != sizeof(record))
		return -1;
	*cq = (struct ibv_cq *)(uintptr_t)record.cq;
	*cq_context = (*cq)->cq_context;
	return 0;
}

HIDDEN void behave_ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	ack(&cq->mutex, &cq->cond, &cq->comp_events_completed, nevents);
}
