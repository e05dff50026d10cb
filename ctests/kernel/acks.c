// SPDX-License-Identifier: MIT OR Apache-2.0
//
// acks STEP...: get events, acknowledge them or not, and destroy objects, in any order and by any thread; say on
// standard output what is done, when and by whom. The device is that of $ACKS_DEVICE, or rxe0.
//
// A STEP is [WORKER:|WORKER&]VERB[:ARGUMENT[:ARGUMENT]]. Without WORKER main does it. "2:get" is done by worker 2
// while main waits, "2&get" is only begun, and "join:2" waits for it. The verbs:
//   raise:TARGET:TYPE  drain:QP  limit  overrun  complete:CQ    cause an event (acks_scene.h)
//   get[:SLOT]         read an asynchronous event
//   ack[:SLOT]         acknowledge it
//   copy:FROM:TO       move the event to another slot and spoil the place
//   getc               read a completion event
//   ackc:CQ[:NUMBER]   acknowledge completion events
//   batch:CQ:NUMBER    cause and read so many completion events
//   plugin[:SLOT]  pluginack[:SLOT]  pluginc     get, ack and getc by a plug-in loaded with RTLD_DEEPBIND
//   pluginqps          from here on that plug-in makes the QPs
//   make:OBJECT  destroy:OBJECT  finish (destroy all, and close)
//   settle:OBJECT      make it so that, destroyed and made once more, it lies at the same address
//   go                 wait for a byte on standard input
//   sleep:MILLISECONDS  exit  fork (the child does the rest)
//   nonblock           set O_NONBLOCK on the device's descriptor
//   gone               the device is removed (device_gone.c)
// Built with: cc -O1 -g -pthread acks.c acks_scene.c -libverbs

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acks_scene.h"

enum {
	WORKERS = 10,
	SLOTS = 16,
	LONGEST_LIFE = 120, // seconds; for runs whose watcher died
};

struct step {
	char verb[16];
	char first[16];
	char second[16];
};

struct worker {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct step step;
	bool busy;
};

static struct worker workers[WORKERS];
static struct ibv_async_event slots[SLOTS];
static int (*plugin_get)(struct ibv_context *, struct ibv_async_event *);
static int (*plugin_get_cq)(struct ibv_comp_channel *, struct ibv_cq **);
static void (*plugin_ack)(struct ibv_async_event *);
static struct ibv_qp *(*plugin_create_qp)(struct ibv_pd *, struct ibv_qp_init_attr *);

// Which member of the union an event has.
static const char *subject(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		return name_at(event->element.cq);
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return name_at(event->element.qp);
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return name_at(event->element.srq);
	default:
		return "port";
	}
}

static void load_plugin(void)
{
	void *handle = dlopen("./acks_plugin.so", RTLD_NOW | RTLD_DEEPBIND);

	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	REQUIRE(handle);
	plugin_get = (__typeof__(plugin_get))dlsym(handle, "plugin_get");
	plugin_get_cq = (__typeof__(plugin_get_cq))dlsym(handle, "plugin_get_cq");
	plugin_ack = (__typeof__(plugin_ack))dlsym(handle, "plugin_ack");
	plugin_create_qp = (__typeof__(plugin_create_qp))dlsym(handle, "plugin_create_qp");
	REQUIRE(plugin_get && plugin_get_cq && plugin_ack && plugin_create_qp);
}

// How the event was read: by us, or around whatever lies between us and libibverbs.
static void take_event(struct ibv_async_event *event, bool by_plugin)
{
	double before = now();
	int result = by_plugin ? plugin_get(scene.context, event) : ibv_get_async_event(scene.context, event);

	if (result)
		printf("get %s tid %d\n", errno == EIO ? "EIO" : errno == EAGAIN ? "EAGAIN" : "failed", gettid());
	else
		printf("%s %d %s tid %d from %.3f to %.3f\n", by_plugin ? "stole" : "got", event->event_type,
		       subject(event), gettid(), before, now());
}

static void take_completion(bool by_plugin)
{
	double before = now();
	struct ibv_cq *cq;
	void *cookie;

	if (by_plugin)
		REQUIRE(plugin_get_cq(scene.channel, &cq) == 0);
	else
		REQUIRE(ibv_get_cq_event(scene.channel, &cq, &cookie) == 0);
	printf("%s completion %s tid %d from %.3f to %.3f\n", by_plugin ? "stole" : "got", name_at(cq), gettid(),
	       before, now());
}

static void take_batch(const char *cq_name, int number)
{
	double first = 0, last = 0;

	for (int i = 0; i < number; i++) {
		struct ibv_cq *cq;
		void *cookie;

		cause_completion(cq_name);
		REQUIRE(ibv_get_cq_event(scene.channel, &cq, &cookie) == 0);
		last = now();
		first = first ? first : last;
		poll_all(cq_name);
	}
	printf("got %d completions %s tid %d from %.3f to %.3f\n", number, cq_name, gettid(), first, last);
}

static void remove_device(void)
{
	void (*device_gone)(const struct ibv_context *) =
		(__typeof__(device_gone))dlsym(RTLD_DEFAULT, "device_gone");

	REQUIRE(device_gone);
	device_gone(scene.context);
}

static void let_child_do_the_rest(void)
{
	int status;
	pid_t child = fork();

	REQUIRE(child >= 0);
	if (child == 0) {
		printf("child tid %d\n", gettid());
		return;
	}
	REQUIRE(waitpid(child, &status, 0) == child);
	printf("child ended %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
	exit(0);
}

static void perform(const struct step *step)
{
	const char *first = step->first;
	int number = atoi(first);
	int second = atoi(step->second);

#define IS(name) (strcmp(step->verb, name) == 0)
	if (IS("raise")) {
		raise_event(first, second);
	} else if (IS("drain")) {
		drain(first);
	} else if (IS("limit")) {
		reach_srq_limit();
	} else if (IS("overrun")) {
		overrun_cq2();
	} else if (IS("complete")) {
		cause_completion(first);
	} else if (IS("get") || IS("plugin")) {
		take_event(&slots[number], IS("plugin"));
	} else if (IS("ack")) {
		struct ibv_async_event event = slots[number];

		printf("acks %d %s tid %d\n", event.event_type, subject(&event), gettid());
		ibv_ack_async_event(&event);
	} else if (IS("pluginack")) {
		plugin_ack(&slots[number]);
	} else if (IS("pluginqps")) {
		scene.create_qp = plugin_create_qp;
		printf("foreign QPs\n");
	} else if (IS("copy")) {
		slots[second] = slots[number];
		memset(&slots[number], 0xa5, sizeof(slots[number]));
	} else if (IS("getc") || IS("pluginc")) {
		take_completion(IS("pluginc"));
	} else if (IS("batch")) {
		take_batch(first, second);
	} else if (IS("ackc")) {
		printf("acks completion %s number %d tid %d\n", first, second ? second : 1, gettid());
		ibv_ack_cq_events(last_address(first), second ? second : 1);
	} else if (IS("make")) {
		object(first);
	} else if (IS("destroy")) {
		printf("destroying %s tid %d at %.3f\n", first, gettid(), now());
		int result = destroy(first);
		printf("destroyed %s result %d at %.3f\n", first, result, now());
	} else if (IS("settle")) {
		settle(first);
	} else if (IS("finish")) {
		finish();
	} else if (IS("go")) {
		char byte;

		printf("waiting\n");
		REQUIRE(read(STDIN_FILENO, &byte, 1) == 1);
		printf("going on at %.3f\n", now());
	} else if (IS("sleep")) {
		usleep(number * 1000);
	} else if (IS("exit")) {
		printf("exit at %.3f\n", now());
		exit(0);
	} else if (IS("fork")) {
		let_child_do_the_rest();
	} else if (IS("nonblock")) {
		REQUIRE(fcntl(scene.context->async_fd, F_SETFL, O_NONBLOCK) == 0);
	} else if (IS("gone")) {
		remove_device();
	} else {
		REQUIRE(!"a verb of that name");
	}
#undef IS
}

static void *work(void *argument)
{
	struct worker *me = argument;
	char name[32];

	snprintf(name, sizeof(name), "worker%d", (int)(me - workers));
	REQUIRE(pthread_setname_np(pthread_self(), name) == 0);
	printf("%s tid %d\n", name, gettid());
	pthread_mutex_lock(&me->lock);
	for (;;) {
		while (!me->busy)
			pthread_cond_wait(&me->changed, &me->lock);
		pthread_mutex_unlock(&me->lock);
		perform(&me->step);
		pthread_mutex_lock(&me->lock);
		me->busy = false;
		pthread_cond_broadcast(&me->changed);
	}
	return NULL;
}

static void wait_for(struct worker *worker)
{
	pthread_mutex_lock(&worker->lock);
	while (worker->busy)
		pthread_cond_wait(&worker->changed, &worker->lock);
	pthread_mutex_unlock(&worker->lock);
}

// Begins a step on a worker, which is born with its first one.
static struct worker *begin(int number, const struct step *step)
{
	struct worker *worker = &workers[number];

	REQUIRE(number < WORKERS);
	if (!worker->thread) {
		pthread_mutex_init(&worker->lock, NULL);
		pthread_cond_init(&worker->changed, NULL);
		REQUIRE(pthread_create(&worker->thread, NULL, work, worker) == 0);
	}
	wait_for(worker);
	pthread_mutex_lock(&worker->lock);
	worker->step = *step;
	worker->busy = true;
	pthread_cond_broadcast(&worker->changed);
	pthread_mutex_unlock(&worker->lock);
	return worker;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	alarm(LONGEST_LIFE);
	printf("main tid %d\n", gettid());
	scene_open();
	for (int i = 1; i < argc; i++) {
		struct step step = { 0 };
		const char *word = argv[i];
		int worker = 0;
		char how = ':';

		if (sscanf(word, "%d%c", &worker, &how) == 2)
			word = strchr(word, how) + 1;
		REQUIRE(sscanf(word, "%15[^:]:%15[^:]:%15s", step.verb, step.first, step.second) >= 1);
		// Before any step that needs it runs beside others; a plug-in is loaded once.
		if (strncmp(step.verb, "plugin", 6) == 0 && !plugin_get)
			load_plugin();
		if (strcmp(step.verb, "join") == 0) {
			wait_for(&workers[atoi(step.first)]);
		} else if (worker == 0) {
			perform(&step);
		} else {
			struct worker *begun = begin(worker, &step);

			if (how == ':')
				wait_for(begun);
		}
	}
	printf("end at %.3f\n", now());
	return 0;
}
