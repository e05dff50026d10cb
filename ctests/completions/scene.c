// SPDX-License-Identifier: MIT OR Apache-2.0
//
// scene [+OPTION...] STEP...: a QP on two CQs, and what happens to it.
//
// Options:
//   +ex           the CQs are extended, and polled as such
//   +no_qp_num, +no_vendor_err, +no_opcode   which then lack this reader: of the QP's number they have garbage
//   +unready             nobody makes the QP ready to receive
//   +one_cq       one CQ for both directions
//   +srq          the QP receives from an SRQ
//   +open_qp      it is a handle of a shared QP: always the same number, and no CQs that are known
//   +qp_ex        it is an extended QP
//   +around       the context was opened by a provider's own call
// Steps:
//   poll:CQ:STATUS[xTIMES],...   so many completions are in the CQ (send or recv), and all are taken
//   queue:CQ:STATUS              the same, but they stay there
//   other:CQ:STATUS              one of a QP that nobody has made
//   modify:STATE, refuse:STATE   the program moves the QP (err, reset or rtr), and the provider does so or refuses
//   connect:lid, connect:gid     it connects the QP
//   event:NUMBER                 an event of the QP is got and acknowledged
//   overrun                      CQ_ERR of its send CQ is got and acknowledged
//   ask                          an event is asked for, and there is none
//   remove                       the device is gone, and a get says so
//   wait                         until flushes have been waiting for long enough
//   destroy, another             of the QP, and its successor
//   close                        all is destroyed and closed
//   shut                         the context is closed, and all in it left
// The environment: POISON=BYTE fills what is not defined of a failed completion.

#include "completions.h"

static struct {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_srq *srq;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_qp *qp;
	uint32_t qp_num;
	int lives;
	bool failed;
	uint64_t next_wr_id;
} scene = { .next_wr_id = 0x7000deadbeef0001 };

static bool ex, no_qp_num, no_vendor_err, no_opcode, one_cq, with_srq, as_open_qp, as_qp_ex, around, unready;
static int poison;

// What stands where a reader was not asked for: mlx4 leaves there what was in the memory before.
static uint32_t not_asked_for(struct ibv_cq_ex *cq)
{
	(void)cq;
	abort();
}

static struct ibv_cq *make_cq(void)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 64, .wc_flags = no_qp_num ? 0 : IBV_WC_EX_WITH_QP_NUM };

	if (!ex) {
		struct ibv_cq *cq = ibv_create_cq(scene.context, 64, NULL, NULL, 0);

		REQUIRE(cq);
		return cq;
	}
	struct ibv_cq_ex *cq = ibv_create_cq_ex(scene.context, &attr);

	REQUIRE(cq);
	// A provider fills in the readers of what the program asked for (ibv_create_cq_ex(3)).
	if (no_qp_num)
		cq->read_qp_num = not_asked_for;
	if (no_vendor_err)
		cq->read_vendor_err = NULL;
	if (no_opcode)
		cq->read_opcode = NULL;
	return ibv_cq_ex_to_cq(cq);
}

// KEY, and from the second QP on its number behind it.
static const char *key(const char *name)
{
	static char text[32];

	if (scene.lives == 1)
		return name;
	snprintf(text, sizeof(text), "%s%d", name, scene.lives);
	return text;
}

static void make_qp(void)
{
	if (as_open_qp) {
		struct ibv_qp_open_attr attr = {
			.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_TYPE,
			.qp_num = 0x777,
			.qp_type = IBV_QPT_XRC_RECV,
		};

		scene.qp = ibv_open_qp(scene.context, &attr);
	} else if (as_qp_ex) {
		struct ibv_qp_init_attr_ex attr = {
			.send_cq = scene.send_cq,
			.recv_cq = scene.recv_cq,
			.qp_type = IBV_QPT_RC,
			.comp_mask = IBV_QP_INIT_ATTR_PD,
			.pd = scene.pd,
		};

		scene.qp = ibv_create_qp_ex(scene.context, &attr);
	} else {
		struct ibv_qp_init_attr attr = {
			.send_cq = scene.send_cq,
			.recv_cq = scene.recv_cq,
			.srq = scene.srq,
			.qp_type = IBV_QPT_RC,
		};

		scene.qp = ibv_create_qp(scene.pd, &attr);
	}
	REQUIRE(scene.qp);
	if (!unready)
		make_ready(scene.qp);
	scene.qp_num = scene.qp->qp_num;
	scene.lives++;
	scene.failed = false;
	say_qp(key("qp"), scene.qp);
	say("%s=%u", key("qp_num"), scene.qp_num);
}

static void open_all(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	REQUIRE(list && list[0]);
	scene.context = around ? scripted_open_around(list[0]) : ibv_open_device(list[0]);
	REQUIRE(scene.context);
	ibv_free_device_list(list);
	REQUIRE(scene.pd = ibv_alloc_pd(scene.context));
	scene.send_cq = make_cq();
	scene.recv_cq = one_cq ? scene.send_cq : make_cq();
	say("send_cq=%u", scene.send_cq->handle);
	say("recv_cq=%u", scene.recv_cq->handle);
	if (with_srq) {
		struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };

		REQUIRE(scene.srq = ibv_create_srq(scene.pd, &attr));
	}
	make_qp();
}

// ---- completions ----------------------------------------------------------------------------

static void took(unsigned int status, uint64_t wr_id, bool of_other)
{
	if (status == IBV_WC_SUCCESS || of_other)
		return;
	if (status == IBV_WC_WR_FLUSH_ERR) {
		say("%s=%#llx", key("flushed"), (unsigned long long)wr_id);
		return;
	}
	say("%s=%s (vendor_err 0x%x, wr_id %#llx)", key(scene.failed ? "later" : "first"), status_name(status),
	    no_vendor_err ? 0 : 0x80 + status, (unsigned long long)wr_id);
	scene.failed = true;
}

static int take_all(struct ibv_cq *cq, bool of_other)
{
	struct ibv_wc wc[64];
	int n = 0;

	if (!ex) {
		n = ibv_poll_cq(cq, 64, wc);
		for (int i = 0; i < n; i++)
			took(wc[i].status, wc[i].wr_id, of_other);
		return n;
	}
	struct ibv_cq_ex *cq_ex = (struct ibv_cq_ex *)cq;
	struct ibv_poll_cq_attr attr = { 0 };

	if (ibv_start_poll(cq_ex, &attr))
		return 0;
	do {
		took(cq_ex->status, cq_ex->wr_id, of_other);
		n++;
	} while (!ibv_next_poll(cq_ex));
	ibv_end_poll(cq_ex);
	return n;
}

static struct ibv_cq *cq_called(const char *name)
{
	REQUIRE(!strncmp(name, "send", 4) || !strncmp(name, "recv", 4));
	return name[0] == 's' ? scene.send_cq : scene.recv_cq;
}

static void completions(const char *text, uint32_t qp_num, bool taken)
{
	struct ibv_cq *cq = cq_called(text);
	struct ibv_wc wc[64];
	int n = 0;

	for (text += 4; *text; ) {
		char *end;
		unsigned long status = strtoul(text + 1, &end, 10), times = 1;

		if (*end == 'x')
			times = strtoul(end + 1, &end, 10);
		while (times--) {
			REQUIRE(n < 64);
			wc[n++] = completion((unsigned int)status, qp_num, scene.next_wr_id++, poison);
		}
		text = end;
	}
	REQUIRE(scripted_wc(cq, wc, n) == 0);
	if (taken)
		REQUIRE(take_all(cq, qp_num != scene.qp_num) == n);
}

// ---- steps ----------------------------------------------------------------------------------

static int modify(const char *state)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };

	if (!strcmp(state, "err"))
		attr.qp_state = IBV_QPS_ERR;
	if (!strcmp(state, "reset"))
		attr.qp_state = IBV_QPS_RESET;
	return ibv_modify_qp(scene.qp, &attr, IBV_QP_STATE);
}

static void connect(bool by_gid)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .dest_qp_num = 0x123456 };

	attr.ah_attr.is_global = by_gid;
	attr.ah_attr.dlid = 0x4321;
	for (int i = 0; i < 16; i++)
		attr.ah_attr.grh.dgid.raw[i] = (uint8_t)(0x20 + i);
	REQUIRE(ibv_modify_qp(scene.qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN) == 0);
}

static void event(int type, void *element)
{
	struct ibv_async_event got;

	REQUIRE(scripted_async(scene.context, type, element) == 0);
	REQUIRE(ibv_get_async_event(scene.context, &got) == 0);
	REQUIRE((int)got.event_type == type);
	ibv_ack_async_event(&got);
}

static void close_scene(void)
{
	if (scene.qp)
		REQUIRE(ibv_destroy_qp(scene.qp) == 0);
	if (!one_cq)
		REQUIRE(ibv_destroy_cq(scene.recv_cq) == 0);
	REQUIRE(ibv_destroy_cq(scene.send_cq) == 0);
	if (scene.srq)
		REQUIRE(ibv_destroy_srq(scene.srq) == 0);
	REQUIRE(ibv_dealloc_pd(scene.pd) == 0);
	REQUIRE(ibv_close_device(scene.context) == 0);
	say("alive=%d", scripted_alive());
}

static void step(const char *text)
{
	struct ibv_async_event got;
	const char *rest = strchr(text, ':');

	rest = rest ? rest + 1 : "";
	if (!strncmp(text, "poll:", 5)) {
		completions(rest, scene.qp_num, true);
	} else if (!strncmp(text, "queue:", 6)) {
		completions(rest, scene.qp_num, false);
	} else if (!strncmp(text, "other:", 6)) {
		completions(rest, 0xabcde, true);
	} else if (!strncmp(text, "modify:", 7)) {
		REQUIRE(modify(rest) == 0);
	} else if (!strncmp(text, "refuse:", 7)) {
		scripted_reply("ibv_modify_qp", EINVAL, 0);
		REQUIRE(modify(rest) == EINVAL);
		scripted_behave("ibv_modify_qp");
	} else if (!strncmp(text, "connect:", 8)) {
		connect(!strcmp(rest, "gid"));
	} else if (!strncmp(text, "event:", 6)) {
		event(atoi(rest), scene.qp);
	} else if (!strcmp(text, "overrun")) {
		event(IBV_EVENT_CQ_ERR, scene.send_cq);
	} else if (!strcmp(text, "ask")) {
		REQUIRE(fcntl(scene.context->async_fd, F_SETFL, O_NONBLOCK) == 0);
		REQUIRE(ibv_get_async_event(scene.context, &got) == -1 && errno == EAGAIN);
	} else if (!strcmp(text, "remove")) {
		scripted_remove(scene.context);
		REQUIRE(ibv_get_async_event(scene.context, &got) == -1 && errno == EIO);
	} else if (!strcmp(text, "wait")) {
		sleep_ms(2100);
	} else if (!strcmp(text, "destroy")) {
		REQUIRE(ibv_destroy_qp(scene.qp) == 0);
		scene.qp = NULL;
	} else if (!strcmp(text, "another")) {
		make_qp();
	} else if (!strcmp(text, "shut")) {
		REQUIRE(ibv_close_device(scene.context) == 0);
	} else {
		REQUIRE(!strcmp(text, "close"));
		close_scene();
	}
}

int main(int argc, char **argv)
{
	const struct {
		const char *name;
		bool *is;
	} options[] = {
		{ "+ex", &ex }, { "+no_qp_num", &no_qp_num }, { "+no_vendor_err", &no_vendor_err },
		{ "+no_opcode", &no_opcode }, { "+one_cq", &one_cq }, { "+srq", &with_srq },
		{ "+open_qp", &as_open_qp }, { "+qp_ex", &as_qp_ex }, { "+around", &around },
		{ "+unready", &unready },
	};
	int at = 1;

	if (getenv("POISON"))
		poison = atoi(getenv("POISON"));
	for (; at < argc && argv[at][0] == '+'; at++) {
		size_t i = 0;

		while (strcmp(argv[at], options[i].name))
			REQUIRE(++i < sizeof(options) / sizeof(options[0]));
		*options[i].is = true;
	}
	say("tid=%d", (int)syscall(SYS_gettid));
	open_all();
	for (; at < argc; at++)
		step(argv[at]);
	return 0;
}
