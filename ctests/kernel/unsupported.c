// SPDX-License-Identifier: MIT OR Apache-2.0
//
// unsupported [DEVICE]: calls that Soft-RoCE does not serve; prints how each fails.
// Built with: cc unsupported.c -libverbs

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static void tell(const char *call, const void *result)
{
	if (result)
		printf("%s: works\n", call);
	else
		printf("%s: errno %d (%s)\n", call, errno, strerror(errno));
	errno = 0;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "rxe0";
	struct ibv_context *context = NULL;
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (struct ibv_device **device = list; device && *device; device++) {
		if (strcmp(ibv_get_device_name(*device), name) == 0)
			context = ibv_open_device(*device);
	}
	if (!context) {
		fprintf(stderr, "no device %s\n", name);
		return 2;
	}
	ibv_free_device_list(list);

	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);

	if (!pd || !cq)
		return 2;

	struct ibv_wq_init_attr wq_attr = {
		.wq_type = IBV_WQT_RQ,
		.max_wr = 16,
		.max_sge = 1,
		.pd = pd,
		.cq = cq,
	};
	struct ibv_xrcd_init_attr xrcd_attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
	};
	struct ibv_cq_init_attr_ex cq_attr = {
		.cqe = 16,
		.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
	};

	errno = 0;
	tell("ibv_create_wq", ibv_create_wq(context, &wq_attr));
	tell("ibv_open_xrcd", ibv_open_xrcd(context, &xrcd_attr));
	tell("ibv_create_cq_ex with timestamps", ibv_create_cq_ex(context, &cq_attr));
	tell("ibv_import_device", ibv_import_device(context->cmd_fd));
	printf("destroy_cq %d\n", ibv_destroy_cq(cq));
	printf("dealloc_pd %d\n", ibv_dealloc_pd(pd));
	printf("close_device %d\n", ibv_close_device(context));
	return 0;
}
