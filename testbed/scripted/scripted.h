/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The control side of the scripted provider: a test double that stands in for libibverbs.so.1.
 * There is no device behind it. Every libibverbs function exists, records its call and answers as
 * told; devices, contexts, events, completions and destroys behave as libibverbs's do.
 *
 * A program that is linked with the provider calls these functions directly. One that is not (it is
 * linked with libibv_sa, say) finds them with dlsym in the provider's own handle.
 *
 * Environment:
 *   SCRIPTED_TRACE=FILE or fd:N   one line for each call, with its arguments
 *   SCRIPTED_IBSIM_GUID=HEX       node GUID of the device ibsim0
 *   SCRIPTED_DEVICES=N            how many devices there are (3 unless told, at most 24)
 *   RDMAV_ALLOW_DISASSOC_DESTROY  as in libibverbs: destroys on a removed device succeed
 *
 * Devices: scr0 and scr1 (Ethernet), ibsim0 (InfiniBand), then scr3, scr4 and so on (Ethernet).
 * Each has its own ops.poll_cq, as if each came from another provider.
 */
#ifndef SCRIPTED_H
#define SCRIPTED_H

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what functions answer ------------------------------------------------------------------
 *
 * A function is named as it is exported ("ibv_create_cq"), and an entry of an ops table as
 * "ops.poll_cq", "vctx.create_cq_ex", "cq_ex.start_poll", "qp_ex.wr_start", "wq.post_recv" or
 * "dm.memcpy_to_dm". Told to answer, it does nothing else: no object is made, nothing is waited for.
 * An unknown name ends the program, because a test that misspells one would prove nothing.
 */

/* From now on return value; errno is set to err first unless err is 0. */
void scripted_reply(const char *function, long value, int err);

/* A function that was told to answer also copies these bytes (at most 64) to where its argument
 * (0 is the first) points. */
void scripted_output(const char *function, int argument, const void *bytes, size_t size);

/* From now on the function takes so long before it does or answers anything, as a device may. */
void scripted_delay(const char *function, int milliseconds);

/* Behave again: one function, or all of them, and forget the counts too. */
void scripted_behave(const char *function);
void scripted_reset(void);

/* Calls since the start or the last reset. */
unsigned long scripted_calls(const char *function);

/* In the trace this address is shown by this name (kept by pointer). Objects that the provider
 * makes have names already. Other addresses are shown as "ptr". NULL takes the name away. */
void scripted_name(const void *address, const char *name);

/* ---- devices and contexts ------------------------------------------------------------------ */

/* How many devices ibv_get_device_list gives from now on, 0 to 24. */
void scripted_devices(int count);

/* Opens a device as a provider's own call does (mlx5dv_open_device): not by ibv_open_device. */
struct ibv_context *scripted_open_around(struct ibv_device *device);

/* The device is gone. What was queued can still be read; then a get fails with EIO (EAGAIN on a
 * descriptor with O_NONBLOCK), and so does everything else that would ask the kernel: destroys
 * return EIO at once, wait for nothing and free nothing. */
void scripted_remove(struct ibv_context *context);

/* ---- events and completions ----------------------------------------------------------------
 *
 * As in the kernel an event counts against its object from the moment it is queued; a destroy takes
 * back what nobody has read, and waits until the rest is acked.
 */

/* Queues an asynchronous event: element is the object, or the port number cast to a pointer. 0, or
 * -1 with errno (EAGAIN: the queue is full). */
int scripted_async(struct ibv_context *context, int type, void *element);

/* Queues a completion event of the CQ; the channel must be the CQ's own for the books to match. */
int scripted_comp(struct ibv_comp_channel *channel, struct ibv_cq *cq);

/* Queues n completions for ibv_poll_cq and ibv_start_poll. 0, or -1 with ENOMEM. */
int scripted_wc(struct ibv_cq *cq, const struct ibv_wc *wc, int n);

/* How many live objects the provider made and nobody destroyed yet: contexts, channels, CQs, QPs,
 * SRQs, WQs together. */
int scripted_alive(void);

#ifdef __cplusplus
}
#endif

#endif
