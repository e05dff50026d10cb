#!/usr/bin/env python3
"""Writes a two-level tree for ibsim: mknet.py HCAS [HCAS_PER_LEAF=20] [SPINES=2] > NET

HCAs are H000 on, leaf switches L0 on, spine switches S0 on. The SM runs on H000, the first in the file.
"""
import sys


def tree(hcas, per_leaf, spines):
    leaves = -(-hcas // per_leaf)
    for hca in range(hcas):
        yield f'Hca 1 "H{hca:03}"'
        yield f'[1] "L{hca // per_leaf}"[{hca % per_leaf + 1}]\n'
    for leaf in range(leaves):
        yield f'Switch {per_leaf + spines} "L{leaf}"'
        for hca in range(leaf * per_leaf, min(hcas, (leaf + 1) * per_leaf)):
            yield f'[{hca % per_leaf + 1}] "H{hca:03}"[1]'
        for spine in range(spines):
            yield f'[{per_leaf + 1 + spine}] "S{spine}"[{leaf + 1}]'
        yield ""
    for spine in range(spines):
        yield f'Switch {max(leaves, 2)} "S{spine}"'
        for leaf in range(leaves):
            yield f'[{leaf + 1}] "L{leaf}"[{per_leaf + 1 + spine}]'
        yield ""


if __name__ == "__main__":
    numbers = [int(text) for text in sys.argv[1:4]]
    if not numbers:
        sys.exit(__doc__)
    print("\n".join(tree(*(numbers + [20, 2][len(numbers) - 1:]))))
