// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The differential test: the objects that functions are called with.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "differential.h"

struct objects objects;
struct control scripted;
unsigned char buffers[MAX_ARGS][BUFFER_SIZE];

void die(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: %s does not hold\n", file, line, what);
	_exit(3);
}

void say(const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	int length = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	MUST(length >= 0 && (size_t)length < sizeof(text));
	MUST(write(STDOUT_FILENO, text, (size_t)length) == length);
}

void control_open(void)
{
	const char *path = getenv("SCRIPTED_LIBRARY");
	MUST(path);
	void *handle = dlopen(path, RTLD_NOW);
	if (!handle)
		fprintf(stderr, "%s\n", dlerror());
	MUST(handle);

#define FIND(member)                                                                               \
	do {                                                                                       \
		*(void **)&scripted.member = dlsym(handle, "scripted_" #member);                   \
		MUST(scripted.member);                                                             \
	} while (0)
	FIND(reply);
	FIND(output);
	FIND(behave);
	FIND(reset);
	FIND(calls);
	FIND(name);
	FIND(devices);
	FIND(open_around);
	FIND(remove);
	FIND(async);
	FIND(comp);
	FIND(wc);
	FIND(alive);
}

static struct {
	const char *name;
	void *object; // address of the pointer
} const names[] = {
	{ "list", &objects.list },
	{ "device", &objects.device },
	{ "context", &objects.context },
	{ "channel", &objects.channel },
	{ "pd", &objects.pd },
	{ "cq", &objects.cq },
	{ "cq_ex", &objects.cq_ex },
	{ "qp", &objects.qp },
	{ "qp_ex", &objects.qp_ex },
	{ "srq", &objects.srq },
	{ "wq", &objects.wq },
	{ "mr", &objects.mr },
	{ "mw", &objects.mw },
	{ "ah", &objects.ah },
	{ "dm", &objects.dm },
	{ "td", &objects.td },
	{ "xrcd", &objects.xrcd },
	{ "flow", &objects.flow },
	{ "flow_action", &objects.flow_action },
	{ "counters", &objects.counters },
	{ "table", &objects.table },
	{ "null", NULL },
};

#define NAMES (sizeof(names) / sizeof(names[0]) - 1)

const char *object_name(const void *address)
{
	for (size_t i = 0; i < NAMES; i++)
		if (*(void **)names[i].object == address)
			return names[i].name;
	return NULL;
}

void say_int(const char *what, long value)
{
	int err = errno;

	say("%s = %ld errno %d\n", what, value, err);
}

void say_pointer(const char *what, const void *value)
{
	int err = errno;
	const char *name = value ? object_name(value) : "NULL";

	say("%s = %s errno %d\n", what, name ? name : "pointer", err);
}

// Objects that only the inline functions look into, for their context.
static void make_simple(void)
{
#define SIMPLE(member)                                                                             \
	do {                                                                                       \
		objects.member = calloc(1, sizeof(*objects.member));                               \
		MUST(objects.member);                                                              \
		objects.member->context = objects.context;                                         \
	} while (0)
	SIMPLE(mr);
	SIMPLE(mw);
	SIMPLE(ah);
	SIMPLE(td);
	SIMPLE(xrcd);
	SIMPLE(flow);
	SIMPLE(flow_action);
	SIMPLE(counters);
	SIMPLE(table);
	objects.mw->type = IBV_MW_TYPE_1;
	objects.mw->pd = objects.pd;
	objects.mr->pd = objects.pd;
}

static void free_simple(void)
{
	free(objects.mr);
	free(objects.mw);
	free(objects.ah);
	free(objects.td);
	free(objects.xrcd);
	free(objects.flow);
	free(objects.flow_action);
	free(objects.counters);
	free(objects.table);
}

void objects_open(void)
{
	static const char *const argument[MAX_ARGS] = { "arg0", "arg1", "arg2", "arg3",
							 "arg4", "arg5", "arg6", "arg7" };

	// The very first call: a shim looks for the real library now, and nobody may notice.
	errno = UNTOUCHED;
	objects.list = ibv_get_device_list(NULL);
	say_pointer("first call", objects.list);
	MUST(objects.list && objects.list[0]);
	objects.device = objects.list[0];
	objects.context = ibv_open_device(objects.device);
	MUST(objects.context);
	objects.pd = ibv_alloc_pd(objects.context);
	objects.channel = ibv_create_comp_channel(objects.context);
	MUST(objects.pd && objects.channel);
	objects.cq = ibv_create_cq(objects.context, 100, NULL, objects.channel, 0);
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 100 };
	objects.cq_ex = ibv_create_cq_ex(objects.context, &cq_attr);
	MUST(objects.cq && objects.cq_ex);
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	objects.srq = ibv_create_srq(objects.pd, &srq_attr);
	MUST(objects.srq);
	struct ibv_qp_init_attr qp_attr = {
		.send_cq = objects.cq,
		.recv_cq = objects.cq,
		.qp_type = IBV_QPT_RC,
	};
	objects.qp = ibv_create_qp(objects.pd, &qp_attr);
	MUST(objects.qp);
	struct ibv_qp_init_attr_ex qp_ex_attr = {
		.send_cq = objects.cq,
		.recv_cq = objects.cq,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = objects.pd,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(objects.context, &qp_ex_attr);
	MUST(qp);
	objects.qp_ex = ibv_qp_to_qp_ex(qp);
	MUST(objects.qp_ex);
	struct ibv_wq_init_attr wq_attr = {
		.wq_type = IBV_WQT_RQ,
		.pd = objects.pd,
		.cq = objects.cq,
	};
	objects.wq = ibv_create_wq(objects.context, &wq_attr);
	MUST(objects.wq);
	struct ibv_alloc_dm_attr dm_attr = { .length = 64 };
	objects.dm = ibv_alloc_dm(objects.context, &dm_attr);
	MUST(objects.dm);
	make_simple();

	for (size_t i = 0; i < NAMES; i++)
		scripted.name(*(void **)names[i].object, names[i].name);
	for (int i = 0; i < MAX_ARGS; i++)
		scripted.name(buffers[i], argument[i]);
}

void objects_close(void)
{
	// The addresses may come back for something else.
	for (size_t i = 0; i < NAMES; i++)
		scripted.name(*(void **)names[i].object, NULL);
	MUST(!ibv_free_dm(objects.dm));
	MUST(!ibv_destroy_wq(objects.wq));
	MUST(!ibv_destroy_qp(&objects.qp_ex->qp_base));
	MUST(!ibv_destroy_qp(objects.qp));
	MUST(!ibv_destroy_srq(objects.srq));
	MUST(!ibv_destroy_cq((struct ibv_cq *)objects.cq_ex));
	MUST(!ibv_destroy_cq(objects.cq));
	MUST(!ibv_destroy_comp_channel(objects.channel));
	MUST(!ibv_dealloc_pd(objects.pd));
	MUST(!ibv_close_device(objects.context));
	ibv_free_device_list(objects.list);
	free_simple();
	memset(&objects, 0, sizeof(objects));
}

static int pretend_poll(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	(void)cq;
	(void)num_entries;
	(void)wc;
	return 0;
}

void objects_pretend(void)
{
	struct verbs_context *context = calloc(1, sizeof(*context));
	MUST(context);
	context->sz = sizeof(*context);
	context->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	context->context.async_fd = context->context.cmd_fd = -1;
	context->context.ops.poll_cq = pretend_poll;
	objects.context = &context->context;

#define PRETEND(member)                                                                            \
	do {                                                                                       \
		objects.member = calloc(1, sizeof(*objects.member));                               \
		MUST(objects.member);                                                              \
	} while (0)
	PRETEND(device);
	PRETEND(channel);
	PRETEND(pd);
	PRETEND(cq);
	PRETEND(cq_ex);
	PRETEND(qp);
	PRETEND(qp_ex);
	PRETEND(srq);
	PRETEND(wq);
	PRETEND(dm);
	objects.context->device = objects.device;
	objects.channel->context = objects.pd->context = objects.cq->context = objects.context;
	objects.cq_ex->context = objects.qp->context = objects.srq->context = objects.context;
	objects.qp_ex->qp_base.context = objects.wq->context = objects.context;
	objects.dm->context = objects.context;
	make_simple();
	static struct ibv_device *list[2];
	list[0] = objects.device;
	objects.list = list;
}
