#!/usr/bin/env python3
"""check.py: runs the checks of checks.py in the VM and judges what guest/runner.py tells. See check.sh."""

import argparse
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import ack_judge
import checks
import failure_judge

HERE = os.path.dirname(os.path.abspath(__file__))
# Programs that poll without end take a processor each: two such checks at a time would only disturb each other.
PARALLEL = 1
# Checks of destroys that hang mostly sleep.
CROWD = 16
PROGRAMS = ("acks", "acks_plugin.so", "device_gone.so", "events", "extended_cq", "failures", "threads64", "unsupported", "exit_on_term.so", "await_disconnect.so")

# What differs from run to run: measured times and rates, numbers and addresses that the kernel hands out.
MASKS = [
    (re.compile(r"\b(QPN|PSN|RKey|LID) (0x[0-9a-f]+|0000)", re.IGNORECASE), r"\1 #"),
    (re.compile(r"\b(VAddr) 0x[0-9a-f]+", re.IGNORECASE), r"\1 #"),
    (re.compile(r" in [\d.]+ seconds = [\d.]+ "), " in # seconds = # "),
    # perftest's table: size and iterations stay, what was measured goes.
    (re.compile(r"^( *\d+ +\d+) +(?:-?(?:[\d.]+|inf|nan)\s*)+$", re.MULTILINE), r"\1 #"),
    # perftest's doubts about the processor's clock
    (re.compile(r"^(Conflicting CPU frequency values|Correlation coefficient r).*\n", re.MULTILINE), ""),
    # our own programs
    (re.compile(r"^a=\d+ b=\d+$", re.MULTILINE), "a=# b=#"),
    (re.compile(r"^completions \d+$", re.MULTILINE), "completions #"),
    (re.compile(r"^threads \d+ rounds .*$", re.MULTILINE), "threads # rounds #"),
]


def masked(text):
    for pattern, replacement in MASKS:
        text = pattern.sub(replacement, text)
    return text


def count_reads(lines):
    """Successful reads of event descriptors in a strace log, as (completion events, asynchronous events).

    The kernel hands out whole records: 8 bytes on a completion channel, 16 on async_fd. A call that
    strace had to interrupt stands on two lines, the descriptor on the first, the result on the second.
    """
    sizes = {8: 0, 16: 0}
    open_calls = {}
    for line in lines:
        thread, _, call = line.partition(" ")
        call = call.strip()
        if "<unfinished" in call:
            open_calls[thread] = call
            continue
        if call.startswith("<... read resumed>"):
            call = open_calls.pop(thread, "") + call
        if not re.match(r"read\(\d+<[^>]*infinibandevent", call):
            continue
        result = re.search(r"= (\d+)$", call)
        if not result:
            continue  # an error, or interrupted
        length = int(result.group(1))
        if length in sizes:
            sizes[length] += 1
    return sizes[8], sizes[16]


def add(sum_so_far, count):
    """What was not counted is null, and so is a sum of it."""
    return None if count is None else sum_so_far + count


class Report:
    """A report of the shim, summed over its devices."""

    def __init__(self, text):
        report = json.loads(text)
        if report["schema"] != "ibv_sa.report/1":
            raise ValueError("unknown schema " + report["schema"])
        self.partial = report["partial"]
        self.gaps = report.get("gaps", [])
        self.counts_all = report["cq_mode"] == "full"
        self.opened = self.adopted = self.closed = self.polled = self.failed = 0
        self.comp_got = self.comp_acked = 0
        self.async_got, self.objects = {}, {}
        for device in report["devices"]:
            self.opened += device["contexts"]["opened"]
            self.adopted += device["contexts"]["adopted"]
            self.closed += device["contexts"]["closed"]
            self.polled = add(self.polled, device["completions"]["polled"])
            self.failed = add(self.failed, device["completions"]["failed"])
            self.comp_got += device["comp_events"]["got"]
            self.comp_acked += device["comp_events"]["acked"]
            for name, count in device["async_events"].items():
                self.async_got[name] = self.async_got.get(name, 0) + count
            for kind, lives in device["objects"].items():
                created, destroyed = self.objects.get(kind, (0, 0))
                self.objects[kind] = created + lives["created"], destroyed + lives["destroyed"]
        self.async_acked = report["async_acks"]


class Verdict:
    """Collects what is wrong with one check."""

    def __init__(self, version, check):
        self.version = version
        self.check = check
        self.problems = []
        self.runs = {}
        self.seconds = 0.0

    def wrong(self, text):
        self.problems.append(text)

    def equal(self, what, seen, expected):
        if seen != expected:
            self.wrong(f"{what}: the report says {seen}, should be {expected}")

    def add_run(self, message):
        self.seconds += message["seconds"]
        if message["error"]:
            self.wrong(f"{message['mode']}: could not be run: {message['error']}")
        self.runs[message["mode"]] = {process["role"]: process for process in message["processes"]}

    def complete(self):
        return set(self.runs) == set(self.check["modes"])

    @staticmethod
    def read_report(text):
        return json.loads(text)

    def judge(self):
        if self.check["kind"] == "acks":
            ack_judge.judge(self, self.check["expect"]["program"])
            return
        if "failing" in self.check["expect"]:
            failure_judge.judge(self, self.check["expect"]["failing"])
            return
        for role, expect in self.check["expect"].items():
            processes = {mode: run[role] for mode, run in self.runs.items() if role in run}
            if set(processes) != set(self.check["modes"]):
                self.wrong(f"{role}: did not run in every mode")
                continue
            self.compare_behaviour(role, processes)
            for mode, process in processes.items():
                if mode != "plain":
                    self.judge_report(f"{role}, {mode}", process, expect, mode == "strace")

    def compare_behaviour(self, role, processes):
        plain = processes["plain"]
        # A signal (a negative status) or a time-out is a failure of the bed, also where the program should fail.
        right = isinstance(plain["exit"], int) and (plain["exit"] > 0 if self.check.get("must_fail") else plain["exit"] == 0)
        if not right:
            self.wrong(f"{role}: without the shim it ends with {plain['exit']}; standard error:\n{plain['err']}")
        for mode, process in processes.items():
            if process["exit"] != plain["exit"]:
                self.wrong(
                    f"{role}: exit status {plain['exit']} without the shim, {process['exit']} with it ({mode}); "
                    f"standard error:\n{process['err']}"
                )
        for stream in ("out", "err"):
            without, with_shim = masked(plain[stream]), masked(processes["shim"][stream])
            for line in self.check.get("says", []) if stream == "err" else []:
                with_shim, times = re.subn(rf"^ibv_sa\[\d+\]: {line}\n", "", with_shim, flags=re.MULTILINE)
                if times != 1:
                    self.wrong(f"{role}: {times} times, should be once, on standard error: {line}")
            for line in self.check.get("may_say", []) if stream == "err" else []:
                with_shim = re.sub(rf"^ibv_sa\[\d+\]: {line}\n", "", with_shim, flags=re.MULTILINE)
            if self.check.get("any_order"):
                without, with_shim = ("\n".join(sorted(text.splitlines())) for text in (without, with_shim))
            if without != with_shim:
                difference = difflib.unified_diff(
                    without.splitlines(), with_shim.splitlines(), "without the shim", "with the shim", lineterm="", n=1
                )
                self.wrong(f"{role}: standard {'output' if stream == 'out' else 'error'} differs:\n" + "\n".join(difference))

    def judge_report(self, who, process, expect, traced):
        if expect is None:  # opens no device
            if process["reports"]:
                self.wrong(f"{who}: a report without RDMA calls: {process['reports'][0]}")
            return
        if len(process["reports"]) != 1:
            self.wrong(f"{who}: {len(process['reports'])} reports, should be 1")
            return
        try:
            report = Report(process["reports"][0])
        except (ValueError, KeyError, TypeError) as failure:
            self.wrong(f"{who}: the report cannot be read ({failure!r}): {process['reports'][0]}")
            return

        # What is known to be counted wrongly has to be said, if it was counted, and nothing else.
        gap = expect.get("gap") if report.counts_all else None
        if report.partial != bool(gap) or not all(gap in found for found in report.gaps):
            self.wrong(f"{who}: the report is partial: {report.gaps}, should be: {gap}")
        # Every program here acks all that it got.
        self.equal(f"{who}: completion events acked", report.comp_acked, report.comp_got)
        self.equal(f"{who}: asynchronous events acked", report.async_acked, report.async_got)

        expect = dict(expect)
        if "printed" in expect:
            for key, value in expect.pop("printed")(process["out"]).items():
                if key in expect and checks.same_names(expect[key]) != checks.same_names(value):
                    self.wrong(f"{who}: the program itself counted {key} {value}, should be {expect[key]}")
                expect[key] = value
        got = checks.same_names(report.async_got)
        # Only with IBV_SA_CQ=full are good completions counted.
        if "success" in expect and report.polled is not None:
            self.equal(f"{who}: successful completions", report.polled - report.failed, expect["success"])
        if "polled" in expect and report.polled is not None:
            lowest, highest = expect["polled"]
            if not lowest <= report.polled <= highest:
                self.wrong(f"{who}: completions polled: {report.polled}, should be {lowest} to {highest}")
        if "failed" in expect:
            self.equal(f"{who}: failed completions", report.failed, expect["failed"])
        if "comp_events" in expect:
            self.equal(f"{who}: completion events", report.comp_got, expect["comp_events"])
        if expect.get("some_events") and report.comp_got == 0:
            self.wrong(f"{who}: no completion events")
        if "async" in expect:
            self.equal(f"{who}: asynchronous events", got, checks.same_names(expect["async"]))
        for name, least in expect.get("at_least", {}).items():
            if got.get(name, 0) < least:
                self.wrong(f"{who}: {name}: {got.get(name, 0)}, should be at least {least}")
        for kind, number in expect.get("objects", {}).items():
            self.equal(f"{who}: {kind} created", report.objects[kind][0], number)
        if "contexts" in expect:
            self.equal(f"{who}: contexts opened", report.opened, expect["contexts"])
        self.equal(f"{who}: contexts adopted", report.adopted, 0)
        if expect.get("balanced"):
            self.equal(f"{who}: contexts closed", report.closed, report.opened)
            for kind, (created, destroyed) in report.objects.items():
                self.equal(f"{who}: {kind} destroyed", destroyed, created)
        if traced:
            comp_reads, async_reads = count_reads(process["reads"])
            self.equal(f"{who}: completion events (reads that strace saw)", report.comp_got, comp_reads)
            self.equal(f"{who}: asynchronous events (reads that strace saw)", sum(got.values()), async_reads)

    def print_line(self):
        lines = [f"{'FAIL' if self.problems else 'ok  '}  {self.version}  {self.check['name']:<50} {self.seconds:6.1f} s"]
        for problem in self.problems:
            lines += ["          " + line for line in problem.splitlines()]
        say("\n".join(lines))
        return not self.problems


print_lock = threading.Lock()


def say(text):
    """One piece of output; the versions run side by side."""
    with print_lock:
        print(text, flush=True)


def read_file(path):
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


def check_version(version, arguments):
    """Runs the checks on one image; returns (passed, failed)."""
    plan = checks.make_plan(version, arguments.soak)
    if arguments.only:
        plan = [check for check in plan if re.search(arguments.only, check["name"])]
    image = os.path.join(arguments.images, f"vm-{version}")
    kernel = read_file(os.path.join(arguments.images, "kernel", "version"))
    say(f"      {version}  rdma-core {read_file(image + '/rdma-core-version')}, kernel {kernel}, Soft-RoCE: {len(plan)} checks")
    start = time.monotonic()
    if not plan:
        return 0, 0

    verdicts = {check["name"]: Verdict(version, check) for check in plan}
    assert len(verdicts) == len(plan), "two checks have one name"
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="ibv_sa-check-") as directory:
        plan_file = os.path.join(directory, "plan.json")
        with open(plan_file, "w", encoding="utf-8") as file:
            shown = [{key: value for key, value in check.items() if key != "expect"} for check in plan]
            json.dump({"parallel": PARALLEL, "crowd": CROWD, "checks": shown}, file)
        files = [plan_file, os.path.join(HERE, "guest", "runner.py"), *(os.path.join(arguments.programs, name) for name in PROGRAMS)]
        # The name in the VM is fixed, whatever library is tested.
        shim = os.path.join(directory, "libibv_sa.so.1")
        os.symlink(os.path.realpath(arguments.shim), shim)
        limit = 3600 if arguments.soak else 900
        command = [os.path.join(HERE, "run.sh"), "--version", version, "--time", str(limit), "python3 runner.py plan.json", *files, shim]
        environment = {**os.environ, "TESTBED_DIR": arguments.images}
        ended = False
        other_output = []
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, errors="replace") as vm:
            for line in vm.stdout:
                try:
                    message = json.loads(line)
                except ValueError:
                    other_output.append(line)
                    continue
                if "note" in message:
                    say(f"note  {version}  {message['note']}")
                elif "done" in message:
                    ended = True
                else:
                    verdict = verdicts[message["check"]]
                    verdict.add_run(message)
                    if verdict.complete():
                        verdict.judge()
                        if verdict.print_line():
                            passed += 1
                        else:
                            failed += 1
                        del verdicts[message["check"]]
    if not ended:
        say(f"FAIL  {version}  the VM ended early (status {vm.returncode})\n" + "".join("          " + line for line in other_output))
    for verdict in verdicts.values():
        verdict.wrong("never came to its end")
        verdict.print_line()
        failed += 1
    say(f"      {version}  {passed} passed, {failed} failed in {time.monotonic() - start:.0f} s")
    return passed, failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shim", required=True, help="library under test")
    parser.add_argument("--programs", required=True, help="directory with the compiled programs of ctests/kernel")
    parser.add_argument("--images", required=True, help="directory with the VM images")
    parser.add_argument("--soak", action="store_true", help="full counts and times")
    parser.add_argument("--only", help="regular expression for the names of the checks")
    parser.add_argument("versions", nargs="+")
    arguments = parser.parse_args()

    # An emulated VM with these checks keeps less than one processor busy.
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        results = list(pool.map(lambda version: check_version(version, arguments), arguments.versions))
    passed, failed = (sum(counts) for counts in zip(*results))
    if passed + failed == 0:
        print("no check matches", file=sys.stderr)
        failed = 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
