"""The checks that check.py runs: which programs, what they are asked to do, and what must be counted.

Every check is one dictionary that guest/runner.py carries out in the VM, plus its expectation under
"expect" (that of the kind "acks" is in ack_checks.py): for each role ("program", "client", "server") a
dictionary with any of
    success      successful completions polled, exactly (extended CQs included)
    polled       (lowest, highest) number of completions polled
    failed       completions with an error
    comp_events  completion events, exactly
    some_events  there must be completion events (strace knows how many)
    async        asynchronous events by name
    printed      a function that finds in the program's own output a dictionary of the above
    balanced     all objects destroyed, all contexts closed
"says" lists the lines (regular expressions) that the shim alone prints, each once; "may_say" those that it may print.
"""

import re

import ack_checks
import failure_judge

ADDRESS = "10.9.0.1"
ADDRESS6 = "fd00:9::1"
MODES = ("plain", "shim", "strace")

# enum ibv_event_type
EVENTS = {
    0: "CQ_ERR", 1: "QP_FATAL", 2: "QP_REQ_ERR", 3: "QP_ACCESS_ERR", 4: "COMM_EST", 5: "SQ_DRAINED",
    6: "PATH_MIG", 7: "PATH_MIG_ERR", 8: "DEVICE_FATAL", 9: "PORT_ACTIVE", 10: "PORT_ERR", 11: "LID_CHANGE",
    12: "PKEY_CHANGE", 13: "SM_CHANGE", 14: "SRQ_ERR", 15: "SRQ_LIMIT_REACHED", 16: "QP_LAST_WQE_REACHED",
    17: "CLIENT_REREGISTER", 18: "GID_CHANGE",
}  # fmt: skip


def same_names(events):
    """Event types that only newer versions name are compared by number."""
    return {{"DEVICE_SPEED_CHANGE": "event 20"}.get(name, name): count for name, count in events.items() if count}


def watched_events(output):
    """What ibv_asyncwatch printed."""
    counts = {}
    for name in re.findall(r"^  event_type IBV_EVENT_(\w+) ", output, re.MULTILINE):
        counts[name] = counts.get(name, 0) + 1
    return {"async": counts}


def taken_events(output):
    """What ctests/kernel/events.c printed."""
    counts = {}
    for number in re.findall(r"^event (\d+) ", output, re.MULTILINE):
        name = EVENTS.get(int(number), f"event {number}")
        counts[name] = counts.get(name, 0) + 1
    return {"async": counts}


def taken_completions(output):
    """What ctests/kernel/extended_cq.c printed."""
    return {"success": int(number) for number in re.findall(r"^completions (\d+)$", output, re.MULTILINE)}


def thread_totals(output):
    """What ctests/kernel/threads64.c printed."""
    match = re.search(r"rounds (\d+) completions (\d+) comp_events (\d+) async_events (\d+)", output)
    if not match:
        return {}
    rounds, completions, comp_events, async_events = map(int, match.groups())
    return {
        "success": completions,
        "failed": 0,
        "comp_events": comp_events,
        "async": {"SRQ_LIMIT_REACHED": async_events},
        "objects": {"qp": 2 * rounds, "cq": 2 * rounds, "srq": rounds, "comp_channel": rounds},
        "contexts": rounds,
    }


class Plan:
    """Collects the checks; `full` means the counts of a soak run."""

    def __init__(self, soak, version):
        self.soak = soak
        self.version = int(version)
        # The oldest version is the one that most machines have; it gets the thorough run.
        self.thorough = soak or version == "44"
        self.checks = []
        self.next_port = 18500

    def count(self, soak, usual, reduced):
        return soak if self.soak else usual if self.thorough else reduced

    def add(self, name, kind, expect, timeout=60, alone=False, modes=None, **how):
        preload = how.pop("preload", [])
        # Where no events are, strace has nothing to count: a reduced run leaves that out.
        modes = modes or (MODES if self.thorough or how.pop("has_events", False) else MODES[:2])
        how.pop("has_events", None)
        self.checks.append(
            dict(name=name, kind=kind, expect=expect, timeout=timeout, alone=alone, modes=list(modes), preload=preload, **how)
        )

    def single(self, name, argv, expect, **how):
        by_mode = argv if isinstance(argv, dict) else dict.fromkeys(MODES, argv)
        self.add(name, "single", {"program": expect}, argv={mode: words.split() for mode, words in by_mode.items()}, **how)

    def pair(self, name, server, client, expect_server, expect_client, port=0, end_server=False, **how):
        self.add(
            name, "pair", {"server": expect_server, "client": expect_client},
            server=server.split(), client=client.split(), port=port, end_server=end_server, **how,
        )  # fmt: skip

    def pingpong(self, program, options, expect, name=None, devices=("rxe0", "rxe0"), gid=1, **how):
        self.next_port += 1
        common = f"-p {self.next_port} {options}".strip()
        self.pair(
            name or " ".join(f"{program} {options}".split()),
            f"{program} -d {devices[0]} -g {gid} {common}",
            f"{program} -d {devices[1]} -g {gid} {common} {ADDRESS}",
            expect, expect, port=self.next_port, **how,
        )  # fmt: skip

    def perftest(self, program, options, expect_server, expect_client, name=None, devices=("rxe0", "rxe0"), **how):
        self.next_port += 1
        # -F: no word about the processor's clock; -Q 1: every work request gives its completion.
        common = f"-x 1 -F -p {self.next_port} -n {self.iterations} {options}".strip()
        uses_cm = "-R" in options.split()
        self.pair(
            name or " ".join(f"{program} {options}".split()),
            f"{program} -d {devices[0]} {common}",
            f"{program} -d {devices[1]} {common} {ADDRESS}",
            expect_server, expect_client, port=0 if uses_cm else self.next_port, **how,
        )  # fmt: skip

    def pingpongs(self):
        n = self.count(1000, 200, 100)
        twice = {"success": 2 * n, "failed": 0, "balanced": True}
        for program in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"):
            self.pingpong(program, f"-n {n}", twice)
        # Each of the 16 QPs may have one message more under way when the count is reached.
        several = {"polled": (2 * n, 2 * n + 32), "failed": 0, "balanced": True}
        self.pingpong("ibv_srq_pingpong", f"-n {n}", several)
        with_events = {**twice, "some_events": True}
        for program in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong"):
            self.pingpong(program, f"-e -n {n}", with_events, has_events=True)
        self.pingpong("ibv_srq_pingpong", f"-e -n {n}", {**several, "some_events": True}, has_events=True)
        self.pingpong("ibv_rc_pingpong", f"-N -n {n}", twice)
        self.pingpong("ibv_rc_pingpong", f"-n {n}", twice, name=f"ibv_rc_pingpong IPv6 -n {n}", gid=2)
        self.pingpong("ibv_rc_pingpong", f"-n {n}", twice, name=f"ibv_rc_pingpong rxe1 to rxe2 -n {n}", devices=("rxe1", "rxe2"))
        self.pingpong(
            "ibv_rc_pingpong", f"-e -n {n}", with_events,
            name=f"ibv_rc_pingpong IPv6 rxe1 to rxe2 -e -n {n}", devices=("rxe1", "rxe2"), gid=2, has_events=True,
        )  # fmt: skip

    def perftests(self):
        n = self.iterations = self.count(1000, 200, 100)
        none, once = {"polled": (0, 0), "balanced": False}, {"success": n, "failed": 0}
        twice = {"success": 2 * n, "failed": 0}
        sized = "-Q 1 -s 4096"
        self.perftest("ib_send_bw", sized, once, once)
        self.perftest("ib_send_bw", "-Q 1 -s 1024 -c UD", once, once)
        self.perftest("ib_send_bw", f"{sized} -c UC", once, once)
        # With -e perftest takes a batch of completions per event and may wait for ever when more are there;
        # its usual one completion per 100 requests avoids that.
        hundredth = {"success": n // 100, "failed": 0}
        self.perftest("ib_send_bw", "-s 65536 -e", {**once, "some_events": True}, {**hundredth, "some_events": True}, has_events=True)
        self.perftest("ib_send_bw", f"{sized} --use-srq", once, once)
        self.perftest("ib_send_bw", f"{sized} -b", twice, twice)
        four = {"success": 4 * n, "failed": 0}
        self.perftest("ib_send_bw", f"{sized} -q 4", four, four)
        # Over the RDMA CM the two sides also exchange their parameters by messages of their own.
        cm = {"polled": (n, n + 60), "failed": 0}
        self.perftest("ib_send_bw", f"{sized} -R", cm, cm)
        self.perftest("ib_send_lat", "", twice, twice)
        self.perftest("ib_send_lat", "-c UD", twice, twice)
        self.perftest("ib_send_lat", "-c UC -e", {**twice, "some_events": True}, {**twice, "some_events": True}, has_events=True)
        self.perftest("ib_write_bw", sized, none, once)
        self.perftest("ib_write_bw", f"{sized} -c UC", none, once)
        self.perftest("ib_write_bw", f"{sized} -q 4", none, four)
        self.perftest("ib_write_bw", sized, none, once, name=f"ib_write_bw rxe1 to rxe2 {sized}", devices=("rxe1", "rxe2"))
        self.perftest("ib_write_lat", "", once, once)
        self.perftest("ib_write_lat", "-R", cm, cm)
        self.perftest("ib_read_bw", sized, none, once)
        self.perftest("ib_read_bw", "-s 4096 -e", none, {**hundredth, "some_events": True}, has_events=True)
        self.perftest("ib_read_lat", "", none, once)
        self.perftest("ib_atomic_bw", "-Q 1", none, once)
        self.perftest("ib_atomic_lat", "", none, once)

    def rpings(self):
        n = self.count(200, 20, 10)
        # Each round: four messages for either side, and the server reads and writes the client's memory.
        # The receive that waits when the connection ends is flushed.
        server = {"success": 6 * n, "failed": 1, "some_events": True}
        client = {"success": 4 * n, "failed": 1, "some_events": True}
        # rping may hang at its end, also alone; await_disconnect.c says why.
        orderly = "/in/await_disconnect.so"
        self.pair(f"rping -C {n}", f"rping -s -a {ADDRESS} -C {n} -V", f"rping -c -a {ADDRESS} -C {n} -V -v",
                  server, client, has_events=True, preload=[orderly])  # fmt: skip
        self.pair(f"rping IPv6 -C {n}", f"rping -s -a {ADDRESS6} -C {n}", f"rping -c -a {ADDRESS6} -C {n} -v",
                  server, client, has_events=True, preload=[orderly])  # fmt: skip
        self.pair(f"rping -P -C {n}", f"rping -s -P -a {ADDRESS}", f"rping -c -a {ADDRESS} -C {n} -V",
                  server, client, has_events=True, end_server=True, preload=[orderly, "/in/exit_on_term.so"])  # fmt: skip

    def watchers(self):
        flaps = self.count(5, 2, 1)
        actions = []
        for _ in range(flaps):
            actions += [
                {"run": ["ip", "link", "set", "dummy0", "down"], "settle": 0.6},
                {"run": ["ip", "link", "set", "dummy0", "up"], "settle": 0.6},
            ]
        actions += [
            {"run": ["ip", "addr", "add", "10.9.0.77/24", "dev", "dummy0"], "settle": 0.4},
            {"run": ["ip", "addr", "del", "10.9.0.77/24", "dev", "dummy0"], "settle": 0.4},
        ]
        self.add(
            "ibv_asyncwatch, port down and up", "watched",
            {"program": {"printed": watched_events, "at_least": {"PORT_ERR": flaps, "PORT_ACTIVE": flaps, "GID_CHANGE": 1}}},
            argv=dict.fromkeys(MODES, "stdbuf -oL ibv_asyncwatch -d rxe0".split()),
            preload=["/in/exit_on_term.so"], ready="async event FD", actions=actions, end="term", alone=True,
            # The link's global IPv6 address went with the link.
            restore=[["ip", "-6", "addr", "add", f"{ADDRESS6}/64", "dev", "dummy0", "nodad"]], has_events=True,
            # The kernel sends PORT_ERR and GID_CHANGE from different work queues.
            any_order=True,
        )  # fmt: skip

        factor = self.count(40, 1, 1)
        kinds = {0: "cq", 8: "dev", 14: "srq", 15: "srq", **dict.fromkeys([1, 2, 3, 4, 5, 6, 7, 16], "qp")}
        # 20 is DEVICE_SPEED_CHANGE, which only newer versions know; 40 is nobody's yet.
        # GID_CHANGE cannot be injected; the check above sees real ones.
        numbers = [*(number for number in EVENTS if EVENTS[number] != "GID_CHANGE"), 20, 40]
        # Different numbers for neighbours: events counted under a wrong type show.
        injected = [[kinds.get(number, "port"), number, (number % 3 + 1) * factor] for number in numbers]
        self.add(
            "every event type, injected", "watched",
            {"program": {"async": {EVENTS.get(number, f"event {number}"): times for _, number, times in injected},
                         "printed": taken_events, "balanced": True}},
            argv=dict.fromkeys(MODES, ["./events", "hold", "rxe0", "1"]), device="rxe0",
            ready="holding", actions=[{"inject": injected, "settle": 0.3}], end="eof", alone=True, restore=[], has_events=True,
            # The kernel passes events of ports and of objects on by different ways.
            any_order=True,
            says=[r"rxe0 \(context 1\): the device has failed or is gone: DEVICE_FATAL was read by thread \d+ \(events\)",
                  r"CQ handle \d+ \(rxe0\): CQ_ERR: it was most likely overrun, .*"],
        )  # fmt: skip

    def natural_events(self):
        modes = {
            "cq_err": {"at_least": {"CQ_ERR": 1}},
            "srq_limit": {"async": {"SRQ_LIMIT_REACHED": 1}, "success": 10},
            "sq_drained": {"async": {"SQ_DRAINED": 1}, "success": 120},
            "bad_rkey_write": {"async": {}, "failed": 65},
        }
        if self.soak:
            for name in ("comm_est", "too_long", "bad_rkey_read", "bad_address_write", "no_permission_write",
                         "no_permission_read", "no_permission_atomic", "misaligned_atomic", "last_wqe",
                         "last_wqe_remote", "bad_lkey", "receive_bad_lkey", "no_receive", "dead_peer"):  # fmt: skip
                modes[name] = {}
        overrun = [r"CQ handle \d+ \(rxe0\): 4 work requests are outstanding that may complete to it, and it has room for 3 .*",
                   # The program goes on posting, up to 40, while its thread for events reads this one.
                   r"CQ handle \d+ \(rxe0\): CQ_ERR: it was most likely overrun, .* at most ([4-9]|[123]\d|40) work requests were seen .*"]  # fmt: skip
        failing = {"cq_err": overrun, "bad_rkey_write": [r"QP qp_num \d+ .*: first failure REM_ACCESS_ERR .*", r"QP qp_num \d+ .*: 64 work requests were flushed .*"]}
        # Of the others some fail, as the device does it: what is to be said of that is failure_judge.py's to know.
        explained = [r"QP qp_num \d+ \(.*: (first failure|\d+ work requests? (was|were) flushed) .*"]
        for mode, expect in modes.items():
            self.single(
                f"events {mode}", f"./events {mode} rxe0 1", {"printed": taken_events, "balanced": True, **expect},
                has_events=True, says=failing.get(mode, []), may_say=[] if expect else explained,
            )  # fmt: skip

    def extended_cqs(self):
        n = self.count(1000, 50, 20)
        # Which this rdma-core gives twice.
        gap = {"gap": "may be counted too often"} if self.version < 59 else {}
        self.single(
            f"extended CQ, {n} messages", f"./extended_cq {n}",
            {"printed": taken_completions, "failed": 0, "balanced": True, **gap},
        )  # fmt: skip

    def threads(self):
        # Without the shim, and under strace, it is only there for comparison.
        seconds = self.count(60, 10, 3)
        self.single(
            f"64 threads, {seconds} s",
            {"plain": "./threads64 1", "shim": f"./threads64 {seconds}", "strace": "./threads64 1 rxe0 1 8"},
            {"printed": thread_totals, "balanced": True}, timeout=seconds + 200, alone=True, has_events=True,
        )  # fmt: skip

    def failures(self):
        """What Soft-RoCE does not serve fails with the shim as it does without."""
        nothing = {"polled": (0, 0)}
        self.pingpong("ibv_rc_pingpong", "-t", nothing, name="ibv_rc_pingpong -t (no timestamps)", must_fail=True)
        self.pingpong("ibv_xsrq_pingpong", "", nothing, name="ibv_xsrq_pingpong (no XRC)", must_fail=True)
        self.single("create_wq, XRC, timestamps, import (not served)", "./unsupported", {"balanced": True})
        self.single("ibv_devinfo of no device", "ibv_devinfo -d nosuch", None, must_fail=True)


def make_plan(version, soak):
    plan = Plan(soak, version)
    plan.single("ibv_devices", "ibv_devices", None)
    plan.single("ibv_devinfo -v", "ibv_devinfo -v", {"polled": (0, 0), "balanced": True})
    plan.pingpongs()
    plan.perftests()
    plan.rpings()
    plan.natural_events()
    plan.extended_cqs()
    plan.failures()
    plan.watchers()
    plan.threads()
    ack_checks.add_to(plan)
    failure_judge.add_to(plan)
    return plan.checks
