/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the programs of this folder share. Completions come from the scripted provider, a test double, as the program
 * says; what the program got it prints, KEY=VALUE on a line, in the words of libibv_sa.
 */
#ifndef COMPLETIONS_H
#define COMPLETIONS_H

#include "ledger/ledger.h"

/* enum ibv_wc_status without the prefix, as libibv_sa names it. */
UNUSED static const char *status_name(unsigned int status)
{
	static const char *const names[] = {
		"SUCCESS",	  "LOC_LEN_ERR",       "LOC_QP_OP_ERR",	     "LOC_EEC_OP_ERR",
		"LOC_PROT_ERR",	  "WR_FLUSH_ERR",      "MW_BIND_ERR",	     "BAD_RESP_ERR",
		"LOC_ACCESS_ERR", "REM_INV_REQ_ERR",   "REM_ACCESS_ERR",     "REM_OP_ERR",
		"RETRY_EXC_ERR",  "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",   "REM_INV_RD_REQ_ERR",
		"REM_ABORT_ERR",  "INV_EECN_ERR",      "INV_EEC_STATE_ERR",  "FATAL_ERR",
		"RESP_TIMEOUT_ERR", "GENERAL_ERR",     "TM_ERR",	     "TM_RNDV_INCOMPLETE",
	};
	static _Thread_local char text[32];

	if (status < sizeof(names) / sizeof(names[0]))
		return names[status];
	snprintf(text, sizeof(text), "status %u", status);
	return text;
}

/* A completion in which all that is not defined has the bytes of `poison`. Of one that failed only wr_id, status,
 * qp_num and vendor_err are defined. */
UNUSED static struct ibv_wc completion(unsigned int status, uint32_t qp_num, uint64_t wr_id, int poison)
{
	struct ibv_wc wc = { 0 };

	if (status != IBV_WC_SUCCESS)
		memset(&wc, poison, sizeof(wc));
	wc.wr_id = wr_id;
	wc.status = (enum ibv_wc_status)status;
	wc.qp_num = qp_num;
	wc.vendor_err = status == IBV_WC_SUCCESS ? 0 : 0x80 + status;
	return wc;
}

/* A QP that has work to do was made ready to receive. */
UNUSED static void make_ready(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };

	REQUIRE(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
}

/* A QP of the thing's context with these CQs. */
UNUSED static struct ibv_qp *qp_on(struct ibv_pd *pd, struct ibv_cq *send_cq, struct ibv_cq *recv_cq)
{
	struct ibv_qp_init_attr attr = { .send_cq = send_cq, .recv_cq = recv_cq, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	REQUIRE(qp);
	make_ready(qp);
	return qp;
}

/* KEY=..., as the library calls a QP. */
UNUSED static void say_qp(const char *key, const struct ibv_qp *qp)
{
	say("%s=QP qp_num %u (handle %u, %s)", key, qp->qp_num, qp->handle,
	    ibv_get_device_name(qp->context->device));
}

#endif
