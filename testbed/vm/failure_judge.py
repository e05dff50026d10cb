"""Compares the completions that ctests/kernel/failures.c was given with what the shim said of them.

The cases, and under "expect" for each:
    a, b      status of the first failure of QP a and b; None: its work requests are only flushed; absent: none fails
    moved     the program moves b to ERR itself: nothing is to be said of it
"""

import ipaddress
import re

MODES = ("plain", "off", "errors", "full")

# enum ibv_wc_status
STATUSES = {
    2: "LOC_QP_OP_ERR", 5: "WR_FLUSH_ERR", 10: "REM_ACCESS_ERR", 11: "REM_OP_ERR", 12: "RETRY_EXC_ERR", 13: "RNR_RETRY_EXC_ERR",
}  # fmt: skip
FLUSH = 5

# What Soft-RoCE of kernel 6.1 does. A wrong key or a message that is too long is a local QP operation error there, and
# a remote one at the other side.
CASES = {
    "rnr": {"a": 13},
    "bad_lkey": {"a": 2},
    "bad_rkey": {"a": 10, "b": None},
    "unsignalled": {"a": 10, "b": None},
    "dead_peer": {"a": 12},
    "reset_peer": {"a": 12},
    "too_long": {"a": 11, "b": 2},
    "receive_bad_lkey": {"a": 11, "b": 2},
    "own_move": {"b": None, "moved": True},
    "overrun": {"overrun": True},
    "extended": {"a": 10, "b": None},
    "srq": {"a": 11, "b": 2},
}


# What is said where all is counted: before it happens, and when it has.
OVERRUN = [
    r"CQ handle \d+ \(rxe0\): 2 work requests are outstanding that may complete to it, and it has room for 1 .*",
    r"CQ handle \d+ \(rxe0\): CQ_ERR: it was most likely overrun, .*",
]


class Qp:
    def __init__(self, number, handle, peer, gid):
        self.number, self.handle = number, handle
        address = ipaddress.IPv6Address(bytes.fromhex(gid))
        self.gid = f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)
        self.text = f"QP qp_num {number} (handle {handle}, rxe0), peer qp_num {peer} at GID {self.gid}"
        self.peer = peer
        self.failures, self.flushes = [], []
        self.flushed_before = 0

    def take(self, status, vendor_err, wr_id):
        if status == FLUSH:
            self.flushes.append(wr_id)
            return
        if not self.failures:
            self.flushed_before = len(self.flushes)
        self.failures.append((status, vendor_err, wr_id))

    def line(self):
        """What is to be said of it, as a regular expression; None: nothing."""
        if self.failures:
            status, vendor_err, wr_id = self.failures[0]
            before = rf", of which {requests(self.flushed_before)} that (was|were) polled before" if self.flushed_before else ""
            failure = re.escape(f"{self.text}: first failure {STATUSES[status]} (vendor_err {vendor_err:#x}, wr_id {wr_id:#x}): ")
            return failure + r"[^;]*(; [^;]*)*; WR_FLUSH_ERR on this QP only follows from it" + before
        if self.flushes:
            flushed = f"{requests(len(self.flushes))} (WR_FLUSH_ERR, first wr_id {self.flushes[0]:#x}): "
            unseen = "no first failure was visible to this process: "
            return re.escape(f"{self.text}: {flushed}{unseen}") + r".*an event that says why .* may lie unread.*"
        return None

    def verdict(self, moved):
        """The same in the report, without times and threads."""
        cause = {"kind": "moved", "to": "ERR"} if moved else {"kind": "unknown"}
        if self.failures:
            status, vendor_err, wr_id = self.failures[0]
            cause = {"kind": "failure", "status": STATUSES[status], "vendor_err": vendor_err, "wr_id": f"{wr_id:#x}"}
        return {
            "qp_num": self.number, "handle": self.handle, "foreign": False, "state": "destroyed",
            "peer": {"qp_num": self.peer, "lid": None, "gid": self.gid},
            "failures": len(self.failures), "flushes": len(self.flushes),
            "first_flush_wr_id": f"{self.flushes[0]:#x}" if self.flushes else None, "cause": cause,
        }  # fmt: skip


def requests(number):
    return "1 work request was flushed" if number == 1 else f"{number} work requests were flushed"


def qps_of(output):
    """The QPs by name, with what the program was given of each."""
    qps = {}
    for line in output.splitlines():
        match line.split():
            case ["qp", name, _, number, _, handle, _, peer, _, gid]:
                qps[name] = Qp(int(number), int(handle), int(peer), gid)
            case ["completion", name, _, status, _, vendor_err, _, wr_id]:
                qps[name].take(int(status), int(vendor_err), int(wr_id))
    return qps


def judge(verdict, expected):
    for mode in verdict.check["modes"]:
        process = verdict.runs.get(mode, {}).get("program")
        if process is None:
            verdict.wrong(f"{mode}: did not run")
            continue
        judge_program(verdict, mode, process, expected)
        if mode != "plain":
            judge_shim(verdict, mode, process, expected)


def judge_program(verdict, mode, process, expected):
    """That what is to be explained did happen, in every mode alike."""
    if process["exit"] != 0 or "all destroyed and closed" not in process["out"]:
        verdict.wrong(f"{mode}: it ends with {process['exit']}:\n{process['out']}\n{process['err']}")
    for got, wanted in re.findall(r"^polled (\d+) of (\d+)$", process["out"], re.MULTILINE):
        if int(got) < int(wanted):
            verdict.wrong(f"{mode}: {got} of {wanted} completions came")
    for name, qp in qps_of(process["out"]).items():
        first = qp.failures[0][0] if qp.failures else None
        if first != expected.get(name):
            verdict.wrong(f"{mode}: the first failure of {name} is {first}, should be {expected.get(name)}")
        if name in expected and expected[name] is None and not qp.flushes:
            verdict.wrong(f"{mode}: nothing of {name} was flushed")


def judge_shim(verdict, mode, process, expected):
    qps = qps_of(process["out"])
    lines = [line.split("]: ", 1)[-1] for line in process["err"].splitlines()]
    wanted = [qp.line() for name, qp in qps.items() if not (expected.get("moved") and name == "b")] if mode != "off" else []
    if expected.get("overrun") and mode == "full":
        wanted += OVERRUN
    for pattern in filter(None, wanted):
        said = [line for line in lines if re.fullmatch(pattern, line)]
        if len(said) != 1:
            verdict.wrong(f"{mode}: {len(said)} times, should be once: {pattern}")
        lines = [line for line in lines if line not in said]
    if lines:
        verdict.wrong(f"{mode}: said too much: {lines}")
    if len(process["reports"]) != 1:
        verdict.wrong(f"{mode}: {len(process['reports'])} reports, should be 1")
        return
    judge_report(verdict, mode, verdict.read_report(process["reports"][0]), qps, expected)


def judge_report(verdict, mode, report, qps, expected):
    (context,), (device,) = report["contexts"], report["devices"]
    completions = device["completions"]
    if mode == "off":
        verdict.equal(f"{mode}: verdicts, failed", (context["verdicts"], completions["failed"]), ([], None))
        return
    statuses = {}
    for qp in qps.values():
        for status in [status for status, *_ in qp.failures] + [FLUSH] * len(qp.flushes):
            statuses[STATUSES[status]] = statuses.get(STATUSES[status], 0) + 1
    verdict.equal(f"{mode}: by_status", completions["by_status"], statuses)
    verdict.equal(f"{mode}: failed", completions["failed"], sum(statuses.values()))
    verdict.equal(f"{mode}: unattributed, poll_errors", (completions["unattributed"], completions["poll_errors"]), (0, 0))
    verdict.equal(f"{mode}: polled is counted", completions["polled"] is not None, mode == "full")
    found = {entry["qp_num"]: without_times(entry) for entry in context["verdicts"]}
    should = {
        qp.number: qp.verdict(expected.get("moved") and name == "b") for name, qp in qps.items() if qp.failures or qp.flushes
    }
    verdict.equal(f"{mode}: verdicts", found, should)
    said = len([qp for name, qp in qps.items() if qp.line() and not (expected.get("moved") and name == "b")])
    if expected.get("overrun") and mode == "full":
        said += len(OVERRUN)
    verdict.equal(f"{mode}: incidents", len(report["incidents"]), said)


def without_times(entry):
    kept = {"kind", "to", "status", "vendor_err", "wr_id"}
    return {**entry, "cause": {key: value for key, value in entry["cause"].items() if key in kept}}


def add_to(plan):
    for name, expected in CASES.items():
        plan.add(
            f"failing: {name}", "single", {"failing": expected}, modes=MODES, argv=dict.fromkeys(MODES, ["./failures", name]),
            has_events=True, timeout=90,
        )  # fmt: skip
