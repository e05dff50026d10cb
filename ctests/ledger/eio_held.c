// SPDX-License-Identifier: MIT OR Apache-2.0
//
// eio_held FORM CALL: an event is acknowledged before it is got, and between the two a command fails with EIO, as
// firmware may answer. CALL is ibv_create_cq, ibv_alloc_pd or ibv_modify_qp (of another QP).

#include "ledger.h"

static struct thing other;

static void fail(const char *call)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };

	if (!strcmp(call, "ibv_modify_qp")) {
		scripted_reply(call, EIO, 0);
		REQUIRE(ibv_modify_qp(other.qp, &attr, IBV_QP_STATE) == EIO);
	} else {
		scripted_reply(call, 0, EIO);
		if (!strcmp(call, "ibv_alloc_pd"))
			REQUIRE(!ibv_alloc_pd(other.context));
		else
			REQUIRE(!ibv_create_cq(other.context, 8, NULL, NULL, 0));
		REQUIRE(errno == EIO);
	}
	scripted_behave(call);
}

int main(int argc, char **argv)
{
	REQUIRE(argc == 3);
	struct thing t = make(argv[1]);
	struct ibv_async_event event = event_of(&t, 0);

	other = make_on(t.context, "qp");
	i_am_called("eio_held");
	say_thing("object", &t);
	say_thread("thread");
	inject(&t, 0);
	ack(&t, &event);
	fail(argv[2]);
	take(&t, 0);
	destroy_and_say(&t);
	REQUIRE(destroy(&other) == 0);
	close_rest(&other);
	close_all(&t);
	return 0;
}
