// SPDX-License-Identifier: MIT OR Apache-2.0
//
// The differential test: where contexts come from, and the inline functions that do more than jump.

#include <string.h>

#include "differential.h"

static void devices(void)
{
	int n = -1;

	for (int count = 0; count <= 3; count += 3) {
		scripted.devices(count);
		errno = UNTOUCHED;
		struct ibv_device **list = ibv_get_device_list(&n);
		say_pointer("list", list);
		say(" %d devices\n", n);
		for (int i = 0; i < n; i++) {
			say(" %s\n", ibv_get_device_name(list[i]));
			say(" index %d\n", ibv_get_device_index(list[i]));
			say(" guid %016llx\n", (unsigned long long)ibv_get_device_guid(list[i]));
		}
		ibv_free_device_list(list);
	}

	// Twenty opens of one device, closed in another order.
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *contexts[20];
	for (int i = 0; i < 20; i++)
		contexts[i] = ibv_open_device(list[2]);
	ibv_free_device_list(list);
	for (int i = 0; i < 20; i++) {
		errno = UNTOUCHED;
		say_int("close", ibv_close_device(contexts[i * 7 % 20]));
	}
}

static void ports(struct ibv_context *context)
{
	struct ibv_port_attr attr;
	union ibv_gid gid;
	__be16 pkey = 0;

	for (int port = 0; port < 3; port++) {
		memset(&attr, 0xee, sizeof(attr));
		errno = UNTOUCHED;
		say_int("query_port", ibv_query_port(context, (uint8_t)port, &attr));
		say(" state %d lid %d layer %d flags 0x%x\n", attr.state, attr.lid, attr.link_layer,
		    attr.port_cap_flags2);
		// The exported one knows the shorter structure only.
		memset(&attr, 0xee, sizeof(attr));
		errno = UNTOUCHED;
		say_int("query_port", (ibv_query_port)(context, (uint8_t)port,
						       (struct _compat_ibv_port_attr *)&attr));
		say(" state %d lid %d layer %d flags 0x%x\n", attr.state, attr.lid, attr.link_layer,
		    attr.port_cap_flags2);
		errno = UNTOUCHED;
		say_int("query_gid", ibv_query_gid(context, (uint8_t)port, 0, &gid));
		errno = UNTOUCHED;
		say_int("query_pkey", ibv_query_pkey(context, (uint8_t)port, 0, &pkey));
	}

	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_device_attr_ex device;
	memset(&device, 0xee, sizeof(device));
	errno = UNTOUCHED;
	say_int("query_device_ex", OFFERED(ibv_query_device_ex)(context, &input, &device));
	say(" max_qp %d\n", device.orig_attr.max_qp);
	say_int("query_device_ex", OFFERED(ibv_query_device_ex)(context, NULL, &device));
	say(" max_qp %d mask %u\n", device.orig_attr.max_qp, device.comp_mask);
	memset(&device, 0xee, sizeof(device));
	scripted.reply("vctx.query_device_ex", ENOSYS, 0);
	say_int("query_device_ex", OFFERED(ibv_query_device_ex)(context, NULL, &device));
	say(" max_qp %d mask %u\n", device.orig_attr.max_qp, device.comp_mask);
	scripted.behave("vctx.query_device_ex");
}

// The plain functions are used where the attributes ask for no more.
static void plain_or_extended(struct ibv_context *context)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);

	for (int mask = 0; mask < 4; mask++) {
		struct ibv_qp_init_attr_ex attr = {
			.send_cq = cq,
			.recv_cq = cq,
			.qp_type = IBV_QPT_RC,
			.comp_mask = (mask & 1 ? IBV_QP_INIT_ATTR_PD : 0) |
				     (mask & 2 ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
			.pd = pd,
		};
		errno = UNTOUCHED;
		struct ibv_qp *qp = OFFERED(ibv_create_qp_ex)(context, &attr);
		say_pointer("create_qp_ex", qp);
		say(" extended: %s\n", ibv_qp_to_qp_ex(qp) ? "yes" : "no");
		say_int("destroy_qp", ibv_destroy_qp(qp));
	}
	for (int mask = 0; mask < 8; mask++) {
		struct ibv_srq_init_attr_ex attr = {
			.comp_mask = (mask & 1 ? IBV_SRQ_INIT_ATTR_PD : 0) |
				     (mask & 2 ? IBV_SRQ_INIT_ATTR_TYPE : 0),
			.srq_type = mask & 4 ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
			.pd = pd,
		};
		uint32_t number = 0;
		errno = UNTOUCHED;
		struct ibv_srq *srq = OFFERED(ibv_create_srq_ex)(context, &attr);
		say_pointer("create_srq_ex", srq);
		say_int("get_srq_num", OFFERED(ibv_get_srq_num)(srq, &number));
		say(" number 0x%x\n", number);
		say_int("destroy_srq", ibv_destroy_srq(srq));
	}

	struct ibv_qp_open_attr open_attr = { .qp_num = 0x123, .qp_type = IBV_QPT_XRC_RECV };
	errno = UNTOUCHED;
	struct ibv_qp *qp = OFFERED(ibv_open_qp)(context, &open_attr);
	say_pointer("open_qp", qp);
	say_int("destroy_qp", ibv_destroy_qp(qp));

	struct ibv_wq_init_attr wq_attr = { .wq_context = &wq_attr, .pd = pd, .cq = cq };
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad = NULL;
	errno = UNTOUCHED;
	struct ibv_wq *wq = OFFERED(ibv_create_wq)(context, &wq_attr);
	say_pointer("create_wq", wq);
	say(" context %s\n", wq->wq_context == &wq_attr ? "right" : "wrong");
	say_int("post_wq_recv", OFFERED(ibv_post_wq_recv)(wq, &recv, &bad));
	say_int("destroy_wq", OFFERED(ibv_destroy_wq)(wq));

	struct ibv_ops_wr op = { .wr_id = 1 }, *bad_op = NULL;
	struct verbs_context *table = verbs_get_ctx(context);
	struct ibv_srq_init_attr srq_attr = { .srq_context = NULL };
	struct ibv_srq *srq = ibv_create_srq(pd, &srq_attr);
	void *entry = *(void **)&table->post_srq_ops;
	table->post_srq_ops = NULL;
	errno = UNTOUCHED;
	say_int("post_srq_ops", OFFERED(ibv_post_srq_ops)(srq, &op, &bad_op));
	say(" bad_op %s\n", bad_op == &op ? "right" : "wrong");
	*(void **)&table->post_srq_ops = entry;
	say_int("destroy_srq", ibv_destroy_srq(srq));

	say_int("destroy_cq", ibv_destroy_cq(cq));
	say_int("dealloc_pd", ibv_dealloc_pd(pd));
}

static void windows(struct ibv_context *context)
{
	struct ibv_pd *pd = ibv_alloc_pd(context), *other = ibv_alloc_pd(context);
	struct ibv_mr *mr = ibv_reg_mr(pd, &pd, sizeof(pd), 0);
	struct ibv_mw *first = OFFERED(ibv_alloc_mw)(pd, IBV_MW_TYPE_1);
	struct ibv_mw *second = OFFERED(ibv_alloc_mw)(pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind bind;

	memset(&bind, 0, sizeof(bind));
	errno = UNTOUCHED;
	say_int("bind_mw type 2", OFFERED(ibv_bind_mw)(NULL, second, &bind));
	say_int("bind_mw", OFFERED(ibv_bind_mw)(NULL, first, &bind));
	bind.bind_info.addr = 1;
	say_int("bind_mw addr without mr", OFFERED(ibv_bind_mw)(NULL, first, &bind));
	bind.bind_info.addr = 0;
	bind.bind_info.length = 1;
	say_int("bind_mw length without mr", OFFERED(ibv_bind_mw)(NULL, first, &bind));
	bind.bind_info.mr = mr;
	say_int("bind_mw mr", OFFERED(ibv_bind_mw)(NULL, first, &bind));
	mr->pd = other;
	say_int("bind_mw of another pd", OFFERED(ibv_bind_mw)(NULL, first, &bind));
	mr->pd = pd;
	say_int("dealloc_mw", OFFERED(ibv_dealloc_mw)(first));
	say_int("dealloc_mw", OFFERED(ibv_dealloc_mw)(second));
	say_int("dereg_mr", ibv_dereg_mr(mr));
	say_int("dealloc_pd", ibv_dealloc_pd(other));
	say_int("dealloc_pd", ibv_dealloc_pd(pd));
}

// Contexts that ibv_open_device never saw. Their first use differs, because any call may be the one
// that makes a context known.
static void around(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;

	for (int first = 0; first < 6; first++) {
		struct ibv_device_attr attr;
		struct ibv_async_event event;
		struct ibv_wc wc = { .wr_id = 9, .status = IBV_WC_GENERAL_ERR }, got;

		context = scripted.open_around(list[first % 3]);
		MUST(context);
		errno = UNTOUCHED;
		if (first == 0)
			say_int("dealloc_pd", ibv_dealloc_pd(ibv_alloc_pd(context)));
		if (first == 1)
			say_int("query_device", ibv_query_device(context, &attr));
		if (first == 2)
			say_int("destroy_channel",
				ibv_destroy_comp_channel(ibv_create_comp_channel(context)));
		if (first == 3) {
			MUST(!scripted.async(context, IBV_EVENT_PORT_ERR, (void *)1));
			say_int("get_async", ibv_get_async_event(context, &event));
			ibv_ack_async_event(&event);
		}
		struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
		MUST(cq && !scripted.wc(cq, &wc, 1));
		say("poll = %d\n", OFFERED(ibv_poll_cq)(cq, 1, &got));
		say(" wr_id %d errno %d\n", (int)got.wr_id, errno);
		say_int("destroy_cq", ibv_destroy_cq(cq));
		say_int("close", ibv_close_device(context));
	}

	context = ibv_open_device(list[0]);
	errno = UNTOUCHED;
	struct ibv_context *imported = ibv_import_device(context->cmd_fd);
	say_pointer("import", imported);
	ports(imported);
	say_int("close", ibv_close_device(imported));
	errno = UNTOUCHED;
	say_pointer("import", ibv_import_device(-1));
	scripted.devices(0);
	errno = UNTOUCHED;
	say_pointer("import", ibv_import_device(context->cmd_fd));
	scripted.devices(3);
	say_int("close", ibv_close_device(context));
	ibv_free_device_list(list);
}

void scenario_contexts(void)
{
	say("SCENARIO devices\n");
	devices();
	for (int i = 0; i < 3; i += 2) {
		struct ibv_device **list = ibv_get_device_list(NULL);
		struct ibv_context *context = ibv_open_device(list[i]);

		say("SCENARIO context of %s\n", ibv_get_device_name(list[i]));
		ibv_free_device_list(list);
		ports(context);
		plain_or_extended(context);
		windows(context);
		say_int("close", ibv_close_device(context));
	}
	say("SCENARIO contexts around ibv_open_device\n");
	around();
}
