// SPDX-License-Identifier: MIT OR Apache-2.0
//
// reader_woken HOW: a thread waits in a get, and the main thread ends that as programs do; the get fails with EIO.
//   channel  ibv_get_cq_event; the channel is destroyed
//   comp     ibv_get_cq_event; the context is being closed, which takes its time
//   async    ibv_get_async_event; the context is being closed
//   leaked   ibv_get_cq_event, without waiting; the context was closed before, and the channel left behind
//   refused  ibv_get_async_event; closing the context failed, and it stays open

#include "ledger.h"

static struct thing t;
static bool is_async;

static void *read_one(void *argument)
{
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *cq_context;

	i_am_called("reader");
	say_thread("reader");
	if (argument)
		sleep_ms(*(int *)argument);
	else
		i_am_about_to_block();
	// What the kernel answers; the pipe of the scripted provider is at its end without an error.
	errno = EIO;
	int ret = is_async ? ibv_get_async_event(t.context, &event)
			   : ibv_get_cq_event(t.channel, &cq, &cq_context);
	say("get=%d %d", ret, errno);
	return NULL;
}

static void channel(void)
{
	pthread_t thread;

	REQUIRE(pthread_create(&thread, NULL, read_one, NULL) == 0);
	wait_until_blocked();
	REQUIRE(ibv_destroy_comp_channel(t.channel) == 0);
	REQUIRE(pthread_join(thread, NULL) == 0);
	REQUIRE(ibv_close_device(t.context) == 0);
}

static void leaked(void)
{
	struct ibv_comp_channel *left = t.channel;
	struct ibv_cq *cq;
	void *cq_context;

	REQUIRE(fcntl(left->fd, F_SETFL, O_NONBLOCK) == 0);
	REQUIRE(ibv_close_device(t.context) == 0);
	errno = 0;
	int ret = ibv_get_cq_event(left, &cq, &cq_context);
	say("get=%d %d", ret, errno);
}

static void closing(bool is_refused)
{
	int after = is_refused ? 0 : 200;
	pthread_t thread;

	scripted_reply(is_async ? "ibv_get_async_event" : "ibv_get_cq_event", -1, EIO);
	if (is_refused) {
		scripted_reply("ibv_close_device", -1, EBUSY);
		say("closed=%d", ibv_close_device(t.context));
		scripted_behave("ibv_close_device");
	} else {
		scripted_delay("ibv_close_device", 500);
	}
	REQUIRE(pthread_create(&thread, NULL, read_one, &after) == 0);
	if (is_refused)
		REQUIRE(pthread_join(thread, NULL) == 0);
	say("closed=%d", ibv_close_device(t.context));
	if (!is_refused)
		REQUIRE(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv)
{
	REQUIRE(argc == 2);
	is_async = !strcmp(argv[1], "async") || !strcmp(argv[1], "refused");
	t = make("comp");
	REQUIRE(ibv_destroy_cq(t.its_cq) == 0);
	REQUIRE(ibv_dealloc_pd(t.pd) == 0);
	if (!strcmp(argv[1], "channel"))
		channel();
	else if (!strcmp(argv[1], "leaked"))
		leaked();
	else
		closing(!strcmp(argv[1], "refused"));
	return 0;
}
