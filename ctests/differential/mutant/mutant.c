// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The differential test must be able to fail: this library, preloaded, does one thing wrong. MUTANT
// says which, one for each kind of mistake that a forwarder can make.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/types.h>

struct ibv_comp_channel;
struct ibv_context;
struct ibv_cq;
struct ibv_device;
struct ibv_gid_entry;
struct ibv_mr;
struct ibv_pd;
struct ibv_qp;
struct ibv_qp_attr;
struct ibv_qp_ex;
union ibv_gid;

// A versioned reference is met by a library without versions too.
#define REAL(ret, name, ...)                                                                       \
	ret name(__VA_ARGS__);                                                                     \
	static ret (*real(void))(__VA_ARGS__)                                                      \
	{                                                                                          \
		void *found = dlsym(RTLD_NEXT, #name);                                             \
		if (!found)                                                                        \
			abort();                                                                   \
		return (ret(*)(__VA_ARGS__))found;                                                 \
	}                                                                                          \
	ret name(__VA_ARGS__)

#if MUTANT == 1 // an argument is cut to 32 bits
REAL(struct ibv_mr *, ibv_reg_mr_iova2, struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
     unsigned int access)
{
	return real()(pd, addr, length, (uint32_t)iova, access);
}
#elif MUTANT == 2 // two arguments are swapped
REAL(struct ibv_mr *, ibv_reg_dmabuf_mr, struct ibv_pd *pd, uint64_t offset, size_t length,
     uint64_t iova, int fd, int access)
{
	return real()(pd, iova, length, offset, fd, access);
}
#elif MUTANT == 3 // errno is touched though all went well
REAL(int, ibv_query_gid, struct ibv_context *context, uint8_t port_num, int index,
     union ibv_gid *gid)
{
	int ret = real()(context, port_num, index, gid);

	if (!ret)
		errno = 0;
	return ret;
}
#elif MUTANT == 4 // the result is cut to 32 bits
REAL(ssize_t, _ibv_query_gid_table, struct ibv_context *context, struct ibv_gid_entry *entries,
     size_t max_entries, uint32_t flags, size_t entry_size)
{
	return (int)real()(context, entries, max_entries, flags, entry_size);
}
#elif MUTANT == 5 // the output does not reach the caller
REAL(int, ibv_query_pkey, struct ibv_context *context, uint8_t port_num, int index, uint16_t *pkey)
{
	uint16_t lost[64];

	(void)pkey;
	return real()(context, port_num, index, lost);
}
#elif MUTANT == 6 // one call becomes two
REAL(void, ibv_ack_cq_events, struct ibv_cq *cq, unsigned int nevents)
{
	real()(cq, 0);
	real()(cq, nevents);
}
#elif MUTANT == 7 // an error is translated
REAL(int, ibv_modify_qp, struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
	int ret = real()(qp, attr, attr_mask);

	return ret > 0 ? -ret : ret;
}
#elif MUTANT == 8 // errno of a failure is lost
REAL(struct ibv_context *, ibv_open_device, struct ibv_device *device)
{
	struct ibv_context *context = real()(device);

	if (!context)
		errno = 77;
	return context;
}
#elif MUTANT == 9 // an exported inline function swaps its arguments
#include <infiniband/verbs.h>
void mutant(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
	__asm__("ibv_wr_rdma_write");
void mutant(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
	qp->wr_rdma_write(qp, (uint32_t)remote_addr, rkey);
}
#endif
