// SPDX-License-Identifier: MIT OR Apache-2.0
//
// A plug-in that reads and acknowledges events and makes QPs for its host. Loaded with RTLD_DEEPBIND it finds
// libibverbs before any preload, so that what lies between the host and libibverbs does not see these calls.
// Built with: cc -shared -fPIC acks_plugin.c -libverbs

#include <infiniband/verbs.h>

int plugin_get(struct ibv_context *context, struct ibv_async_event *event);
int plugin_get_cq(struct ibv_comp_channel *channel, struct ibv_cq **cq);
void plugin_ack(struct ibv_async_event *event);
struct ibv_qp *plugin_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);

int plugin_get(struct ibv_context *context, struct ibv_async_event *event)
{
	return ibv_get_async_event(context, event);
}

int plugin_get_cq(struct ibv_comp_channel *channel, struct ibv_cq **cq)
{
	void *cookie;

	return ibv_get_cq_event(channel, cq, &cookie);
}

void plugin_ack(struct ibv_async_event *event)
{
	ibv_ack_async_event(event);
}

struct ibv_qp *plugin_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return ibv_create_qp(pd, attr);
}
