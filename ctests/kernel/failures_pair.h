/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Two connected QPs of one process, a and b, as the program failures wants them.
 */
#ifndef FAILURES_PAIR_H
#define FAILURES_PAIR_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct wants {
	uint32_t receive_length;
	int a_cqe; /* 0: room for all */
	bool unsignalled;
	bool receive_key_is_wrong;
	bool extended;
	bool srq;
};

struct pair {
	struct wants wants;
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *a_cq;
	struct ibv_cq *b_cq;
	struct ibv_srq *srq; /* b's, if it has one */
	struct ibv_qp *a;
	struct ibv_qp *b;
	uint32_t a_num;
	uint32_t b_num;
	char *memory;
};

/* Opens the device, connects the two and prints who they are. */
void pair_open(struct pair *pair, const char *device, int gid_index);
void pair_close(struct pair *pair);

#endif
