/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the files of the scripted provider (a test double for libibverbs) share.
 *
 * How a call runs: stub, made from the symbol table -> scripted_called() counts, traces, and answers
 * if it was told to -> behave_NAME(), written by hand, or a weak default made from the table.
 */
#ifndef SCRIPTED_INTERNAL_H
#define SCRIPTED_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "scripted.h"

/* The stubs have the versions, see the version script; nothing else leaves the library. */
#define HIDDEN __attribute__((visibility("hidden")))

/* ---- calls --------------------------------------------------------------------------------- */

struct scripted_arg {
	uint64_t value;
	unsigned int size;  /* bytes of the argument's type: an integer is shown in that width */
	bool pointer;
};

struct scripted_function {
	const char *name;
	atomic_ulong calls;
	atomic_bool told;
	atomic_int delay_ms;
	long value;
	int err;
	int output_argument;
	size_t output_size;
	unsigned char output[64];
};

/* Both made from the symbol table. */
HIDDEN extern struct scripted_function scripted_functions[];
HIDDEN extern const unsigned int scripted_function_count;

/* True: return *value to the caller. */
HIDDEN bool scripted_called(struct scripted_function *function, const struct scripted_arg *args,
			    int nargs, long *value);

/* Names an object "kind N" for the trace, with the next N of its kind. */
HIDDEN void scripted_made(const void *object, const char *kind);
HIDDEN void scripted_unmade(const void *object, const char *kind);

/* ---- event queues -------------------------------------------------------------------------- */

/* A pipe. The reader's end is the program's to use; drain_fd is a second, non-blocking way to the
 * same pipe, so that a destroy can take events back without touching the program's flags. */
struct queue {
	pthread_mutex_t lock;
	int write_fd;
	int drain_fd;
};

/* The reader's end, or -1 with errno. */
HIDDEN int queue_open(struct queue *queue);
HIDDEN void queue_close(struct queue *queue);

struct async_record {
	uint64_t element;
	uint32_t event_type;
	uint32_t reserved;
};

struct comp_record {
	uint64_t cq;
};

/* Take back the unread events of one object; how many they were. */
HIDDEN uint32_t queue_take_async(struct queue *queue, const void *element);
HIDDEN uint32_t queue_take_comp(struct queue *queue, const struct ibv_cq *cq);

/* ---- objects ------------------------------------------------------------------------------- */

#define MAX_DEVICES 24

struct context {
	struct queue async;
	atomic_bool gone;
	struct verbs_context vctx; /* as libibverbs: the extended part lies before ibv_context */
};

struct channel {
	struct ibv_comp_channel channel; /* must be first, as in the structures below */
	struct queue queue;
};

struct cq {
	struct ibv_cq_ex cq; /* begins with the members of ibv_cq */
	bool extended;
	uint32_t comp_sent;
	uint32_t async_sent;
	pthread_mutex_t wc_lock;
	struct ibv_wc *wcs;
	atomic_int wc_count;
	int wc_room;
	struct ibv_wc current; /* the one that the readers of an extended CQ read */
};

struct qp {
	struct ibv_qp_ex qp;
	bool extended;
	struct ibv_qp_init_attr init;
	uint32_t sent;
};

struct srq {
	struct ibv_srq srq;
	uint32_t sent;
};

struct wq {
	struct ibv_wq wq;
	uint32_t sent;
};

static inline struct context *context_of(struct ibv_context *context)
{
	return (struct context *)((char *)context - offsetof(struct context, vctx.context));
}

/* The device was removed: errno is EIO. */
static inline bool is_gone(struct ibv_context *context)
{
	if (!atomic_load(&context_of(context)->gone))
		return false;
	errno = EIO;
	return true;
}

/* What a destroy on a removed device returns: EIO, or 0 when the user asked for that. */
HIDDEN int destroy_when_gone(void);

HIDDEN int poll_any(int device, struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
HIDDEN void poll_init(struct cq *cq);
HIDDEN void poll_fini(struct cq *cq);
HIDDEN int device_number(const struct ibv_device *device);
typedef int poll_function(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
HIDDEN extern poll_function *const poll_functions[MAX_DEVICES];

/* Made from the symbol table: fill the tables with the stubs. */
HIDDEN void scripted_fill_ops(struct ibv_context_ops *ops);
HIDDEN void scripted_fill_vctx(struct verbs_context *vctx);
HIDDEN void scripted_fill_cq_ex(struct ibv_cq_ex *cq);
HIDDEN void scripted_fill_qp_ex(struct ibv_qp_ex *qp);
HIDDEN void scripted_fill_wq(struct ibv_wq *wq);
HIDDEN void scripted_fill_dm(struct ibv_dm *dm);

#endif
