#!/usr/bin/env python3
"""apt_sources.py SUITE: this machine's Debian package source, written for another SUITE (for mmdebstrap)."""

import os
import subprocess
import sys

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def machine_codename():
    with open("/etc/os-release", encoding="utf-8") as release:
        for line in release:
            key, _, value = line.strip().partition("=")
            if key == "VERSION_CODENAME":
                return value.strip('"')
    sys.exit("apt_sources.py: /etc/os-release names no VERSION_CODENAME: is this Debian?")


def main():
    suite = sys.argv[1]
    codename = machine_codename()
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(COMPONENT)", "Created-By: Packages"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    # Third-party sources have release names of their own; the security suite is not needed for a test VM.
    uris = {
        uri for uri, release, component in (line.split("|") for line in targets.splitlines())
        if release == codename and component == "main"
    }
    if not uris:
        sys.exit(f"apt_sources.py: no apt source of this machine carries Debian '{codename}' main; run apt-get update")
    # The machine's keyring is named: mmdebstrap would look for one in the VM's tree, which is empty yet.
    options = f"[signed-by={KEYRING}] " if os.path.exists(KEYRING) else ""
    for uri in sorted(uris):
        print(f"deb {options}{uri} {suite} main")


main()
