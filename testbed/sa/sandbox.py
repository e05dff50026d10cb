#!/usr/bin/python3
"""sandbox.py [OPTION...] UNIT [COMMAND...] - becomes COMMAND, or what UNIT starts, within the bounds that the service
unit UNIT sets, as far as they can be had without systemd as process 1. As root.

  --setenv NAME=VALUE   in the environment of the command alone
  --directory DIRECTORY where the command starts, instead of /
  --keep DIRECTORY      stays there and writable, whatever the unit says
  --see DIRECTORY       stays there, as the unit leaves it
  --strict              a system call that the unit refuses ends the process (SIGSYS), so that none goes unseen;
                        but for netlink sockets, which libraries try and do without

Whatever stands under [Service] is done, is a matter of whoever starts and ends the service, or ends this program: a
setting that it does not know is not tried. What is different from systemd's own doing:

* Devices are refused by their absence: /dev has those that DevicePolicy= and DeviceAllow= name. systemd leaves the nodes
  there and has open(2) refused, by a program that hangs on the service's control group.
* IPAddressDeny= needs the control group as well. What it refuses cannot be tried by a program without IP sockets.
"""

import argparse
import ctypes
import errno
import os
import resource
import shlex
import socket
import stat
import subprocess
import sys

import seccomp

LIBC = ctypes.CDLL(None, use_errno=True)
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_SLAVE = 1, 2, 4, 8, 4096, 16384, 1 << 19
CLONE_NEWNS, CLONE_NEWUTS = 0x00020000, 0x04000000
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1
PROT_WRITE, PROT_EXEC, SHM_EXEC = 2, 4, 0o100000
AF_MAX = 46

# Of whoever starts, reloads and ends the service; and what is said of it above.
MANAGERS = {"Type", "ExecStart", "ExecReload", "Restart", "RestartSec", "IPAddressDeny"}


def check(result, what):
    """Of a call of libc."""
    if result < 0:
        number = ctypes.get_errno()
        sys.exit(f"sandbox.py: {what}: {os.strerror(number)}")


def read(path):
    """What stands under [Service]: each name with its values in their order. An empty one takes back what was before."""
    settings, section = {}, ""
    with open(path, encoding="utf-8") as file:
        for line in file.read().replace("\\\n", " ").splitlines():
            line = line.strip()
            if line.startswith("["):
                section = line
            elif section == "[Service]" and line and line[0] not in "#;":
                name, value = line.split("=", 1)
                if value.strip():
                    settings.setdefault(name, []).append(value.strip())
                else:
                    settings[name] = []
    return settings


class Mounts:
    """The file system as the service sees it."""

    def __init__(self):
        self.writable = {"/dev", "/proc", "/sys"}

    @staticmethod
    def mount(source, target, kind=None, flags=0, data=None):
        encode = lambda text: text.encode() if text is not None else None
        check(LIBC.mount(encode(source), target.encode(), encode(kind), flags, encode(data)), f"mount {target}")

    @staticmethod
    def read_only(path, attributes=MOUNT_ATTR_RDONLY, cleared=0, recursive=True):
        fields = (ctypes.c_uint64 * 4)(attributes, cleared, 0, 0)
        flags = AT_RECURSIVE if recursive else 0
        check(LIBC.syscall(MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, fields, 32), f"read-only {path}")

    def private(self, path):
        """Another one, writable and empty."""
        self.mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
        self.writable.add(path)

    def hide(self, path):
        if os.path.isdir(path):
            self.mount("tmpfs", path, "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=000")
        elif os.path.exists(path):
            nothing = f"/run/sandbox-{os.getpid()}"
            os.close(os.open(nothing, os.O_CREAT | os.O_EXCL, 0))
            self.mount(nothing, path, None, MS_BIND)
            os.unlink(nothing)

    def fix(self, path):
        """Stays, and cannot be written to."""
        if os.path.exists(path):
            self.mount(path, path, None, MS_BIND | MS_REC)
            self.read_only(path)

    def devices(self, allowed):
        """/dev has the pseudo devices of DevicePolicy=closed, and these."""
        names = ["null", "zero", "full", "random", "urandom", "tty", "ptmx"]
        with open("/proc/devices", encoding="ascii") as file:
            lines = [line.split() for line in file.read().split("Block devices:")[0].splitlines()]
        majors = {line[1]: int(line[0]) for line in lines if len(line) == 2 and line[0].isdigit()}
        for one in allowed:
            kind, _, rights = one.partition(" ")
            if not kind.startswith("char-") or rights != "rw":
                sys.exit(f"sandbox.py: DeviceAllow={one}: only char-CLASS rw is known")
            # A class that the kernel does not have now has no nodes.
            major = majors.get(kind.removeprefix("char-"))
            for top, _, files in os.walk("/dev"):
                for path in (os.path.join(top, name) for name in files):
                    about = os.lstat(path)
                    if stat.S_ISCHR(about.st_mode) and os.major(about.st_rdev) == major:
                        names.append(os.path.relpath(path, "/dev"))
        nodes = {name: os.open(f"/dev/{name}", os.O_PATH) for name in names}
        self.mount("tmpfs", "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755")
        for name, node in nodes.items():
            os.makedirs(os.path.dirname(f"/dev/{name}"), exist_ok=True)
            os.close(os.open(f"/dev/{name}", os.O_CREAT, 0o600))
            self.mount(f"/proc/self/fd/{node}", f"/dev/{name}", None, MS_BIND)
            os.close(node)

    def make(self, settings, is_on, keep, see):
        kept = {path: os.open(path, os.O_PATH) for path in keep + see}
        check(LIBC.mount(None, b"/", None, MS_REC | MS_SLAVE, None), "mount /")
        if is_on("PrivateTmp"):
            self.private("/tmp")
            self.private("/var/tmp")
        for path in ("/home", "/root", "/run/user") if is_on("ProtectHome") else ():
            self.hide(path)
        if is_on("ProtectKernelModules"):
            self.hide(os.path.realpath("/lib/modules"))
        if is_on("ProtectKernelTunables"):
            for name in ("sys", "sysrq-trigger", "latency_stats", "mtrr", "apm", "acpi", "timer_stats", "fs", "irq"):
                self.fix(f"/proc/{name}")
            self.fix("/sys")
            self.writable.discard("/sys")
            self.hide("/proc/kallsyms")
            self.hide("/proc/kcore")
        if is_on("ProtectKernelLogs"):
            self.hide("/proc/kmsg")
        if is_on("ProtectControlGroups"):
            self.fix("/sys/fs/cgroup")
        if settings.pop("DevicePolicy", None) != ["closed"]:
            sys.exit("sandbox.py: only DevicePolicy=closed is known")
        self.devices(settings.pop("DeviceAllow", []))
        for path, descriptor in kept.items():
            os.makedirs(path, exist_ok=True)
            self.mount(f"/proc/self/fd/{descriptor}", path, None, MS_BIND)
            os.close(descriptor)
        if settings.pop("ProtectSystem", None) != ["strict"]:
            sys.exit("sandbox.py: only ProtectSystem=strict is known")
        self.read_only("/")
        for path in self.writable | set(keep):
            self.read_only(path, 0, MOUNT_ATTR_RDONLY, recursive=False)


class Calls:
    """Which system calls there are, and with which arguments."""

    def __init__(self):
        text = subprocess.run(["systemd-analyze", "syscall-filter"], check=True, capture_output=True, text=True).stdout
        self.sets, name = {}, ""
        for line in text.splitlines():
            if line.startswith("@"):
                name = line.strip()
                self.sets[name] = []
            elif line.startswith("    ") and line.strip()[0] != "#":
                self.sets[name].append(line.strip())

    def named(self, name):
        if not name.startswith("@"):
            return {name}
        return set().union(*(self.named(one) for one in self.sets[name]))

    def allowed(self, filters):
        """The first line says whether it is a list of what is allowed; systemd adds what no program can do without."""
        if not filters or filters[0].startswith("~"):
            sys.exit("sandbox.py: only a SystemCallFilter= that begins with what is allowed is known")
        allowed = self.named("@default")
        for one in filters:
            calls = set().union(*(self.named(name) for name in one.lstrip("~").split()))
            allowed = allowed - calls if one.startswith("~") else allowed | calls
        return allowed


def load(settings, is_on, calls, strict):
    """The last step: what is left may be forbidden now."""
    allowed = calls.allowed(settings.pop("SystemCallFilter", []))
    for name, refused in [
        ("ProtectClock", "@clock"), ("ProtectKernelModules", "@module"), ("ProtectKernelLogs", "syslog"),
        ("ProtectHostname", "sethostname setdomainname"), ("LockPersonality", "personality"),
    ]:
        if is_on(name):
            allowed -= set().union(*(calls.named(one) for one in refused.split()))
    number = getattr(errno, settings.pop("SystemCallErrorNumber", ["EPERM"])[0])
    refuse = seccomp.KILL_PROCESS if strict else seccomp.ERRNO(number)
    arguments = seccomp.SyscallFilter(seccomp.ALLOW)

    def rule(name, *args, action=None):
        arguments.add_rule(action or (seccomp.KILL_PROCESS if strict else seccomp.ERRNO(errno.EPERM)), name, *args)

    def masked(index, bits):
        return seccomp.Arg(index, seccomp.MASKED_EQ, bits, bits)

    if is_on("MemoryDenyWriteExecute"):
        rule("mmap", masked(2, PROT_WRITE | PROT_EXEC))
        rule("mprotect", masked(2, PROT_EXEC))
        rule("pkey_mprotect", masked(2, PROT_EXEC))
        rule("shmat", masked(2, SHM_EXEC))
    if settings.pop("RestrictAddressFamilies", None) != ["AF_UNIX"]:
        sys.exit("sandbox.py: only RestrictAddressFamilies=AF_UNIX is known")
    gently = seccomp.ERRNO(errno.EAFNOSUPPORT)
    for family in range(AF_MAX):
        if family != socket.AF_UNIX:
            # libibverbs tries netlink first, and reads sysfs without it.
            kills = strict and family != socket.AF_NETLINK
            rule("socket", seccomp.Arg(0, seccomp.EQ, family), action=seccomp.KILL_PROCESS if kills else gently)
    rule("socket", seccomp.Arg(0, seccomp.GE, AF_MAX), action=gently)
    if is_on("RestrictNamespaces"):
        rule("unshare")
        rule("setns")
        for bit in (0x00000080, 0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
            rule("clone", masked(0, bit))
        # Its flags are in memory; the C library then takes clone.
        rule("clone3", action=seccomp.ERRNO(errno.ENOSYS))
    if is_on("RestrictRealtime"):
        rule("sched_setscheduler", seccomp.Arg(1, seccomp.GT, 0))
    if is_on("RestrictSUIDSGID"):
        for name, index in [("chmod", 1), ("fchmod", 1), ("fchmodat", 2), ("mkdir", 1), ("mkdirat", 2), ("creat", 1)]:
            for bit in (stat.S_ISUID, stat.S_ISGID):
                rule(name, masked(index, bit))
    if settings.pop("SystemCallArchitectures", None) != ["native"]:
        sys.exit("sandbox.py: only SystemCallArchitectures=native is known")
    listed = seccomp.SyscallFilter(refuse)
    for name in allowed:
        # Some are of other machines.
        if seccomp.resolve_syscall(seccomp.Arch(), name) >= 0:
            listed.add_rule(seccomp.ALLOW, name)
    if settings:
        sys.exit(f"sandbox.py: not known: {', '.join(sorted(settings))}")
    arguments.load()
    listed.load()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--setenv", action="append", default=[])
    parser.add_argument("--directory", default="/")
    parser.add_argument("--keep", action="append", default=[])
    parser.add_argument("--see", action="append", default=[])
    parser.add_argument("--strict", action="store_true")
    parser.add_argument("unit")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    settings = read(args.unit)
    command = args.command or shlex.split(settings["ExecStart"][-1])
    environment = dict(os.environ, **dict(one.split("=", 1) for one in args.setenv))
    for name in MANAGERS:
        settings.pop(name, None)

    def is_on(name):
        value = settings.pop(name, ["no"])
        if value[-1] not in ("yes", "no"):
            sys.exit(f"sandbox.py: {name}={value[-1]}: only yes and no are known")
        return value[-1] == "yes"

    once = {}
    said = lambda name: once.setdefault(name, is_on(name))
    calls = Calls()
    check(LIBC.unshare(CLONE_NEWNS | (CLONE_NEWUTS if said("ProtectHostname") else 0)), "unshare")
    Mounts().make(settings, said, args.keep, args.see)
    os.chdir(args.directory)
    most = int(settings.pop("LimitNOFILE", ["1024"])[0])
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    os.umask(int(settings.pop("UMask", ["0022"])[0], 8))
    if settings.pop("CapabilityBoundingSet", None) != []:
        sys.exit("sandbox.py: only an empty CapabilityBoundingSet= is known")
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
        for capability in range(int(file.read()) + 1):
            check(LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0), "CapabilityBoundingSet")
    if not said("NoNewPrivileges"):
        sys.exit("sandbox.py: without NoNewPrivileges=yes nothing is held")
    check(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "NoNewPrivileges")
    load(settings, said, calls, args.strict)
    os.execvpe(command[0], command, environment)


if __name__ == "__main__":
    main()
