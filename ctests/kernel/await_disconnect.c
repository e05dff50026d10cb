// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A preload for rping, whose end has a race of its own, whatever else is preloaded: its client destroys the
// connection's id and then the event channel, while its event thread may be on the way to the next event.
//   rdma-core 59 and newer (and 56.3, 57.2, 58.1; commit f3ae6534a there): the thread calls poll(2) before
//   rdma_get_cm_event(). If the id is destroyed between the two, RDMA_CM_EVENT_DISCONNECTED goes with it: the
//   thread blocks for ever, and main with it in pthread_join().
//   older: if the channel is closed before the thread is back in rdma_get_cm_event(), rping exits with 255.
// Here rdma_destroy_id() waits until the disconnection has been acknowledged, and the channel is left to the
// end of the process. Verbs calls are not touched, so that a hang in one stays a hang. For programs with one
// connection at a time.
// Built with: cc -shared -fPIC -pthread await_disconnect.c

#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool connected;

static void set_connected(bool now)
{
	pthread_mutex_lock(&lock);
	connected = now;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	__typeof__(&rdma_get_cm_event) real = dlsym(RTLD_NEXT, "rdma_get_cm_event");
	int result = real(channel, event);

	if (result == 0 && (*event)->event == RDMA_CM_EVENT_ESTABLISHED)
		set_connected(true);
	return result;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	__typeof__(&rdma_ack_cm_event) real = dlsym(RTLD_NEXT, "rdma_ack_cm_event");
	bool disconnected = event->event == RDMA_CM_EVENT_DISCONNECTED;
	int result = real(event);

	if (disconnected)
		set_connected(false);
	return result;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	__typeof__(&rdma_destroy_id) real = dlsym(RTLD_NEXT, "rdma_destroy_id");

	pthread_mutex_lock(&lock);
	while (connected)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
	return real(id);
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	(void)channel;
}
