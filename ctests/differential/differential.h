/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The differential test: one program that calls every function of libibverbs, run with the scripted
 * provider alone and then through libibv_sa. What it prints must be the same to the byte.
 *
 *   differential.c   made from the symbol table: how to call each function
 *   run.c            calls each one with every answer that a provider may give
 *   objects.c        the objects that are passed, and their names in the trace
 *   threads.c        calls all of them at once
 *   events.c, polls.c, contexts.c   what functions do together
 */
#ifndef DIFFERENTIAL_H
#define DIFFERENTIAL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <infiniband/verbs.h>

/* errno before every call; no function sets it to this by itself. */
#define UNTOUCHED 77

#define MAX_ARGS 8
#define BUFFER_SIZE 4096

enum ret { RET_VOID, RET_INT, RET_LONG, RET_UNSIGNED, RET_STRING, RET_POINTER };

/* What a caller sees when the installed library lacks the function. */
enum absent {
	ABSENT_NULL,
	ABSENT_ERRNO,
	ABSENT_MINUS1,
	ABSENT_NEGATED,
	ABSENT_ZERO,
	ABSENT_UNKNOWN,
	ABSENT_VOID,
};

struct result {
	long value;
	int err;
};

struct function {
	const char *name;
	const char *node;
	void (*call)(struct result *result);
	enum ret ret;
	size_t ret_size;      /* RET_UNSIGNED: the width */
	const char *scripted; /* its name in the scripted provider; NULL: no provider is asked */
	size_t member;        /* where in verbs_context the inline function looks; 0: nowhere */
	bool in_ops;          /* that is in the old table, which has no size */
	void *success;        /* RET_POINTER: address of the pointer to answer; NULL: made up */
	void **pointer;       /* not in libibverbs: the variable that the call goes through */
	bool ours_alone;      /* the header has no such function either */
	unsigned int buffers; /* bit N: argument N is buffers[N] */
	unsigned int outputs; /* bit N: and the function writes to it */
	int cq_output;        /* argument that receives a CQ; 0: none */
	enum absent absent;
};

extern const struct function functions[];
extern const unsigned int function_count;

struct objects {
	struct ibv_device **list;
	struct ibv_device *device;
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_cq_ex *cq_ex;
	struct ibv_qp *qp;
	struct ibv_qp_ex *qp_ex;
	struct ibv_srq *srq;
	struct ibv_wq *wq;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_ah *ah;
	struct ibv_dm *dm;
	struct ibv_td *td;
	struct ibv_xrcd *xrcd;
	struct ibv_flow *flow;
	struct ibv_flow_action *flow_action;
	struct ibv_counters *counters;
	struct ibv_rwq_ind_table *table;
};

extern struct objects objects;
extern unsigned char buffers[MAX_ARGS][BUFFER_SIZE];

/* Real ones, from the provider. */
void objects_open(void);
void objects_close(void);
/* Memory that looks like them, for when there is no provider. */
void objects_pretend(void);
const char *object_name(const void *address);

/* Writes to the trace at once: the provider writes there as well. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

/* Says WHAT, the value and errno. */
void say_int(const char *what, long value);
void say_pointer(const char *what, const void *value);

/* The program ends if what must hold does not. */
#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			die(#condition, __FILE__, __LINE__);                                       \
	} while (0)
__attribute__((noreturn)) void die(const char *what, const char *file, int line);

/* The scripted provider's control functions, found in its own handle: the program is not always
 * linked with it. */
struct control {
	void (*reply)(const char *function, long value, int err);
	void (*output)(const char *function, int argument, const void *bytes, size_t size);
	void (*behave)(const char *function);
	void (*reset)(void);
	unsigned long (*calls)(const char *function);
	void (*name)(const void *address, const char *name);
	void (*devices)(int count);
	struct ibv_context *(*open_around)(struct ibv_device *device);
	void (*remove)(struct ibv_context *context);
	int (*async)(struct ibv_context *context, int type, void *element);
	int (*comp)(struct ibv_comp_channel *channel, struct ibv_cq *cq);
	int (*wc)(struct ibv_cq *cq, const struct ibv_wc *wc, int n);
	int (*alive)(void);
};

extern struct control scripted;
void control_open(void);

void run_all(void);
int run_absent(const char *until);
void run_threads(void);
void use_exported(unsigned int *own, unsigned int *inlines);

void scenario_events(void);
void scenario_completions(void);
void scenario_polls(void);
void scenario_extended(void);
void scenario_contexts(void);

/* An inline function of the header, or the symbol that libibv_sa offers in its place. */
#define OFFERED(function) ((__typeof__(&function))offered(#function))
void *offered(const char *name);

#endif
