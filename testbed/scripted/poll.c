// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The scripted provider, a test double for libibverbs: completions, polled the old way and through
// extended CQs.

#include <stdlib.h>
#include <string.h>

#include "internal.h"

// One poll function for each device, as if each had a provider of its own. The constant keeps them
// from being folded into one.
#define POLL(n)                                                                                    \
	static int poll_##n(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)                \
	{                                                                                          \
		return poll_any(n, cq, num_entries, wc);                                          \
	}

POLL(0) POLL(1) POLL(2) POLL(3) POLL(4) POLL(5) POLL(6) POLL(7)
POLL(8) POLL(9) POLL(10) POLL(11) POLL(12) POLL(13) POLL(14) POLL(15)
POLL(16) POLL(17) POLL(18) POLL(19) POLL(20) POLL(21) POLL(22) POLL(23)

poll_function *const poll_functions[MAX_DEVICES] = {
	poll_0,  poll_1,  poll_2,  poll_3,  poll_4,  poll_5,  poll_6,  poll_7,
	poll_8,  poll_9,  poll_10, poll_11, poll_12, poll_13, poll_14, poll_15,
	poll_16, poll_17, poll_18, poll_19, poll_20, poll_21, poll_22, poll_23,
};

// The stub of ops.poll_cq, made from the symbol table.
HIDDEN int scripted_ops_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);

int poll_any(int device, struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	// A CQ that reaches another device's function was mixed up on the way.
	if (device_number(cq->context->device) != device)
		abort();
	return scripted_ops_poll_cq(cq, num_entries, wc);
}

int scripted_wc(struct ibv_cq *ibv_cq, const struct ibv_wc *wc, int n)
{
	struct cq *cq = (struct cq *)ibv_cq;

	pthread_mutex_lock(&cq->wc_lock);
	int count = atomic_load(&cq->wc_count);
	if (count + n > cq->wc_room) {
		int room = 2 * (count + n);
		struct ibv_wc *more = realloc(cq->wcs, (size_t)room * sizeof(*more));

		if (!more) {
			pthread_mutex_unlock(&cq->wc_lock);
			return -1;
		}
		cq->wcs = more;
		cq->wc_room = room;
	}
	memcpy(&cq->wcs[count], wc, (size_t)n * sizeof(*wc));
	atomic_store(&cq->wc_count, count + n);
	pthread_mutex_unlock(&cq->wc_lock);
	return 0;
}

HIDDEN int behave_ops_poll_cq(struct ibv_cq *ibv_cq, int num_entries, struct ibv_wc *wc)
{
	struct cq *cq = (struct cq *)ibv_cq;

	if (!atomic_load_explicit(&cq->wc_count, memory_order_acquire))
		return 0;

	pthread_mutex_lock(&cq->wc_lock);
	int count = atomic_load(&cq->wc_count);
	int n = num_entries < count ? num_entries : count;
	if (n > 0) {
		memcpy(wc, cq->wcs, (size_t)n * sizeof(*wc));
		memmove(cq->wcs, &cq->wcs[n], (size_t)(count - n) * sizeof(*wc));
		atomic_store(&cq->wc_count, count - n);
	} else {
		n = 0;
	}
	pthread_mutex_unlock(&cq->wc_lock);
	return n;
}

void poll_init(struct cq *cq)
{
	pthread_mutex_init(&cq->wc_lock, NULL);
}

void poll_fini(struct cq *cq)
{
	pthread_mutex_destroy(&cq->wc_lock);
	free(cq->wcs);
}

// ---- extended CQs ---------------------------------------------------------------------------

static int take_one(struct ibv_cq_ex *ex)
{
	struct cq *cq = (struct cq *)ex;

	if (!behave_ops_poll_cq((struct ibv_cq *)ex, 1, &cq->current))
		return ENOENT;
	ex->status = cq->current.status;
	ex->wr_id = cq->current.wr_id;
	return 0;
}

HIDDEN int behave_cq_ex_start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	return attr->comp_mask ? EINVAL : take_one(cq);
}

HIDDEN int behave_cq_ex_next_poll(struct ibv_cq_ex *cq)
{
	return take_one(cq);
}

HIDDEN void behave_cq_ex_end_poll(struct ibv_cq_ex *cq)
{
	memset(&((struct cq *)cq)->current, 0, sizeof(struct ibv_wc));
}

#define READER(type, name, member)                                                                 \
	HIDDEN type behave_cq_ex_read_##name(struct ibv_cq_ex *cq)                                 \
	{                                                                                          \
		return (type)((struct cq *)cq)->current.member;                                   \
	}

READER(unsigned int, opcode, opcode)
READER(uint32_t, vendor_err, vendor_err)
READER(uint32_t, byte_len, byte_len)
READER(uint32_t, imm_data, imm_data)
READER(uint32_t, qp_num, qp_num)
READER(uint32_t, src_qp, src_qp)
READER(unsigned int, wc_flags, wc_flags)
READER(uint32_t, slid, slid)
READER(uint8_t, sl, sl)
READER(uint8_t, dlid_path_bits, dlid_path_bits)
