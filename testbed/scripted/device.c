// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The scripted provider, a test double for libibverbs: devices, contexts and what can be asked
// about them.

#define _GNU_SOURCE
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "internal.h"

static pthread_once_t devices_once = PTHREAD_ONCE_INIT;
static struct ibv_device devices[MAX_DEVICES];
static int device_count = 3;

static void make_devices(void)
{
	const char *wanted = getenv("SCRIPTED_DEVICES");

	for (int i = 0; i < MAX_DEVICES; i++) {
		struct ibv_device *device = &devices[i];

		device->node_type = IBV_NODE_CA;
		device->transport_type = IBV_TRANSPORT_IB;
		if (i == 2)
			snprintf(device->name, sizeof(device->name), "ibsim0");
		else
			snprintf(device->name, sizeof(device->name), "scr%d", i);
		snprintf(device->dev_name, sizeof(device->dev_name), "uverbs%d", i);
		snprintf(device->dev_path, sizeof(device->dev_path),
			 "/sys/class/infiniband_verbs/uverbs%d", i);
		snprintf(device->ibdev_path, sizeof(device->ibdev_path),
			 "/sys/class/infiniband/%s", device->name);
		scripted_name(device, device->name);
	}
	if (wanted)
		scripted_devices(atoi(wanted));
}

void scripted_devices(int count)
{
	if (count < 0 || count > MAX_DEVICES)
		abort();
	device_count = count;
}

int device_number(const struct ibv_device *device)
{
	return (int)(device - devices);
}

static bool is_infiniband(const struct ibv_device *device)
{
	return device_number(device) == 2;
}

// The list is as in libibverbs: an array from malloc with a NULL at the end.
HIDDEN struct ibv_device **behave_ibv_get_device_list(int *num_devices)
{
	pthread_once(&devices_once, make_devices);
	if (num_devices)
		*num_devices = 0;

	struct ibv_device **list = calloc((size_t)device_count + 1, sizeof(*list));
	if (!list)
		return NULL;
	for (int i = 0; i < device_count; i++)
		list[i] = &devices[i];
	if (num_devices)
		*num_devices = device_count;
	scripted_made(list, "list");
	return list;
}

HIDDEN void behave_ibv_free_device_list(struct ibv_device **list)
{
	scripted_unmade(list, "list");
	free(list);
}

HIDDEN const char *behave_ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

HIDDEN int behave_ibv_get_device_index(struct ibv_device *device)
{
	return device_number(device) + 1;
}

HIDDEN uint64_t behave_ibv_get_device_guid(struct ibv_device *device)
{
	const char *given = getenv("SCRIPTED_IBSIM_GUID");

	if (is_infiniband(device) && given)
		return htobe64(strtoull(given, NULL, 16));
	return htobe64(0x5c12000000000000ULL + (uint64_t)device_number(device) + 1);
}

// ---- contexts -------------------------------------------------------------------------------

static struct ibv_context *open_context(struct ibv_device *device)
{
	struct context *context = calloc(1, sizeof(*context));

	if (!context)
		return NULL;

	struct ibv_context *ctx = &context->vctx.context;
	ctx->async_fd = queue_open(&context->async);
	// A character device, as /dev/infiniband/uverbsN is.
	ctx->cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (ctx->async_fd < 0 || ctx->cmd_fd < 0) {
		free(context);
		return NULL;
	}
	ctx->device = device;
	ctx->num_comp_vectors = 4;
	ctx->abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&ctx->mutex, NULL);
	context->vctx.sz = sizeof(context->vctx);
	scripted_fill_ops(&ctx->ops);
	scripted_fill_vctx(&context->vctx);
	ctx->ops.poll_cq = poll_functions[device_number(device)];
	scripted_made(ctx, "Context");
	return ctx;
}

HIDDEN struct ibv_context *behave_ibv_open_device(struct ibv_device *device)
{
	return open_context(device);
}

struct ibv_context *scripted_open_around(struct ibv_device *device)
{
	return open_context(device);
}

// As in libibverbs the public functions are called, through the PLT: a preloaded library sees it.
HIDDEN struct ibv_context *behave_ibv_import_device(int cmd_fd)
{
	struct ibv_context *context = NULL;
	struct stat stat;

	if (fstat(cmd_fd, &stat) || !S_ISCHR(stat.st_mode)) {
		errno = EINVAL;
		return NULL;
	}
	struct ibv_device **list = ibv_get_device_list(NULL);
	if (!list || !list[0])
		errno = ENODEV;
	else
		context = open_context(list[0]);
	if (list)
		ibv_free_device_list(list);
	return context;
}

HIDDEN int behave_ibv_close_device(struct ibv_context *ctx)
{
	struct context *context = context_of(ctx);

	close(ctx->cmd_fd);
	close(ctx->async_fd);
	queue_close(&context->async);
	pthread_mutex_destroy(&ctx->mutex);
	scripted_unmade(ctx, "Context");
	free(context);
	return 0;
}

// The pipe without a writer is at its end: a reader that waits comes back at once.
void scripted_remove(struct ibv_context *ctx)
{
	struct context *context = context_of(ctx);

	atomic_store(&context->gone, true);
	pthread_mutex_lock(&context->async.lock);
	if (context->async.write_fd >= 0)
		close(context->async.write_fd);
	context->async.write_fd = -1;
	pthread_mutex_unlock(&context->async.lock);
}

int destroy_when_gone(void)
{
	return getenv("RDMAV_ALLOW_DISASSOC_DESTROY") ? 0 : EIO;
}

// ---- questions ------------------------------------------------------------------------------

static void fill_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	strcpy(attr->fw_ver, "scripted");
	attr->node_guid = behave_ibv_get_device_guid(context->device);
	attr->sys_image_guid = attr->node_guid;
	attr->max_mr_size = UINT64_MAX;
	attr->max_qp = attr->max_cq = attr->max_mr = attr->max_pd = attr->max_srq = 1 << 16;
	attr->max_qp_wr = attr->max_cqe = attr->max_srq_wr = 1 << 14;
	attr->max_sge = attr->max_srq_sge = 32;
	attr->max_pkeys = 1;
	attr->phys_port_cnt = 1;
}

HIDDEN int behave_ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	if (is_gone(context))
		return EIO;
	fill_device(context, attr);
	return 0;
}

HIDDEN int behave_vctx_query_device_ex(struct ibv_context *context,
				       const struct ibv_query_device_ex_input *input,
				       struct ibv_device_attr_ex *attr, size_t size)
{
	(void)input;
	if (is_gone(context))
		return EIO;
	memset(attr, 0, size);
	fill_device(context, &attr->orig_attr);
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	bool infiniband = is_infiniband(context->device);

	memset(attr, 0, sizeof(*attr));
	if (is_gone(context))
		return EIO;
	if (port != 1)
		return EINVAL;
	attr->state = IBV_PORT_ACTIVE;
	attr->max_mtu = IBV_MTU_4096;
	attr->active_mtu = infiniband ? IBV_MTU_4096 : IBV_MTU_1024;
	attr->gid_tbl_len = 1;
	attr->max_msg_sz = 1U << 31;
	attr->pkey_tbl_len = 1;
	attr->lid = infiniband ? 4 : 0;
	attr->sm_lid = infiniband ? 1 : 0;
	attr->active_width = 2;
	attr->active_speed = 32;
	attr->phys_state = 5;
	attr->link_layer = infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
	return 0;
}

// The exported function fills the short structure that it had before port_cap_flags2 came.
HIDDEN int behave_ibv_query_port(struct ibv_context *context, uint8_t port,
				 struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr full;
	int ret = query_port(context, port, &full);

	if (!ret)
		memcpy(attr, &full, offsetof(struct ibv_port_attr, port_cap_flags2));
	return ret;
}

HIDDEN int behave_vctx_query_port(struct ibv_context *context, uint8_t port,
				  struct ibv_port_attr *attr, size_t size)
{
	struct ibv_port_attr full;
	int ret = query_port(context, port, &full);

	if (!ret)
		memcpy(attr, &full, size < sizeof(full) ? size : sizeof(full));
	return ret;
}

HIDDEN int behave_ibv_query_gid(struct ibv_context *context, uint8_t port, int index,
				union ibv_gid *gid)
{
	if (is_gone(context))
		return -1;
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	gid->global.subnet_prefix = htobe64(0xfe80000000000000ULL);
	gid->global.interface_id = behave_ibv_get_device_guid(context->device);
	return 0;
}

HIDDEN int behave_ibv_query_pkey(struct ibv_context *context, uint8_t port, int index,
				 uint16_t *pkey)
{
	if (is_gone(context))
		return -1;
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(0xffff);
	return 0;
}
