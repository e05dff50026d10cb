#!/usr/bin/env python3
"""notices.py [--check] - the notices of the crates that are linked into libibv_sa.so.1 and into the command ibv-sa.

Without an argument the part between the two marks of THIRD-PARTY-NOTICES.md is written anew; with --check
nothing is written, and a part that is not what would be written is an error. Everything outside the marks is
kept by hand.

What is linked in is what cargo resolves from Cargo.lock for x86_64 Linux: normal dependencies only, without
procedural macros, which run in the compiler. The texts come from the crates' own files.
"""

import difflib
import json
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parent.parent
NOTICES = TOP / "THIRD-PARTY-NOTICES.md"
TARGET = "x86_64-unknown-linux-gnu"
# The packages that are distributed in binary form, and what their product is called in the table.
PACKAGES = {"ibv_sa": "library", "ibv-sa-cli": "command"}
BEGIN = "<!-- made by tools/notices.py: begin -->\n"
END = "<!-- made by tools/notices.py: end -->\n"

# Where a crate offers a choice, the first of these that it offers is taken; and the file that holds its text, the
# first that is there: a crate under one licence alone calls it LICENSE.
TAKEN = {"MIT": ["LICENSE-MIT", "LICENSE"], "ISC": ["LICENSE"]}


def linked_crates():
    """The packages of other authors that are linked in, by name, each with the products that it is in."""
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET],
            cwd=TOP, check=True, stdout=subprocess.PIPE,
        ).stdout
    )
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}

    def is_macro(package):
        return any("proc-macro" in target["kind"] for target in package["targets"])

    products = {}
    for name, product in PACKAGES.items():
        found = set()
        to_visit = [package["id"] for package in packages.values() if package["name"] == name]
        while to_visit:
            identity = to_visit.pop()
            if identity in found or is_macro(packages[identity]):
                continue
            found.add(identity)
            for dependency in nodes[identity]["deps"]:
                if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                    to_visit.append(dependency["pkg"])
        # A package without a source is one of this workspace.
        others = [identity for identity in found if packages[identity]["source"]]
        if not others:
            sys.exit(f"notices.py: cargo names no dependency of {name}")
        for identity in others:
            products.setdefault(identity, []).append(product)
    crates = [(packages[identity], where) for identity, where in products.items()]
    return sorted(crates, key=lambda crate: (crate[0]["name"], crate[0]["version"]))


def licence_of(package):
    """The licence taken and its text."""
    name = f"{package['name']} {package['version']}"
    offered = re.split(r"\s+OR\s+|/", package["license"] or "")
    for licence, files in TAKEN.items():
        if licence in offered:
            folder = pathlib.Path(package["manifest_path"]).parent
            path = next((folder / file for file in files if (folder / file).is_file()), None)
            if path is None:
                sys.exit(f"notices.py: {name} has no file {' or '.join(files)}; say in TAKEN where its text is")
            lines = path.read_text(encoding="utf-8").strip().splitlines()
            return licence, "\n".join(line.rstrip() for line in lines)
    sys.exit(f"notices.py: {name} offers {package['license']!r}; add the licence to take to TAKEN")


def render(crates):
    """The generated part: a table, then each text once with the crates that carry it."""
    rows = ["| crate | version | offered under | taken | linked into |", "|---|---|---|---|---|"]
    texts = {}
    for package, products in crates:
        licence, text = licence_of(package)
        columns = [package["name"], package["version"], package["license"], licence, ", ".join(products)]
        rows.append(f"| {' | '.join(columns)} |")
        texts.setdefault(text, []).append(package["name"])
    parts = ["\n".join(rows)]
    for text, names in texts.items():
        parts.append(f"Text in {', '.join(names)}:\n\n```\n{text}\n```")
    return "\n\n".join(parts) + "\n"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__.splitlines()[0])
    document = NOTICES.read_text(encoding="utf-8")
    if document.count(BEGIN) != 1 or document.count(END) != 1:
        sys.exit(f"notices.py: {NOTICES.name} lacks the marks {BEGIN.strip()} and {END.strip()}")
    before, rest = document.split(BEGIN)
    present, after = rest.split(END)
    crates = linked_crates()
    wanted = f"\n{render(crates)}\n"
    if sys.argv[1:] == ["--check"]:
        if present != wanted:
            sys.stdout.writelines(
                difflib.unified_diff(
                    present.splitlines(keepends=True), wanted.splitlines(keepends=True), "committed", "linked in"
                )
            )
            sys.exit(f"notices.py: {NOTICES.name} is not what is linked in: run tools/notices.py and commit")
        print(f"{NOTICES.name}: {len(crates)} crates, all with their notices")
    else:
        NOTICES.write_text(before + BEGIN + wanted + END + after, encoding="utf-8")


if __name__ == "__main__":
    main()
