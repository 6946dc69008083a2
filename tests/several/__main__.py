"""Runs the histories with seeds from the first to the last: python -m tests.several FIRST LAST."""

import logging
import sys
from collections import Counter

from tests.several.world import run

logging.getLogger("strandline").setLevel(logging.CRITICAL)
logging.getLogger("asyncio").setLevel(logging.CRITICAL)
counts = Counter[str]()
failed = 0
for seed in range(int(sys.argv[1]), int(sys.argv[2])):
    try:
        counts += run(seed)
    except Exception as error:
        if "--go-on" not in sys.argv:
            raise
        failed += 1
        sys.stdout.write(f"{seed}: {type(error).__name__}: {error}\n")
        sys.stdout.flush()
sys.stdout.write(f"{failed} failed; {dict(sorted(counts.items()))}\n")
