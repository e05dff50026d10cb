"""The checks of events and acks: ctests/kernel/acks.c does as its words say, and what happens is compared.

Each case names what the program does and, for each mode, what must be seen:
    hang     objects whose destroy waits for acks when it is looked at; the kernel says where the thread waits
    killed   the program never ends by itself
    lines    what the shim says, in order; each may come again later. A placeholder is what the program printed of
             an object or a thread ({qp0}, {qp0:-2} for the one before it, {worker1}, {main}, {device}), or a time that
             is compared with the program's own clock: {waited:OBJECT} and {ago:OBJECT:TYPE}, where TYPE is an event,
             or completion, first or last
    kinds    incidents in the report, in order
    acks     the report's sums of acks that are not 0; None: any
    any_order  the lines come in any order
    repeats  so many of the lines must come again while the destroy waits
    results  what destroys return that is not 0
    exit     the exit status, if not 0
    at_once  whether each destroy returns at once (or, of those in `hang`, once the program goes on)
    open     events that the report lists as open: the object, the event and who took it
    state    of the context in the report, if not closed
    timeline   further signs in the incident of a removal
    text     the text of the first incident, where it is not said
    same_address  the last two QPs called qp0 must have had one address
    foreign_acks  the acks that a forked child's report counts as foreign
The modes: "plain" (without the shim), "shim" (IBV_SA_ACK=protect), and the other values of IBV_SA_ACK.
"""

from types import MappingProxyType

from ack_lines import H2_ACK, own, read_around, rescued, surplus, surplus_completions, waits, waits_for_completion


def mode(hang=(), killed=False, lines=(), kinds=(), acks=MappingProxyType({}), results=None, exit=0, at_once=True, repeats=0, **more):
    # Where nothing is to wait it must end long before the shim would help; the other waits are kept short.
    waits_long = hang or not at_once or any("been queued" in line for line in lines)
    return {
        "hang_secs": 1 if waits_long else 10,
        "hang": list(hang), "killed": killed, "lines": list(lines), "kinds": list(kinds), "acks": acks if acks is None else dict(acks),
        "results": results or {}, "exit": exit, "at_once": at_once, "repeats": repeats, **more,
    }  # fmt: skip


FINE = mode()
QP_TYPES = {1: "QP_FATAL", 2: "QP_REQ_ERR", 3: "QP_ACCESS_ERR", 4: "COMM_EST", 5: "SQ_DRAINED", 6: "PATH_MIG",
            7: "PATH_MIG_ERR", 16: "QP_LAST_WQE_REACHED"}  # fmt: skip
HELD = {"bad": 1, "held": 1}
GONE = ["/in/device_gone.so"]


def unacknowledged():
    """Without the shim the destroy hangs; with it that is explained; once somebody acknowledges, it returns."""
    for name, before, target, call, event in (
        ("SQ_DRAINED", "drain:qp0 1:get go sleep:700", "qp0", "qp", "SQ_DRAINED"),
        ("SRQ_LIMIT_REACHED", "limit 1:get sleep:400", "srq0", "srq", "SRQ_LIMIT_REACHED"),
        ("CQ_ERR", "overrun 1:get sleep:1200", "cq2", "cq", "CQ_ERR"),
    ):
        explained = [waits(target, "worker2", "worker1", event, call)]
        yield f"{name} not acknowledged, then acknowledged", f"{before} 2&destroy:{target} go 1:ack join:2 finish", {
            "plain": mode(hang=[target]),
            "shim": mode(hang=[target], lines=explained, kinds=["destroy_waits"], repeats=1),
            "rescue": mode(lines=[rescued(target, "worker1", event, call)], kinds=["rescued"], at_once=False,
                           acks={"rescued": 1, "swallowed": 1}),
        }  # fmt: skip
    yield "completion event not acknowledged, then acknowledged", (
        "complete:cq0 1:getc destroy:qp0 sleep:500 2&destroy:cq0 go 1:ackc:cq0 join:2 finish"
    ), {
        "plain": mode(hang=["cq0"]),
        "shim": mode(hang=["cq0"], lines=[waits_for_completion("cq0", "worker2", "worker1")], kinds=["destroy_waits"], repeats=1),
        "rescue": mode(lines=[rescued("cq0", "worker1", "completion", "cq")], kinds=["rescued"], at_once=False,
                       acks={"rescued": 1, "swallowed": 1}),
    }  # fmt: skip
    yield "un-acknowledged at exit, which the report lists", (
        "drain:qp0 1:get complete:cq1 3:getc go sleep:600 2&destroy:qp0 go exit"
    ), {
        "plain": mode(hang=["qp0"]),
        "shim": mode(hang=["qp0"], lines=[waits("qp0", "worker2", "worker1", "SQ_DRAINED")], kinds=["destroy_waits"],
                     open={"qp0": ("SQ_DRAINED", "worker1"), "cq1": ("completion", "worker3")}),
    }  # fmt: skip
    yield "all types on one QP, none acknowledged", (
        " ".join(f"raise:qp0:{number} get:{slot}" for slot, number in enumerate(QP_TYPES))
        + " go 2&destroy:qp0 go " + " ".join(f"ack:{slot}" for slot in range(len(QP_TYPES))) + " join:2 finish"
    ), {
        "plain": mode(hang=["qp0"]),
        "shim": mode(hang=["qp0"], kinds=["destroy_waits"], lines=[
            "ibv_destroy_qp: {qp0}: {worker2} has waited for {waited:qp0} s: "
            + "".join(
                f"{event}, taken by {{main}} {{ago:qp0:{event}}} s ago, is not acknowledged; " for event in list(QP_TYPES.values())[:4]
            )
            + "and 4 more; call ibv_ack_async_event for each event that was got"]),
    }  # fmt: skip


def self_deadlocks():
    yield "a handler destroys the QP whose event it holds", "drain:qp0 1:get go sleep:300 1&destroy:qp0 go 2:ack join:1 finish", {
        "plain": mode(hang=["qp0"]),
        "shim": mode(hang=["qp0"], lines=[own("qp0", "worker1", "SQ_DRAINED"), waits("qp0", "worker1", "worker1", "SQ_DRAINED")],
                     kinds=["destroy_waits"], prompt=["qp0"]),
        "rescue": mode(lines=[rescued("qp0", "worker1", "SQ_DRAINED")], kinds=["rescued"], acks={"rescued": 1, "swallowed": 1}),
    }  # fmt: skip
    yield "a thread destroys the CQ whose event it holds", (
        "complete:cq0 1:getc destroy:qp0 sleep:200 1&destroy:cq0 go 2:ackc:cq0 join:1 finish"
    ), {
        "plain": mode(hang=["cq0"]),
        "shim": mode(hang=["cq0"], lines=[own("cq0", "worker1", "completion", "cq"), waits_for_completion("cq0", "worker1", "worker1")],
                     kinds=["destroy_waits"], prompt=["cq0"]),
        "rescue": mode(lines=[rescued("cq0", "worker1", "completion", "cq")], kinds=["rescued"], acks={"rescued": 1, "swallowed": 1}),
    }  # fmt: skip


def surplus_acks():
    forwarded = "forwarded, so the destroy will wait for ever"
    said = surplus("qp0", "main", "SQ_DRAINED", "QP", 1, 1)
    yield "SQ_DRAINED acknowledged twice", "drain:qp0 get ack ack destroy:qp0 finish", {
        "plain": mode(hang=["qp0"], killed=True),
        "shim": mode(lines=[said], kinds=["bad_ack"], acks=HELD),
        "rescue": mode(lines=[said], kinds=["bad_ack"], acks=HELD),
        "forward": mode(hang=["qp0"], killed=True, lines=[surplus("qp0", "main", "SQ_DRAINED", "QP", 1, 1, forwarded)]),
        "abort": mode(exit=-6, lines=[surplus("qp0", "main", "SQ_DRAINED", "QP", 1, 1, "aborting, as IBV_SA_ACK=abort asks")]),
    }
    for name, before, target, event, kind in (
        ("SRQ_LIMIT_REACHED", "limit get", "srq0", "SRQ_LIMIT_REACHED", "SRQ"),
        ("CQ_ERR", "overrun get", "cq2", "CQ_ERR", "CQ"),
    ):
        yield f"{name} acknowledged twice", f"{before} ack ack destroy:{target} finish", {
            "plain": mode(hang=[target], killed=True),
            "shim": mode(lines=[surplus(target, "main", event, kind, 1, 1)], kinds=["bad_ack"], acks=HELD),
        }
    yield "completion event acknowledged twice", "complete:cq0 getc ackc:cq0 ackc:cq0 destroy:qp0 destroy:cq0 finish", {
        "plain": mode(hang=["cq0"], killed=True),
        "shim": mode(
            lines=[surplus_completions("cq0", "main", "1 completion event", "none is open", 1, 1)], kinds=["bad_ack"], acks=HELD
        ),
    }
    yield "3 completion events acknowledged, 1 got", "complete:cq0 getc ackc:cq0:3 destroy:qp0 destroy:cq0 finish", {
        "plain": mode(hang=["cq0"], killed=True),
        "shim": mode(lines=[surplus_completions("cq0", "main", "3 completion events", "1 is open", 1, 0, "2 acks are held back")],
                     kinds=["bad_ack"], acks={"bad": 2, "held": 2}),
    }  # fmt: skip
    yield "acknowledged on the wrong CQ", (
        "make:cq0 make:qp1 complete:cq0 1:getc ackc:cq1 destroy:qp0 destroy:qp1 2&destroy:cq1 sleep:300 "
        "3&destroy:cq0 go ackc:cq0 join:3 join:2 finish"
    ), {
        "plain": mode(hang=["cq0", "cq1"], killed=True),
        "shim": mode(hang=["cq0"], acks=HELD, kinds=["bad_ack", "destroy_waits"], lines=[
            surplus_completions("cq1", "main", "1 completion event", "none is open", 0, 0),
            waits_for_completion("cq0", "worker3", "worker1")]),
        "rescue": mode(acks={**HELD, "rescued": 1, "swallowed": 1}, kinds=["bad_ack", "rescued"], at_once=False, lines=[
            surplus_completions("cq1", "main", "1 completion event", "none is open", 0, 0),
            rescued("cq0", "worker1", "completion", "cq")]),
    }  # fmt: skip
    # What the program does here is undefined without the shim: the object's memory has been freed.
    destroyed = "was destroyed before; the ack is held back: ack each event before its object is destroyed"
    yield "acknowledged after the destroy", (
        "complete:cq0 getc ackc:cq0 drain:qp0 get ack destroy:qp0 ack destroy:cq0 ackc:cq0 finish"
    ), {
        "shim": mode(acks={"bad": 2, "held": 2}, kinds=["bad_ack", "bad_ack"], lines=[
            f"ibv_ack_async_event: {{qp0}}: {{main}} acknowledged SQ_DRAINED, but the QP {destroyed}",
            f"ibv_ack_cq_events: {{cq0}}: {{main}} acknowledged 1 completion event, but the CQ {destroyed}"]),
    }  # fmt: skip


def batches():
    yield "1000 completion events, 999 acknowledged", (
        "batch:cq0:1000 ackc:cq0:999 destroy:qp0 sleep:300 2&destroy:cq0 go ackc:cq0:1 join:2 finish"
    ), {
        "plain": mode(hang=["cq0"]),
        "shim": mode(hang=["cq0"], lines=[waits_for_completion("cq0", "worker2", "main")], kinds=["destroy_waits"]),
    }
    yield "12 completion events, none acknowledged", (
        "complete:cq0 getc sleep:800 batch:cq0:11 destroy:qp0 sleep:300 2&destroy:cq0 go ackc:cq0:12 join:2 finish"
    ), {
        "plain": mode(hang=["cq0"]),
        "shim": mode(hang=["cq0"], kinds=["destroy_waits"], lines=[
            "ibv_destroy_cq: {cq0}: {worker2} has waited for {waited:cq0} s: 12 completion events, the first taken by {main} "
            "{ago:cq0:first} s ago, the last {ago:cq0:last} s ago, are not acknowledged; call ibv_ack_cq_events"]),
    }  # fmt: skip
    yield "1000 completion events, all acknowledged", "batch:cq0:1000 ackc:cq0:999 1:ackc:cq0 destroy:qp0 destroy:cq0 finish", {
        "plain": FINE, "shim": FINE,
    }  # fmt: skip


def in_order():
    everywhere = {"plain": FINE, "shim": FINE}
    # In the strictest mode a wrong verdict ends the program.
    strictly = {"plain": FINE, "shim": FINE, "rescue": FINE, "abort": FINE}
    yield "acknowledged out of order, by other threads", (
        "raise:qp0:1 raise:qp0:5 raise:qp0:16 get:0 get:1 get:2 3:ack:2 2:ack:0 1:ack:1 destroy:qp0 finish"
    ), strictly
    yield "acknowledged as a copy", "drain:qp0 get:0 copy:0:1 1:ack:1 destroy:qp0 finish", everywhere
    ports = [9, 10, 11, 12, 13, 17, 20, 40]
    yield "events of ports, not acknowledged and twice", (
        "make:qp0 " + " ".join(f"raise:port:{number} get:{slot}" for slot, number in enumerate(ports))
        + " ack:0 ack:0 1:ack:1 ack:1 finish"
    ), everywhere  # fmt: skip
    yield "two CQs on one channel", "complete:cq0 getc complete:cq1 getc ackc:cq1 1:ackc:cq0 destroy:qp0 destroy:qp1 finish", everywhere
    yield "a destroy refused with EBUSY", "make:qp0 destroy:cq0 destroy:cq0 finish", {
        "plain": mode(results={"cq0": 16}),
        "shim": mode(results={"cq0": 16}, kinds=["destroy_refused"],
                     lines=["ibv_destroy_cq: {cq0}: refused with EBUSY, not waiting: QPs or WQs still use it; destroy those first"]),
    }  # fmt: skip


def every_type():
    one_each = [f"raise:qp{index}:{number} get:{index}" for index, number in enumerate(QP_TYPES)]
    others = ["raise:cq2:0 get:8", "raise:srq0:14 get:9", "raise:srq0:15 get:10"]
    acks = [f"ack:{slot}" for slot in range(11)]
    everything = " ".join(["make:cq0", "make:cq1", *one_each, *others])
    yield "every type, each acknowledged once", f"{everything} {' '.join(acks)} finish", {"plain": FINE, "shim": FINE}
    twice = [surplus(f"qp{index}", "main", event, "QP", 1, 1) for index, event in enumerate(QP_TYPES.values())]
    twice += [surplus("cq2", "main", "CQ_ERR", "CQ", 1, 1), surplus("srq0", "main", "SRQ_ERR", "SRQ", 2, 2)]
    yield "every type, each acknowledged twice", f"{everything} {' '.join(acks + acks)} destroy:qp0 finish", {
        "plain": mode(hang=["qp0"], killed=True),
        # The second ack too many of the SRQ is one more of the same incident.
        "shim": mode(lines=twice, kinds=["bad_ack"] * 10, acks={"bad": 11, "held": 11}),
    }
    begun = " ".join(f"{index + 1}&destroy:qp{index}" for index in range(8))
    joined = " ".join(f"join:{index + 1}" for index in range(8))
    names = [f"qp{index}" for index in range(8)]
    yield "every type of a QP, never acknowledged", (
        " ".join(["make:cq0", "make:cq1", *one_each]) + f" go sleep:500 {begun} go {' '.join(acks[:8])} {joined} finish"
    ), {
        "plain": mode(hang=names),
        "shim": mode(hang=names, kinds=["destroy_waits"] * 8, any_order=True,
                     lines=[waits(f"qp{index}", f"worker{index + 1}", "main", event) for index, event in enumerate(QP_TYPES.values())]),
    }  # fmt: skip
    yield "every type of a CQ and an SRQ, never acknowledged", (
        "raise:cq0:0 get:8 raise:srq0:14 get:9 raise:srq0:15 get:10 sleep:500 1&destroy:cq0 2&destroy:srq0 "
        "go ack:8 ack:9 ack:10 join:1 join:2 finish"
    ), {
        "plain": mode(hang=["cq0", "srq0"]),
        "shim": mode(hang=["cq0", "srq0"], kinds=["destroy_waits"] * 2, any_order=True, lines=[
            waits("cq0", "worker1", "main", "CQ_ERR", "cq"),
            "ibv_destroy_srq: {srq0}: {worker2} has waited for {waited:srq0} s: SRQ_ERR, taken by {main} {ago:srq0:SRQ_ERR} s ago, "
            "is not acknowledged; SRQ_LIMIT_REACHED, taken by {main} {ago:srq0:SRQ_LIMIT_REACHED} s ago, " + H2_ACK]),
    }  # fmt: skip


def around_the_shim():
    """A plug-in with RTLD_DEEPBIND reaches libibverbs directly: that must not hang because of the shim."""
    released = {"bad": 1, "held": 1, "released": 1}
    yield "an event read by an RTLD_DEEPBIND plug-in", "drain:qp0 1:plugin ack 2:destroy:qp0 finish", {
        "plain": FINE,
        "shim": mode(acks=released, kinds=["bad_ack", "acks_released"], at_once=False,
                     lines=[surplus("qp0", "main", "SQ_DRAINED", "QP", 0, 0), read_around("qp0", "worker2")]),
    }  # fmt: skip
    yield "a completion event read by an RTLD_DEEPBIND plug-in", "complete:cq0 1:pluginc ackc:cq0 destroy:qp0 2:destroy:cq0 finish", {
        "plain": FINE,
        "shim": mode(acks=released, kinds=["bad_ack", "acks_released"], at_once=False,
                     lines=[surplus_completions("cq0", "main", "1 completion event", "none is open", 0, 0),
                            read_around("cq0", "worker2", "cq")]),
    }  # fmt: skip
    yield "an event acknowledged by an RTLD_DEEPBIND plug-in", "drain:qp0 get pluginack destroy:qp0 finish", {
        "plain": FINE,
        "shim": FINE,
    }


def lives():
    again = "settle:qp0 raise:qp0:5 get:0 ack:0 ack:0 destroy:qp0 make:qp0"
    yield "a new QP at the address of one with held acks", (
        f"{again} raise:qp0:1 get:1 sleep:400 2&destroy:qp0 go 1:ack:1 join:2 finish"
    ), {
        "plain": mode(hang=["qp0"], killed=True),
        "shim": mode(hang=["qp0"], kinds=["bad_ack", "destroy_waits"], acks=HELD, same_address=True,
                     lines=[surplus("qp0", "main", "SQ_DRAINED", "QP", 1, 1).replace("{qp0}", "{qp0:-2}"),
                            waits("qp0", "worker2", "main", "QP_FATAL")]),
    }  # fmt: skip
    yield "a late ack that meets a new QP at the old address", (
        "settle:qp0 raise:qp0:5 get:0 ack:0 destroy:qp0 make:qp0 ack:0 raise:qp0:1 get:1 ack:1 destroy:qp0 finish"
    ), {
        "plain": mode(hang=["qp0"], killed=True),
        "shim": mode(kinds=["bad_ack"], acks=HELD, same_address=True, lines=[surplus("qp0", "main", "SQ_DRAINED", "QP", 0, 0)]),
    }
    # The shim cannot know what it has not seen of such an object: all acks go on.
    elsewhere = "pluginqps raise:qp0:5 1:get"
    yield "a QP made by an RTLD_DEEPBIND plug-in, acknowledged", f"{elsewhere} ack destroy:qp0 finish", {
        "plain": FINE, "shim": mode(acks={"foreign": 1}),
    }  # fmt: skip
    yield "a QP made by an RTLD_DEEPBIND plug-in, not acknowledged", f"{elsewhere} sleep:300 2&destroy:qp0 go 1:ack join:2 finish", {
        "plain": mode(hang=["qp0"]),
        "shim": mode(hang=["qp0"], lines=[waits("qp0", "worker2", "worker1", "SQ_DRAINED")], kinds=["destroy_waits"],
                     acks={"foreign": 1}),
        "rescue": mode(lines=[rescued("qp0", "worker1", "SQ_DRAINED")], kinds=["rescued"], at_once=False,
                       acks={"rescued": 1, "swallowed": 1}),
    }  # fmt: skip
    yield "a QP made by an RTLD_DEEPBIND plug-in, acknowledged twice", f"{elsewhere} ack ack destroy:qp0 finish", {
        "plain": mode(hang=["qp0"], killed=True), "shim": mode(hang=["qp0"], killed=True),
    }  # fmt: skip
    yield "objects from before a fork, destroyed in the child", "raise:qp0:5 get make:qp1 fork ack destroy:qp0 destroy:qp1", {
        "plain": FINE,
        "shim": mode(foreign_acks=1),
    }


def removals():
    device = "{device}: the device has failed or is gone: "
    fatal = device + "DEVICE_FATAL was read by {main}"
    eio = device + "ibv_get_async_event failed with EIO in {main}"
    yield "removal, blocking: EIO", "raise:qp0:5 get:0 raise:dev:8 get:1 gone get:2 get:3 destroy:qp0 destroy:cq0 finish", {
        "plain": mode(results={"qp0": 5, "cq0": 5}),
        "shim": mode(results={"qp0": 5, "cq0": 5}, lines=[fatal], kinds=["device_gone"], state="gone",
                     timeline=["ibv_get_async_event failed with EIO in {main}", "ibv_destroy_qp failed with EIO in {main}"]),
    }, GONE, {}  # fmt: skip
    yield "removal, O_NONBLOCK: EAGAIN for ever", "make:qp0 nonblock gone get get get destroy:qp0 destroy:cq0 finish", {
        "plain": mode(results={"qp0": 5, "cq0": 5}),
        "shim": mode(results={"qp0": 5, "cq0": 5}, lines=[device + "ibv_destroy_qp failed with EIO in {main}"], kinds=["device_gone"],
                     state="gone"),
    }, GONE, {}  # fmt: skip
    allow = {"RDMAV_ALLOW_DISASSOC_DESTROY": "1"}
    steps = "raise:qp0:5 get:0 gone get:1 destroy:qp0 destroy:cq0 finish"
    yield "removal, destroys allowed (RDMAV_ALLOW_DISASSOC_DESTROY)", steps, {
        "plain": FINE, "shim": mode(lines=[eio], kinds=["device_gone"], state="gone"),
        "rescue": mode(lines=[eio], kinds=["device_gone"], state="gone"),
    }, GONE, allow  # fmt: skip
    yield "removal, destroys allowed, O_NONBLOCK", "raise:qp0:5 get:0 nonblock gone get:1 destroy:qp0 destroy:cq0 finish", {
        "plain": FINE,
        "shim": mode(lines=[device + "its async descriptor reports an error in {main}"], kinds=["device_gone"], state="gone"),
    }, GONE, allow  # fmt: skip
    # The QP's memory has been freed before the ack: undefined without the shim.
    yield "removal, destroys allowed, a late ack", steps.replace("finish", "ack:0 finish"), {
        "shim": mode(lines=[eio], kinds=["device_gone"], state="gone", acks=None),
    }, GONE, allow  # fmt: skip
    yield "DEVICE_FATAL, and an event that is not acknowledged", (
        "raise:qp0:5 1:get:0 raise:dev:8 get:1 sleep:300 2&destroy:qp0 go 1:ack:0 join:2 finish"
    ), {
        "plain": mode(hang=["qp0"]),
        "shim": mode(hang=["qp0"], lines=[fatal, waits("qp0", "worker2", "worker1", "SQ_DRAINED")],
                     kinds=["two_readers", "device_gone", "destroy_waits"]),
    }  # fmt: skip


def readers():
    yield "two threads read the events", "raise:port:9 1:get raise:port:10 2:get raise:port:9 1:get finish", {
        "plain": FINE,
        "shim": mode(kinds=["two_readers"],
                     text="{device}: async events are read by two threads, {bare:worker1} and {bare:worker2}: each takes events "
                          "from the other; this one was PORT_ERR, port 1"),
    }  # fmt: skip
    yield "events left queued by an edge-triggered reader", (
        "nonblock raise:port:9 raise:port:10 get sleep:1300 make:cq0 sleep:1300 make:cq1 get get finish"
    ), {
        "plain": FINE,
        "shim": mode(kinds=["backlog"], lines=[
            "{device}: async events have been queued for {about:1.3} s: the last ibv_get_async_event did not reach EAGAIN and none "
            "followed; an edge-triggered reader reads until EAGAIN"]),
    }  # fmt: skip


GROUPS = (unacknowledged, self_deadlocks, surplus_acks, batches, in_order, every_type, around_the_shim, lives, removals, readers)


def cases():
    """All of them, as (name, words, modes, preloads, environment)."""
    for group in GROUPS:
        for name, words, modes, *rest in group():
            yield (name, words.split(), modes, *(rest or ([], {})))


def add_to(plan):
    for name, words, modes, preload, environment in cases():
        watch = {}
        uses_ports = any(word.startswith(("raise:port", "raise:dev")) for word in words)
        for which, expected in modes.items():
            settings = dict(environment)
            if which != "plain":
                settings["IBV_SA_HANG_SECS"] = str(expected["hang_secs"])
            if which not in ("plain", "shim"):
                settings["IBV_SA_ACK"] = which
            lines = len(expected["lines"]) + expected["repeats"]
            if uses_ports:
                settings["ACKS_DEVICE"] = "rxe1"
            watch[which] = {
                "hang": expected["hang"], "killed": expected["killed"], "lines": lines, "settings": settings,
                # The first of two stops is for a look at what rdma(8) lists.
                "looks": words.count("go") == 2 and not expected["killed"],
                # Longer than what starts up slowly may take; without lines that only a hang can fill.
                "patience": 10 if lines else 0, "pause": 0.1 if lines else 1.0,
            }  # fmt: skip
        plan.add(
            name, "acks", {"program": modes}, modes=list(modes), preload=preload,
            argv=dict.fromkeys(modes, ["./acks", *words]), watch=watch, has_events=True, timeout=60,
            device="rxe1" if uses_ports else "rxe0",
        )  # fmt: skip
