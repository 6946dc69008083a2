"""Runs the histories with seeds from the first to the last: python -m tests.replica FIRST LAST."""

import sys
from collections import Counter

from tests.replica.world import run

counts = Counter[str]()
for seed in range(int(sys.argv[1]), int(sys.argv[2])):
    counts += run(seed)
sys.stdout.write(f"{dict(counts)}\n")
