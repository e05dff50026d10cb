#!/usr/bin/env python3
"""runner.py PLAN: inside the VM, run the plan's checks and tell the host what each process did.

One line of JSON on stdout per finished run (a check in one mode). Nothing is judged here: check.py on the
host compares. The modes: "plain" (the program alone), "shim" (with libibv_sa preloaded, reporting and counting
all completions), "strace" (with the usual settings, under strace, which counts the reads of event descriptors by
its own means), and "off", "errors" and "full", the values of IBV_SA_CQ.
"""

import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

SHIM = "/in/libibv_sa.so.1"
EVENT_FILE = "infinibandevent"  # what the kernel calls both async_fd and a completion channel's descriptor
GRACE = 10  # seconds that a server has to end by itself after its client

CQ_MODES = {"shim": "full", "off": "off", "errors": "errors", "full": "full"}

print_lock = threading.Lock()


def tell(**message):
    with print_lock:
        print(json.dumps(message), flush=True)


class Process:
    """One program under test, in one mode."""

    def __init__(self, role, argv, mode, preload, timeout, settings=None):
        self.role = role
        self.directory = tempfile.mkdtemp(prefix="run-")
        self.deadline = time.monotonic() + timeout
        environment = dict(settings or {})
        libraries = list(preload)
        if mode != "plain":
            libraries.append(SHIM)
            environment["IBV_SA_REPORT"] = f"json:{self.directory}/report.%p.json"
            if settings is None and mode in CQ_MODES:
                environment["IBV_SA_CQ"] = CQ_MODES[mode]
        if libraries:
            environment["LD_PRELOAD"] = " ".join(libraries)
        if mode == "strace":
            # -E: strace itself runs without the preload.
            settings = [word for item in environment.items() for word in ("-E", "=".join(item))]
            argv = ["strace", "-f", "--seccomp-bpf", "-y", "-e", "trace=read", "-o", self.path("strace"), *settings, *argv]
            environment = {}
        self.traced = mode == "strace"
        self.heard = None
        how = {"cwd": "/in", "env": {**os.environ, **environment}, "stdin": subprocess.PIPE}
        if settings is not None:
            self.popen = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how)
            self.heard = Heard(self.popen)
            return
        # Programs that poll without end would keep the kernel's packet processing from its processor.
        argv = ["nice", "-n", "19", *argv]
        with open(self.path("out"), "wb") as out, open(self.path("err"), "wb") as err:
            self.popen = subprocess.Popen(argv, stdout=out, stderr=err, **how)

    def path(self, name):
        return os.path.join(self.directory, name)

    def read(self, name):
        if self.heard and name in self.heard.text:
            return self.heard.text[name]
        try:
            with open(self.path(name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def pid(self):
        """The program's process, which is strace's child under strace; None before it exists."""
        if not self.traced:
            return self.popen.pid
        try:
            with open(f"/proc/{self.popen.pid}/task/{self.popen.pid}/children", encoding="ascii") as file:
                children = file.read().split()
        except FileNotFoundError:
            return None
        return int(children[0]) if children else None

    def alive(self):
        return self.popen.poll() is None

    def wait(self, seconds=None):
        """Waits for the end, at most so long; tells whether it came."""
        left = max(0, self.deadline - time.monotonic())
        try:
            self.popen.wait(left if seconds is None else min(seconds, left))
        except subprocess.TimeoutExpired:
            return False
        return True

    def signal(self, number):
        pid = self.pid()
        if pid is not None and self.alive():
            os.kill(pid, number)

    def result(self):
        """What it did; one that is still alive is killed and marked."""
        overdue = not self.wait()
        if overdue:
            self.signal(signal.SIGKILL)
            try:
                self.popen.wait(5)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        if self.heard:
            for thread in self.heard.threads:
                thread.join(5)
        reports = []
        for path in sorted(glob.glob(self.path("report.*"))):
            with open(path, encoding="utf-8", errors="replace") as file:
                reports.append(file.read())
        return {
            "role": self.role,
            "exit": "killed when the time was up" if overdue else self.popen.returncode,
            "out": self.read("out"),
            "err": self.read("err"),
            "reports": reports,
            "reads": [line for line in self.read("strace").splitlines() if EVENT_FILE in line or "resumed" in line],
        }


def wait_until(condition, process):
    """Waits for a condition that a process brings about; gives up when the process ends."""
    while process.alive() and time.monotonic() < process.deadline:
        if condition():
            return True
        time.sleep(0.03)
    return False


def is_listening(port):
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as file:
            for line in file:
                fields = line.split()
                if fields[1].endswith(wanted) and fields[3] == "0A":
                    return True
    return False


def listens_by_cm(process):
    """Whether an RDMA CM server accepts connections; rdma(8) knows."""
    listing = subprocess.run(["rdma", "-j", "resource", "show", "cm_id"], capture_output=True, text=True, check=False).stdout
    pid = process.pid()
    return any(entry.get("pid") == pid and entry.get("state") == "LISTEN" for entry in json.loads(listing or "[]"))


def run_single(check, mode):
    process = Process("program", check["argv"][mode], mode, check["preload"], check["timeout"])
    process.popen.stdin.close()
    return [process.result()]


def run_pair(check, mode):
    """With -R perftest's server stops listening to its first connection before it listens to its second: on a loaded
    machine the client comes between, is refused by the kernel, and perftest has no answer to that. Such a run says
    nothing of anybody else; there is another."""
    for _ in range(4):
        results = run_pair_once(check, mode)
        if "RDMA_CM_EVENT_REJECTED; error: 8." not in results[0]["err"]:
            break
        tell(note=f"{check['name']} ({mode}): nobody listened when the client's second connection came; again")
    return results


def run_pair_once(check, mode):
    server = Process("server", check["server"], mode, check["preload"], check["timeout"])
    if check["port"]:
        ready = wait_until(lambda: is_listening(check["port"]), server)
    else:
        ready = wait_until(lambda: listens_by_cm(server), server)
    if not ready and server.alive():
        tell(note=f"{check['name']} ({mode}): the server did not get ready")
    # A server that fails at once is a result too; its client then fails to connect.
    client = Process("client", check["client"], mode, check["preload"], check["timeout"])
    results = [client.result()]
    if check["end_server"]:
        # The server may still be busy with the client's farewell.
        time.sleep(0.5)
        server.signal(signal.SIGTERM)
    server.wait(GRACE)
    server.deadline = time.monotonic()
    results.append(server.result())
    return results


def resource_ids(kind, device, pid):
    """Kernel ids of a process's objects, as rdma(8) lists them."""
    key = {"qp": "lqpn", "cq": "cqn", "srq": "srqn"}[kind]
    listing = subprocess.run(
        ["rdma", "-j", "resource", "show", kind], check=True, capture_output=True, text=True
    ).stdout
    return [
        entry[key] for entry in json.loads(listing or "[]") if entry.get("pid") == pid and entry["ifname"] == device
    ]


def inject(events, process, device):
    """Raises events by the kernel module; each is [kind, event number, how often]."""
    pid = process.pid()
    ids = {kind: resource_ids(kind, device, pid)[0] for kind in ("cq", "srq")}
    ids["qp"] = max(resource_ids("qp", device, pid))
    ids["port"] = ids["dev"] = 1
    for kind, number, times in events:
        for _ in range(times):
            with open("/proc/evinject", "w", encoding="ascii") as file:
                file.write(f"{device} {kind} {number} {ids[kind]}")


def run_watched(check, mode):
    """A program that waits for events, things that happen to it, and its end."""
    process = Process("program", check["argv"][mode], mode, check["preload"], check["timeout"])
    if not wait_until(lambda: check["ready"] in process.read("out"), process):
        tell(note=f"{check['name']} ({mode}): did not get ready")
        return [process.result()]
    for action in check["actions"]:
        if "inject" in action:
            inject(action["inject"], process, check["device"])
        else:
            subprocess.run(action["run"], check=True)
        time.sleep(action["settle"])
    # Events may still be on their way on a loaded machine: wait until nothing more is printed.
    size = -1
    while process.alive() and size != len(process.read("out")):
        size = len(process.read("out"))
        time.sleep(0.4)
    if check["end"] == "term":
        process.signal(signal.SIGTERM)
    else:
        process.popen.stdin.close()
    result = process.result()
    for command in check["restore"]:
        subprocess.run(command, check=False)
    time.sleep(0.3)
    return [result]


class Heard:
    """What a program prints, as it comes: no polling, many of these run at a time."""

    def __init__(self, popen):
        self.changed = threading.Condition()
        self.ended = set()
        self.text = {"out": "", "err": ""}
        self.arrivals = []  # when the shim's lines came, by the clock that the program prints
        self.threads = [
            threading.Thread(target=self.listen, args=(name, stream), daemon=True)
            for name, stream in (("out", popen.stdout), ("err", popen.stderr))
        ]
        for thread in self.threads:
            thread.start()

    def listen(self, name, stream):
        for line in stream:
            now = time.monotonic()
            with self.changed:
                self.text[name] += line.decode(errors="replace")
                if line.startswith(b"ibv_sa["):
                    self.arrivals.append(now)
                self.changed.notify_all()
        with self.changed:
            self.ended.add(name)
            self.changed.notify_all()

    def wait_for(self, condition, seconds):
        with self.changed:
            return self.changed.wait_for(lambda: condition() or "out" in self.ended, seconds) and condition()


def waits_of(pid):
    """Which word each thread waits for in futex(2): /proc/PID/task/TID/syscall, as proc(5) has it."""
    waits = {}
    for path in glob.glob(f"/proc/{pid}/task/*/syscall"):
        try:
            with open(path, encoding="ascii") as file:
                words = file.read().split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if len(words) > 1 and words[0] == "202":
            waits[path.split("/")[4]] = int(words[1], 16)
    return waits


def run_acks(check, mode):
    """ctests/kernel/acks.c, which may hang: what is seen meanwhile is told too."""
    watch = check["watch"][mode]
    process = Process("program", check["argv"][mode], mode, check["preload"], check["timeout"], watch["settings"])
    heard, pid = process.heard, process.popen.pid
    stops = check["argv"][mode].count("go")  # the program waits there until it is let go
    seen = {"qps": []}

    def count(text):
        return heard.text["out"].count(text)

    def at_stop(number):
        return heard.wait_for(lambda: count("waiting\n") >= number, check["timeout"])

    def let_go():
        process.popen.stdin.write(b"x")
        process.popen.stdin.flush()

    if watch["looks"] and at_stop(1):
        # libibverbs destroys a QP in the kernel first and waits for acks then: later it is not listed.
        seen["qps"] = resource_ids("qp", check["device"], pid)
        let_go()
    if stops and not watch["killed"]:
        at_stop(stops)
    heard.wait_for(
        lambda: all(count(f"destroying {name} ") > count(f"destroyed {name} ") for name in watch["hang"]), check["timeout"]
    )
    # What is not said then is said too late.
    heard.wait_for(lambda: len(heard.arrivals) >= watch["lines"], watch["patience"])
    if watch["hang"]:
        time.sleep(watch["pause"])
        # On a loaded machine the kernel's part of a destroy takes its time before the wait.
        end = time.monotonic() + check["timeout"]
        while len(waits_of(pid)) < len(watch["hang"]) and time.monotonic() < end:
            time.sleep(0.2)
        seen.update(out=heard.text["out"], waits=waits_of(pid))
    else:
        heard.wait_for(lambda: count("destroying ") == count("destroyed "), watch["patience"])
    if watch["killed"]:
        process.deadline = time.monotonic()
    elif stops and at_stop(stops):
        let_go()
    return [{**process.result(), "seen": seen, "arrivals": heard.arrivals, "ended": time.monotonic()}]


KINDS = {"single": run_single, "pair": run_pair, "watched": run_watched, "acks": run_acks}


def run_check(check):
    for mode in check["modes"]:
        start = time.monotonic()
        try:
            processes, error = KINDS[check["kind"]](check, mode), None
        except Exception as failure:  # told to the host, which counts it as a failed check
            processes, error = [], repr(failure)
        tell(check=check["name"], mode=mode, seconds=round(time.monotonic() - start, 1), processes=processes, error=error)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    # Checks that change the links or load the machine run alone; those that mostly sleep run in a crowd.
    # Checks with events of a port or device disturb all that have it open: they have one of their own, one at a time.
    crowd = [check for check in plan["checks"] if check["kind"] == "acks"]
    with ThreadPoolExecutor(plan["crowd"]) as pool, ThreadPoolExecutor(1) as lane:
        for check in crowd:
            (pool if check["device"] == "rxe0" else lane).submit(run_check, check)
    with ThreadPoolExecutor(plan["parallel"]) as pool:
        list(pool.map(run_check, [check for check in plan["checks"] if not check["alone"] and check not in crowd]))
    for check in plan["checks"]:
        if check["alone"]:
            run_check(check)
    tell(done=True)


main()
