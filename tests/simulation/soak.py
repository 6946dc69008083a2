"""Runs seeds, on all cores, until one fails or time is up; replays one.

python -m tests.simulation.soak --seeds 0:100000 --minutes 60
python -m tests.simulation.soak --seed 17 --trace
python -m tests.simulation.soak --transactions
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from multiprocessing import get_context
from time import monotonic

from tests.simulation.world import World


def replay_command(seed: int, *, transactions: bool = False) -> str:
    return f"python -m tests.simulation.soak --seed {seed}{' --transactions' if transactions else ''} --trace"


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def run_seed(seed: int, *, trace: bool = False, transactions: bool = False) -> Counter[str]:
    """One history; returns how often there was what to prove. A failure says how to replay it."""
    world = World(seed, trace=say if trace else None, transactions=transactions)
    try:
        world.run()
    except Exception as failure:
        failure.add_note(f"seed {seed}; to replay: {replay_command(seed, transactions=transactions)}")
        raise
    return world.checker.counts


def run_share(seeds: range, until: float, transactions: bool, keep_going: bool) -> tuple[int, list[str]]:
    """The histories of one process, while there is time; returns how many, and a line for each that failed."""
    logging.disable()  # what the controller's clock says in nearly every history
    begun, done, failures = monotonic(), 0, []
    for seed in seeds:
        if monotonic() >= until:
            break
        try:
            run_seed(seed, transactions=transactions)
        except Exception as failure:
            if not keep_going:
                raise
            failures.append(f"{seed}: {type(failure).__name__}: {failure}"[:300])
            say(failures[-1])
        done += 1
        if done % 5_000 == 0:
            say(f"one process: {done} seeds, {done / (monotonic() - begun):.0f} a second")
    return done, failures


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="tests.simulation.soak", description=__doc__)
    parser.add_argument("--seed", type=int, help="run this one only")
    parser.add_argument("--seeds", default="1000:1000000000", help="first:last, the last one left out")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after this long")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many share the seeds")
    parser.add_argument("--keep-going", action="store_true", help="count failures instead of stopping at the first")
    parser.add_argument("--trace", action="store_true", help="tell what happens in the one seed")
    parser.add_argument("--transactions", action="store_true", help="writers write in transactions too")
    arguments = parser.parse_args(words)
    if arguments.seed is not None:
        run_seed(arguments.seed, trace=arguments.trace, transactions=arguments.transactions)
        return 0
    first, last = (int(part) for part in arguments.seeds.split(":"))
    begun, count = monotonic(), arguments.processes
    until = begun + arguments.minutes * 60
    run = partial(run_share, until=until, transactions=arguments.transactions, keep_going=arguments.keep_going)
    with get_context("spawn").Pool(count) as pool:  # ends all of them at the first failure
        shares = list(pool.imap_unordered(run, [range(first + number, last, count) for number in range(count)]))
    done, failed = sum(each for each, _ in shares), sum(len(failures) for _, failures in shares)
    say(f"{done} seeds in {monotonic() - begun:.1f} s, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
