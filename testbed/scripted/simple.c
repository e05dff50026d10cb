// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The scripted provider, a test double for libibverbs: objects that are only made and freed, and
// the strings.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static atomic_uint next_key = 0x100;

static int unmake(void *object, const char *kind)
{
	scripted_unmade(object, kind);
	free(object);
	return 0;
}

// A zeroed object with its context set, or NULL with errno.
#define MAKE(type, kind, ctx)                                                                      \
	({                                                                                         \
		struct type *made_ = is_gone(ctx) ? NULL : calloc(1, sizeof(*made_));              \
		if (made_) {                                                                       \
			made_->context = (ctx);                                                    \
			scripted_made(made_, kind);                                                \
		}                                                                                  \
		made_;                                                                             \
	})

HIDDEN struct ibv_pd *behave_ibv_alloc_pd(struct ibv_context *context)
{
	return MAKE(ibv_pd, "pd", context);
}

HIDDEN struct ibv_pd *behave_vctx_alloc_parent_domain(struct ibv_context *context,
						      struct ibv_parent_domain_init_attr *attr)
{
	(void)attr;
	return MAKE(ibv_pd, "pd", context);
}

HIDDEN int behave_ibv_dealloc_pd(struct ibv_pd *pd)
{
	return is_gone(pd->context) && destroy_when_gone() ? EIO : unmake(pd, "pd");
}

static struct ibv_mr *new_mr(struct ibv_pd *pd, void *addr, size_t length)
{
	struct ibv_mr *mr = MAKE(ibv_mr, "mr", pd->context);

	if (mr) {
		mr->pd = pd;
		mr->addr = addr;
		mr->length = length;
		mr->lkey = mr->rkey = atomic_fetch_add(&next_key, 1);
	}
	return mr;
}

HIDDEN struct ibv_mr *behave_ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	(void)access;
	return new_mr(pd, addr, length);
}

HIDDEN struct ibv_mr *behave_ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
					      uint64_t iova, unsigned int access)
{
	(void)iova;
	(void)access;
	return new_mr(pd, addr, length);
}

HIDDEN int behave_ibv_dereg_mr(struct ibv_mr *mr)
{
	return is_gone(mr->context) && destroy_when_gone() ? EIO : unmake(mr, "mr");
}

HIDDEN struct ibv_ah *behave_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	(void)attr;
	struct ibv_ah *ah = MAKE(ibv_ah, "ah", pd->context);

	if (ah)
		ah->pd = pd;
	return ah;
}

HIDDEN int behave_ibv_destroy_ah(struct ibv_ah *ah)
{
	return is_gone(ah->context) && destroy_when_gone() ? EIO : unmake(ah, "ah");
}

HIDDEN struct ibv_mw *behave_ops_alloc_mw(struct ibv_pd *pd, unsigned int type)
{
	struct ibv_mw *mw = MAKE(ibv_mw, "mw", pd->context);

	if (mw) {
		mw->pd = pd;
		mw->type = type;
		mw->rkey = atomic_fetch_add(&next_key, 1);
	}
	return mw;
}

HIDDEN int behave_ops_dealloc_mw(struct ibv_mw *mw)
{
	return is_gone(mw->context) && destroy_when_gone() ? EIO : unmake(mw, "mw");
}

HIDDEN struct ibv_xrcd *behave_vctx_open_xrcd(struct ibv_context *context,
					      struct ibv_xrcd_init_attr *attr)
{
	(void)attr;
	return MAKE(ibv_xrcd, "xrcd", context);
}

HIDDEN int behave_vctx_close_xrcd(struct ibv_xrcd *xrcd)
{
	return unmake(xrcd, "xrcd");
}

HIDDEN struct ibv_dm *behave_vctx_alloc_dm(struct ibv_context *context,
					   struct ibv_alloc_dm_attr *attr)
{
	(void)attr;
	struct ibv_dm *dm = MAKE(ibv_dm, "dm", context);

	if (dm)
		scripted_fill_dm(dm);
	return dm;
}

HIDDEN int behave_vctx_free_dm(struct ibv_dm *dm)
{
	return unmake(dm, "dm");
}

// Libibverbs's texts are not repeated here: a number is enough to compare.
#define STRING(name, values)                                                                       \
	HIDDEN const char *behave_ibv_##name##_str(unsigned int value)                             \
	{                                                                                          \
		static char texts[values][32];                                                     \
		unsigned int i = value < (values) ? value : (values) - 1;                          \
		snprintf(texts[i], sizeof(texts[i]), #name " %u", i);                              \
		return texts[i];                                                                   \
	}

STRING(event_type, 64)
STRING(wc_status, 64)
STRING(port_state, 16)

HIDDEN const char *behave_ibv_node_type_str(int value)
{
	return value == IBV_NODE_CA ? "node_type CA" : "node_type other";
}
