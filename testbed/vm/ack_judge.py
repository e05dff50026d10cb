"""Compares what ctests/kernel/acks.c did, by its own words and the kernel's, with what the shim said of it."""

import re

from checks import EVENTS, same_names

AT_ONCE = 6  # seconds; well below the 10 of IBV_SA_HANG_SECS where nothing is to wait
SLACK = 5  # how late a line may come on a loaded, emulated machine
APART = 0.4  # by how much two clocks that are read one after the other may differ
ROUNDED = 0.1  # ages are told in tenths of a second, rounded down
KINDS = {"qp": "QP", "cq": "CQ", "srq": "SRQ"}


def kind_of(name):
    return KINDS[name.rstrip("0123456789")]


class Facts:
    """What the program printed."""

    def __init__(self, out, device):
        self.device = device
        self.foreign = False
        self.lives = {}  # name -> [(number, handle, address, size)], in order
        self.threads = {}
        self.got = {}  # (object's name, type) -> (thread, not before, not after) of the first, and of the last
        self.counts = {}  # (object, life) -> {"async": {type: n}, "acks": n, "comp": n, "comp_acks": n}
        self.events = {}  # all that were got, by type
        self.begun, self.ended, self.results = {}, {}, {}
        self.went_on = self.exit_at = None
        main = re.search(r"^main tid (\d+)$", out, re.MULTILINE)
        for line in out.splitlines():
            self.take(line.split())
        if main:
            self.threads["main"] = f"thread {main.group(1)} (acks)"

    def count(self, name, key, number=1):
        if name not in self.lives:
            return
        of_object = self.counts.setdefault((name, len(self.lives[name]) - 1), {"async": {}, "acks": 0, "comp": 0, "comp_acks": 0})
        if isinstance(key, str):
            of_object[key] += number
        else:
            event = EVENTS.get(key, f"event {key}")
            of_object["async"][event] = of_object["async"].get(event, 0) + number

    def take(self, words):
        match words:
            case ["foreign", "QPs"]:
                self.foreign = True
            case ["object", name, _, number, _, handle, _, address, _, size]:
                if self.foreign and name.startswith("qp"):
                    number = handle = -1
                self.lives.setdefault(name, []).append((int(number), int(handle), int(address, 16), int(size)))
            case [worker, "tid", tid] if worker.startswith("worker"):
                self.threads[worker] = f"thread {tid} ({worker})"
            case ["got", "completion", name, _, tid, _, first, _, last]:
                self.count(name, "comp")
                self.note_got(name, int(tid), float(first), float(last), "completion")
            case ["got", number, "completions", name, _, tid, _, first, _, last]:
                self.count(name, "comp", int(number))
                self.note_got(name, int(tid), float(first), float(first), "completion")
                self.note_got(name, int(tid), float(last), float(last), "completion")
            case ["got", number, name, _, tid, _, first, _, last]:
                event = EVENTS.get(int(number), f"event {number}")
                self.events[event] = self.events.get(event, 0) + 1
                self.count(name, int(number))
                self.note_got(name, int(tid), float(first), float(last), EVENTS.get(int(number)))
            case ["acks", "completion", name, _, number, *_]:
                self.count(name, "comp_acks", int(number))
            case ["acks", _, name, *_]:
                self.count(name, "acks")
            case ["destroying", name, _, _, _, at]:
                self.begun[name] = float(at)
                self.ended.pop(name, None)
            case ["destroyed", name, _, result, _, at]:
                self.ended[name] = float(at)
                self.results[name] = int(result)
            case ["going", "on", "at", at]:
                self.went_on = float(at)
            case ["exit" | "end", "at", at]:
                self.exit_at = float(at)

    def note_got(self, name, tid, first, last, event):
        for key in (event, "last"):
            self.got[name, key] = (tid, first, last)
        self.got.setdefault((name, "first"), (tid, first, last))

    def object_text(self, name, life=-1):
        number, handle, _, _ = self.lives[name][int(life)]
        kind = kind_of(name)
        if number == -1:  # of what was not seen when it was made only the kind is known
            return f"{kind} ({self.device})"
        return (
            f"QP qp_num {number} (handle {handle}, {self.device})" if kind == "QP" else f"{kind} handle {handle} ({self.device})"
        )

    def pattern(self, template):
        """The line as a regular expression, and the times in it that are to be compared."""
        times = []
        text = re.escape(template).replace(r"\{", "{").replace(r"\}", "}")

        def fill(match):
            what, _, rest = match.group(1).replace("\\", "").partition(":")
            if what in ("waited", "ago", "about"):
                times.append((what, *rest.split(":")))
                return r"(\d+\.\d)"
            if what == "bare":
                return re.escape(self.threads[rest].removeprefix("thread "))
            if what == "device":
                return re.escape(f"{self.device} (context 1)")
            return re.escape(self.threads[what] if what in self.threads else self.object_text(what, rest or -1))

        return re.sub(r"\{([^}]*)\}", fill, text), times


def times_agree(facts, name, arrived, times, values):
    """What is wrong with the times in a line about this object that appeared at this time."""
    begun = facts.begun.get(name)
    waited = None
    for (what, *where), value in zip(times, map(float, values)):
        if what == "about":
            if not float(where[0]) - APART <= value <= float(where[0]) + SLACK:
                yield f"it says {value} s, should be {where[0]} s"
            continue
        if what == "waited":
            waited = value
            latest = earliest = begun
            if value < 1.0:
                yield f"it says {value} s, before IBV_SA_HANG_SECS=1 are over"
        else:
            _, earliest, latest = facts.got[tuple(where)]
            # Both were counted from one reading of the clock; without a wait, from one after the destroy began.
            between = value - (waited or 0)
            if begun is not None and between < begun - latest - APART:
                yield f"the event was got {begun - latest:.2f} s before the destroy began, not {between:.1f} s"
            if waited is not None and between > begun - earliest + APART:
                yield f"the event was got {begun - earliest:.2f} s before the destroy began, not {between:.1f} s"
        # The line may come late on a loaded machine, but not from the future.
        if value > arrived - earliest + ROUNDED:
            yield f"it says {value} s, but it was {arrived - earliest:.2f} s when the line appeared ({what} {where})"


def judge(verdict, modes):
    for mode, expected in modes.items():
        process = verdict.runs.get(mode, {}).get("program")
        if process is None:
            verdict.wrong(f"{mode}: did not run")
            continue
        before = len(verdict.problems)
        try:
            Judge(verdict, mode, expected, process).judge()
        except (KeyError, IndexError, ValueError, TypeError) as failure:
            verdict.wrong(f"{mode}: cannot be judged: {failure!r}")
        if len(verdict.problems) > before:
            verdict.wrong(f"{mode}: the program printed:\n{process['out']}and on standard error:\n{process['err']}")


class Judge:
    """One run of the program."""

    def __init__(self, verdict, mode, expected, process):
        self.verdict = verdict
        self.mode = mode
        self.expected = expected
        self.process = process
        self.facts = Facts(process["out"], verdict.check["device"])

    def wrong(self, text):
        self.verdict.wrong(f"{self.mode}: {text}")

    def equal(self, what, seen, expected):
        if seen != expected:
            self.wrong(f"{what}: {seen}, should be {expected}")

    def judge(self):
        expected = self.expected
        self.equal(
            "it ends with", self.process["exit"], "killed when the time was up" if expected["killed"] else expected["exit"]
        )
        if expected["hang"]:
            self.judge_hang()
        for name, result in self.facts.results.items():
            self.equal(f"destroy of {name} returned", result, expected["results"].get(name, 0))
        for line in re.findall(r"^failed .*$", self.process["out"], re.MULTILINE):
            if not expected["results"]:  # after a removal much else fails too
                self.wrong(line)
        self.judge_durations()
        if expected.get("same_address"):
            old, new = self.facts.lives["qp0"][-2:]
            self.equal("the new QP's address", new[2], old[2])
        lines = [line for line in self.process["err"].splitlines() if line.startswith("ibv_sa[")]
        other = [line for line in self.process["err"].splitlines() if not line.startswith("ibv_sa[")]
        self.equal("other lines on standard error", other, [])
        self.judge_lines(lines)
        if self.mode == "plain" or expected["killed"] or expected["exit"] != 0:
            return
        if "foreign_acks" in expected:
            self.judge_forked()
        else:
            self.equal("number of reports", len(self.process["reports"]), 1)
            self.judge_report(self.verdict.read_report(self.process["reports"][0]))

    def judge_hang(self):
        """The kernel's word: threads wait in these objects, and the QPs are there."""
        seen = self.process["seen"]
        facts = Facts(seen["out"], self.verdict.check["device"])
        self.equal("destroys that have not returned", sorted(set(facts.begun) - set(facts.ended)), sorted(self.expected["hang"]))
        for name in self.expected["hang"]:
            number, _, address, size = facts.lives[name][-1]
            if not any(address <= word < address + size for word in seen["waits"].values()):
                self.wrong(f"no thread waits in {name} at {address:#x}: {seen['waits']}")
            # rdma(8) knows no uverbs handles, but the numbers of QPs.
            if self.verdict.check["watch"][self.mode]["looks"] and kind_of(name) == "QP" and number not in seen["qps"]:
                self.wrong(f"rdma resource has no QP {number}, only {seen['qps']}")

    def judge_durations(self):
        facts, expected = self.facts, self.expected
        for name, ended in facts.ended.items():
            # What hung is looked at from when it was let go.
            since = max(facts.begun[name], facts.went_on or 0) if name in expected["hang"] else facts.begun[name]
            if expected["at_once"] and ended - since > AT_ONCE:
                self.wrong(f"the destroy of {name} took {ended - since:.1f} s, should return at once")
        if not expected["at_once"] and not any(ended - facts.begun[name] > 0.9 for name, ended in facts.ended.items()):
            self.wrong("no destroy waited")

    def judge_lines(self, lines):
        facts, expected = self.facts, self.expected
        templates = [facts.pattern(template) for template in expected["lines"]]
        prefix = r"ibv_sa\[\d+\]: "
        firsts = []
        for arrived, line in zip(self.process["arrivals"], lines):
            for index, (pattern, times) in enumerate(templates):
                match = re.fullmatch(prefix + pattern + r"(?: \(\d+ lines left out before\))?", line)
                if not match:
                    continue
                if index not in firsts:
                    firsts.append(index)
                    self.judge_promptness(arrived, line)
                for problem in times_agree(facts, self.about(line), arrived, times, match.groups()):
                    self.wrong(f"{problem}: {line}")
                break
            else:
                # While the acks are given at last, fewer events are open.
                if facts.went_on and arrived >= facts.went_on and self.about(line) in expected["hang"] and " has waited " in line:
                    continue
                self.wrong(f"unexpected line: {line}\nexpected: {[pattern for pattern, _ in templates]}")
        missing = [expected["lines"][index] for index in range(len(templates)) if index not in firsts]
        if missing:
            self.wrong(f"lines that were not said: {missing}")
        elif firsts != sorted(firsts) and not expected.get("any_order"):
            self.wrong(f"the lines came in another order: {firsts}")
        if len(lines) < len(templates) + expected["repeats"]:
            self.wrong(f"{len(lines)} lines were said, should be {len(templates) + expected['repeats']}")

    def about(self, line):
        """The object that a line is about."""
        names = (name for name in self.facts.begun if f": {self.facts.object_text(name)}: " in line)
        return next(names, None)

    def judge_promptness(self, arrived, line):
        """H1 comes at once, H2 when HANG_SECS are over."""
        name = self.about(line)
        if name is None:
            return
        waited = arrived - self.facts.begun[name]
        if "has waited" in line and not 0.95 <= waited <= 1.0 + SLACK:
            self.wrong(f"came after {waited:.1f} s, IBV_SA_HANG_SECS is 1: {line}")
        if "itself" in line and waited > SLACK:
            self.wrong(f"came after {waited:.1f} s, should come at once: {line}")

    def judge_report(self, report):
        expected, facts = self.expected, self.facts
        self.equal("partial", report["partial"], False)
        if expected["acks"] is not None:
            self.equal("acks", {key: value for key, value in report["acks"].items() if value}, expected["acks"])
        self.equal("incidents", [incident["kind"] for incident in report["incidents"]], expected["kinds"])
        self.equal(
            "ack_mode, hang_secs", (report["ack_mode"], report["hang_secs"]), (self.ack_mode(), self.expected["hang_secs"])
        )
        said = self.process["err"]
        for incident in report["incidents"]:
            info = incident["level"] == "info"
            self.equal("an information is said", info and incident["text"] in said, False)
            first = incident["text"].split("; at ")[0] if incident["kind"] == "device_gone" else incident["text"]
            if not info and first not in said:
                self.wrong(f"the report has an incident that was not said: {incident}")
            if incident["kind"] == "device_gone":
                for sign in expected.get("timeline", []):
                    if not re.search(r"; at \d+\.\d s " + facts.pattern(sign)[0], incident["text"]):
                        self.wrong(f"the time line lacks {sign}: {incident['text']}")
        if "text" in expected:
            self.equal(
                "the incident's text", report["incidents"][0]["text"], re.sub(r"\\(.)", r"\1", facts.pattern(expected["text"])[0])
            )
        (context,) = report["contexts"]
        closed = "closed" if expected.get("open") is None else "open"
        self.equal("state of the context", context["state"], expected.get("state", closed))
        self.equal("async_events of the context", same_names(context["async_events"]), facts.events)
        self.judge_objects(context, report["acks"])

    def ack_mode(self):
        return "protect" if self.mode == "shim" else self.mode

    def judge_objects(self, context, sums):
        facts, expected = self.facts, self.expected
        left = {(entry["kind"], entry["number"], entry["handle"]): entry for entry in context["objects"]}
        passed_all = given_all = 0
        for (name, life), count in facts.counts.items():
            number, handle, _, _ = facts.lives[name][life]
            kind = kind_of(name)
            known = number != -1
            entry = left.pop((kind, number if known and kind == "QP" else None, handle if known else None), None)
            if entry is None:
                self.wrong(f"the report has no {facts.object_text(name, life)}: {context['objects']}")
                continue
            self.equal(f"{name}: foreign", entry["foreign"], not known)
            self.equal(f"{name}: async_events", entry["async_events"], count["async"])
            self.equal(f"{name}: comp_events got", entry["comp_events"]["got"], count["comp"])
            given = count["acks"] + count["comp_acks"]
            # Each ack was passed on, or is held, or is held no more; the rescued ones are not the program's.
            passed = entry["async_acks"] + entry["comp_events"]["acked"] - entry["rescued_acks"]
            passed_all += passed + entry["held_acks"] - entry["released_acks"]
            given_all += given
            if expected["acks"] == {}:
                self.equal(
                    f"{name}: async_acks, acked",
                    (entry["async_acks"], entry["comp_events"]["acked"]),
                    (count["acks"], count["comp_acks"]),
                )
            self.judge_open(name, entry)
        if left:
            self.wrong(f"the report has objects of which the program knows nothing: {list(left.values())}")
        self.equal("acks passed on, held and swallowed", passed_all + sums["swallowed"], given_all)

    def judge_open(self, name, entry):
        event, taker = (self.expected.get("open") or {}).get(name, (None, None))
        if event is None:
            self.equal(f"{name}: open", entry["open"], [])
            return
        tid, earliest, latest = self.facts.got[name, event]
        (one,) = entry["open"]
        self.equal(f"{name}: open", (one["type"], one["count"], one["tid"], one["thread"]), (event, 1, tid, taker))
        # It is written after exit() was called and before the process ended.
        age, least, most = one["age_ms"] / 1000, self.facts.exit_at - latest, self.process["ended"] - earliest
        if not least - 0.02 <= age <= most:
            self.wrong(f"{name}: age_ms is {one['age_ms']}, should be {least:.2f} to {most:.2f} s")

    def judge_forked(self):
        """The parent's books and the child's: what the child inherited is foreign to it."""
        reports = [self.verdict.read_report(text) for text in self.process["reports"]]
        self.equal("number of reports", len(reports), 2)
        main = re.search(r"^main tid (\d+)$", self.process["out"], re.MULTILINE)
        (child,) = (report for report in reports if str(report["pid"]) != main.group(1))
        self.equal(
            "the child's acks",
            {key: value for key, value in child["acks"].items() if value},
            {"foreign": self.expected["foreign_acks"]},
        )
        self.equal("the child's incidents", child["incidents"], [])
