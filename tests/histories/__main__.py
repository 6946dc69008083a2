"""Runs histories until one fails: `python -m tests.histories --seeds 0:1000`, or replays one: `--seed 17`."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from tests.histories.history import run


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:1000", help="from:to")
    parser.add_argument("--seed", type=int, help="one seed, with every step")
    given = parser.parse_args()
    begin, end = map(int, given.seeds.split(":")) if given.seed is None else (given.seed, given.seed + 1)
    logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(begin, end):
            run(seed, Path(folder, str(seed)), None if given.seed is None else say)
    say(f"{end - begin} histories hold")


if __name__ == "__main__":
    main()
