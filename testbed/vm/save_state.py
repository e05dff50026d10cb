#!/usr/bin/env python3
"""save_state.py QMP-SOCKET FILE: write the memory and device state of a running QEMU to FILE, then end it."""

import json
import shlex
import socket
import sys
import time


class Monitor:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.stream = self.socket.makefile("rw")
        self.stream.readline()  # greeting
        self.command("qmp_capabilities")

    def command(self, name, **arguments):
        self.stream.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self.stream.flush()
        while True:  # events come in between
            answer = json.loads(self.stream.readline())
            if "error" in answer:
                sys.exit(f"save_state.py: {name}: {answer['error'].get('desc')}")
            if "return" in answer:
                return answer["return"]


def main():
    monitor = Monitor(sys.argv[1])
    monitor.command("migrate", uri="exec:cat > " + shlex.quote(sys.argv[2]))
    while True:
        state = monitor.command("query-migrate")
        if state.get("status") == "completed":
            break
        if state.get("status") == "failed":
            sys.exit("save_state.py: saving failed: " + state.get("error-desc", "no reason given"))
        time.sleep(0.1)
    monitor.command("quit")


main()
