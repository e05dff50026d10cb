#!/usr/bin/env python3
"""module_order.py MODULES.DEP NAME...: the files of these modules and all they need, in loading order."""

import os
import sys


def main():
    needs = {}
    with open(sys.argv[1], encoding="ascii") as dependencies:
        for line in dependencies:
            path, _, rest = line.partition(":")
            needs[path] = rest.split()
    by_name = {os.path.basename(path).split(".ko")[0].replace("-", "_"): path for path in needs}

    order = []
    for name in sys.argv[2:]:
        if name not in by_name:
            sys.exit(f"module_order.py: this kernel has no module {name}")
        path = by_name[name]
        # modules.dep lists what a module needs with the deepest last.
        for module in [*reversed(needs[path]), path]:
            if module not in order:
                order.append(module)
    print("\n".join(order))


main()
