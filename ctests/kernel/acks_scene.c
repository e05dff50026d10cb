// SPDX-License-Identifier: MIT OR Apache-2.0
//
// See acks_scene.h. QPs are connected to themselves when they first send.

#include "acks_scene.h"

#include <limits.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

enum {
	QPS = 9,
	CQS = 3,
	CQ_SIZE = 64,
	SMALL_CQ_SIZE = 1,
	SRQ_RECEIVES = 10,
	ATTEMPTS = 100,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
};

struct scene scene = { .create_qp = ibv_create_qp };

static const char *device_name = "rxe0";
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_qp *qps[QPS];
static struct ibv_cq *cqs[CQS];
static struct ibv_srq *srqs[1];
static const char *const names[] = { "qp0", "qp1", "qp2", "qp3", "qp4", "qp5", "qp6",
				     "qp7", "qp8", "cq0", "cq1", "cq2", "srq0" };
static void *last_place[sizeof(names) / sizeof(names[0])];
static char buffer[4096] __attribute__((aligned(4096)));

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

void scene_open(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	const char *wanted = getenv("ACKS_DEVICE");

	// Events of a port go to all programs that have its device open.
	if (wanted)
		device_name = wanted;
	REQUIRE(list);
	for (struct ibv_device **device = list; *device; device++) {
		if (strcmp(ibv_get_device_name(*device), device_name) == 0)
			scene.context = ibv_open_device(*device);
	}
	REQUIRE(scene.context);
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(scene.context);
	REQUIRE(pd);
	mr = ibv_reg_mr(pd, buffer, sizeof(buffer), ACCESS);
	REQUIRE(mr);
	scene.channel = ibv_create_comp_channel(scene.context);
	REQUIRE(scene.channel);
}

static void connect_to_itself(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = ACCESS,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1, .port_num = 1, .grh = { .sgid_index = 1, .hop_limit = 2 } },
	};

	REQUIRE(ibv_query_gid(scene.context, 1, 1, &attr.ah_attr.grh.dgid) == 0);
	REQUIRE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
	attr.qp_state = IBV_QPS_RTR;
	REQUIRE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
	attr.qp_state = IBV_QPS_RTS;
	REQUIRE(ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
}

static struct ibv_qp *make_qp(struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.srq = srq,
		.cap = { .max_send_wr = 32, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibv_qp *qp = scene.create_qp(pd, &attr);

	REQUIRE(qp);
	return qp;
}

static void post(struct ibv_qp *qp, enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = { (uintptr_t)buffer, 8, mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = opcode };
	struct ibv_send_wr *bad;

	if (qp->state == IBV_QPS_RESET)
		connect_to_itself(qp);
	wr.wr.rdma.remote_addr = (uintptr_t)buffer + 2048;
	wr.wr.rdma.rkey = mr->rkey;
	REQUIRE(ibv_post_send(qp, &wr, &bad) == 0);
}

// Where the object of that name is kept, as QP, CQ or SRQ; the others are NULL.
static void place_of(const char *name, struct ibv_qp ***qp, struct ibv_cq ***cq, struct ibv_srq ***srq)
{
	int number;

	*qp = NULL;
	*cq = NULL;
	*srq = NULL;
	if (sscanf(name, "qp%d", &number) == 1 && number < QPS)
		*qp = &qps[number];
	else if (sscanf(name, "cq%d", &number) == 1 && number < CQS)
		*cq = &cqs[number];
	else if (strcmp(name, "srq0") == 0)
		*srq = &srqs[0];
	else
		REQUIRE(!"an object of that name");
}

// The program's own word on each object, to compare the library's and the kernel's with.
static void introduce(const char *name, unsigned int number, unsigned int handle, void *address, size_t size)
{
	printf("object %s number %u handle %u address %#zx size %zu\n", name, number, handle,
	       (size_t)address, size);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]) == 0)
			last_place[i] = address;
	}
}

void *object(const char *name)
{
	struct ibv_qp **qp;
	struct ibv_cq **cq;
	struct ibv_srq **srq;

	place_of(name, &qp, &cq, &srq);
	if (qp && !*qp) {
		*qp = make_qp(object((qp - qps) % 2 ? "cq1" : "cq0"), NULL);
		introduce(name, (*qp)->qp_num, (*qp)->handle, *qp, sizeof(**qp));
	} else if (cq && !*cq) {
		bool small = cq == &cqs[2];

		*cq = ibv_create_cq(scene.context, small ? SMALL_CQ_SIZE : CQ_SIZE, NULL,
				    small ? NULL : scene.channel, 0);
		REQUIRE(*cq);
		introduce(name, 0, (*cq)->handle, *cq, sizeof(**cq));
	} else if (srq && !*srq) {
		struct ibv_srq_init_attr attr = { .attr = { .max_wr = 16, .max_sge = 1 } };

		*srq = ibv_create_srq(pd, &attr);
		REQUIRE(*srq);
		introduce(name, 0, (*srq)->handle, *srq, sizeof(**srq));
	}
	return qp ? (void *)*qp : cq ? (void *)*cq : (void *)*srq;
}

const char *name_at(const void *address)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (address == last_place[i])
			return names[i];
	}
	return "?";
}

void *last_address(const char *name)
{
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i]) == 0)
			return last_place[i];
	}
	return NULL;
}

int destroy(const char *name)
{
	struct ibv_qp **qp;
	struct ibv_cq **cq;
	struct ibv_srq **srq;
	int result;

	place_of(name, &qp, &cq, &srq);
	if (qp)
		result = ibv_destroy_qp(*qp);
	else if (cq)
		result = ibv_destroy_cq(*cq);
	else
		result = ibv_destroy_srq(*srq);
	if (result == 0 && qp)
		*qp = NULL;
	else if (result == 0 && cq)
		*cq = NULL;
	else if (result == 0)
		*srq = NULL;
	return result;
}

void settle(const char *name)
{
	void *old = NULL;

	for (int i = 0; object(name) != old; i++) {
		REQUIRE(i < ATTEMPTS);
		old = object(name);
		REQUIRE(destroy(name) == 0);
	}
}

// The kernel's own number of a CQ or SRQ, which only rdma(8) tells: that of the n-th of this process.
static unsigned int kernel_id(const char *kind, int n)
{
	char line[512], mine[32], id_follows[8], device[32];
	unsigned int id = 0;
	FILE *listing;

	snprintf(line, sizeof(line), "LD_PRELOAD= exec rdma resource show %s", kind);
	snprintf(mine, sizeof(mine), " pid %d ", getpid());
	snprintf(id_follows, sizeof(id_follows), " %sn ", kind);
	snprintf(device, sizeof(device), "dev %s ", device_name);
	listing = popen(line, "r");
	REQUIRE(listing);
	for (int found = 0; found <= n;) {
		REQUIRE(fgets(line, sizeof(line), listing));
		const char *number = strstr(line, id_follows);

		if (!strstr(line, mine) || !strstr(line, device) || !number)
			continue;
		id = atoi(number + strlen(id_follows));
		found++;
	}
	pclose(listing);
	return id;
}

void raise_event(const char *target, int type)
{
	unsigned int id = 1;
	char kind[8];
	FILE *evinject;
	int lower = 0;

	REQUIRE(sscanf(target, "%7[a-z]", kind) == 1);
	if (strcmp(kind, "qp") == 0) {
		id = ((struct ibv_qp *)object(target))->qp_num;
	} else if (strcmp(kind, "cq") == 0) {
		object(target);
		// CQs are made in the order of their names here.
		for (int i = 0; i < target[2] - '0'; i++)
			lower += cqs[i] != NULL;
		id = kernel_id(kind, lower);
	} else if (strcmp(kind, "srq") == 0 && object(target)) {
		// There is but one, and asking takes long.
		static unsigned int srq_id = UINT_MAX;

		if (srq_id == UINT_MAX)
			srq_id = kernel_id(kind, 0);
		id = srq_id;
	}
	evinject = fopen("/proc/evinject", "w");
	REQUIRE(evinject);
	fprintf(evinject, "%s %s %d %u", device_name, kind, type, id);
	REQUIRE(fclose(evinject) == 0);
}

void drain(const char *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	for (int i = 0; i < 8; i++)
		post(object(qp), IBV_WR_RDMA_WRITE);
	REQUIRE(ibv_modify_qp(object(qp), &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) == 0);
}

void reach_srq_limit(void)
{
	struct ibv_sge sge = { (uintptr_t)buffer + 1024, 8, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 };
	struct ibv_srq_attr attr = { .srq_limit = SRQ_RECEIVES - 2 };
	struct ibv_srq *srq = object("srq0");
	struct ibv_qp *qp = make_qp(object("cq0"), srq);
	struct ibv_recv_wr *bad;
	struct ibv_wc wc;

	for (int i = 0; i < SRQ_RECEIVES; i++)
		REQUIRE(ibv_post_srq_recv(srq, &wr, &bad) == 0);
	REQUIRE(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT) == 0);
	for (int i = 0; i < 5; i++)
		post(qp, IBV_WR_SEND);
	for (int found = 0; found < 10;)
		found += ibv_poll_cq(object("cq0"), 1, &wc);
	REQUIRE(ibv_destroy_qp(qp) == 0);
}

void overrun_cq2(void)
{
	struct ibv_qp *qp = make_qp(object("cq2"), NULL);

	for (int i = 0; i < 24; i++)
		post(qp, IBV_WR_RDMA_WRITE);
	// The last is done when all are; nothing else tells.
	usleep(300000);
	REQUIRE(ibv_destroy_qp(qp) == 0);
}

void cause_completion(const char *cq)
{
	REQUIRE(ibv_req_notify_cq(object(cq), 0) == 0);
	post(object(cq[2] == '1' ? "qp1" : "qp0"), IBV_WR_RDMA_WRITE);
}

void poll_all(const char *cq)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(object(cq), 1, &wc) > 0)
		REQUIRE(wc.status == IBV_WC_SUCCESS);
}

static void tell(const char *what, int result)
{
	if (result != 0)
		printf("failed %s %d\n", what, result);
}

void finish(void)
{
	char name[8];

	for (int i = 0; i < QPS; i++) {
		snprintf(name, sizeof(name), "qp%d", i);
		if (qps[i])
			tell(name, destroy(name));
	}
	if (srqs[0])
		tell("srq0", destroy("srq0"));
	for (int i = 0; i < CQS; i++) {
		snprintf(name, sizeof(name), "cq%d", i);
		if (cqs[i])
			tell(name, destroy(name));
	}
	tell("channel", ibv_destroy_comp_channel(scene.channel));
	tell("mr", ibv_dereg_mr(mr));
	tell("pd", ibv_dealloc_pd(pd));
	tell("close", ibv_close_device(scene.context));
}
