/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The objects that acks.c works on, each under a short name and made when it is first named.
 */
#ifndef ACKS_SCENE_H
#define ACKS_SCENE_H

#include <infiniband/verbs.h>
#include <stddef.h>

#include "require.h"

struct scene {
	struct ibv_context *context;
	struct ibv_comp_channel *channel;
	// Who makes QPs: ibv_create_qp() or the plug-in's.
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
};

extern struct scene scene;

// Seconds of CLOCK_MONOTONIC, which the library under test counts by too.
double now(void);

void scene_open(void);
// By name: qp0 to qp8, cq0 and cq1 (on one channel), cq2 (too small), srq0. QP n completes on CQ n % 2.
void *object(const char *name);
// The name of what is at that address, or was last, or "?"; and the other way round.
const char *name_at(const void *address);
void *last_address(const char *name);
// Destroys the object; 0 or an error number, as from libibverbs.
int destroy(const char *name);
// Makes an object and destroys it, again and again, until a new one lies where the last one lay: malloc(3) will then
// do so with the next one too.
void settle(const char *name);

// What brings events about. `raise_event` asks the kernel module evinject; `target` is an object's name, port or dev.
void raise_event(const char *target, int type);
void drain(const char *qp);
void reach_srq_limit(void);
void overrun_cq2(void);
void cause_completion(const char *cq);
void poll_all(const char *cq);

// Destroys what is left and closes the device; prints what failed.
void finish(void);

#endif
