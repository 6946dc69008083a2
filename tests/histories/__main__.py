"""Runs histories until one fails: `python -m tests.histories --seeds 0:1000`, or replays one: `--seed 17`.

With `--kafka 1` they are of writers over Kafka, whose broker is killed and whose answers are lost; or `--kafka 3`.
With `--relays` they are of producers that note by records, and of the relays that read these: over a model of Kafka,
or, with `--kafka 1`, over a broker.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path

from tests.histories.history import run
from tests.histories.kafka_history import run_over_kafka
from tests.histories.relay_history import run_with_relays
from tests.histories.relay_kafka import run_with_relays_over_kafka


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:1000", help="from:to")
    parser.add_argument("--seed", type=int, help="one seed, with every step")
    parser.add_argument("--kafka", type=int, metavar="BROKERS", help="over so many brokers")
    parser.add_argument("--relays", action="store_true", help="of relays")
    given = parser.parse_args()
    begin, end = map(int, given.seeds.split(":")) if given.seed is None else (given.seed, given.seed + 1)
    trace = None if given.seed is None else say
    logging.disable()
    with tempfile.TemporaryDirectory() as folder:
        if given.kafka is not None and given.relays:
            run_with_relays_over_kafka(range(begin, end), Path(folder), trace)
        elif given.kafka is not None:
            run_over_kafka(range(begin, end), given.kafka, Path(folder), trace)
        else:
            run_one = run_with_relays if given.relays else run
            for seed in range(begin, end):
                run_one(seed, Path(folder, str(seed)), trace)
    say(f"{end - begin} histories hold")


if __name__ == "__main__":
    main()
