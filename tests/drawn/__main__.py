"""The command of all suites: see `tests.drawn`."""

from __future__ import annotations

import argparse
import logging
import sys
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import Final

from tests.drawn import Suite

# Where each is; those over Kafka are made with their brokers.
SUITES: Final = {
    "model": "tests.model.pair:MODEL",
    "several": "tests.several.world:SEVERAL",
    "caches": "tests.several.caches:CACHES",
    "stored-caches": "tests.several.stored_caches:STORED",
    "histories": "tests.histories.history:HISTORIES",
    "relays": "tests.histories.relay_history:RELAY_HISTORIES",
    "kafka": "tests.histories.kafka_history:over_one_broker",
    "three-kafkas": "tests.histories.kafka_history:over_three_brokers",
    "relays-kafka": "tests.histories.relay_kafka:over_a_broker",
}


def opened(name: str) -> AbstractContextManager[Suite]:
    module, _, attribute = SUITES[name].partition(":")
    found: Suite | AbstractContextManager[Suite] = getattr(import_module(module), attribute)
    return nullcontext(found) if isinstance(found, Suite) else found()  # type: ignore[operator]  # it makes one


def say(line: object) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.drawn", description="Runs drawn histories.")
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("first", type=int)
    parser.add_argument("end", type=int, nargs="?", help="the seed after the last one; without it, `first` is traced")
    parser.add_argument("--go-on", action="store_true", help="after one that fails")
    parser.add_argument("--shorter", action="store_true", help="say which steps are needed")
    given = parser.parse_args()
    logging.disable()
    failed, counts = 0, Counter[str]()
    with opened(given.suite) as suite:
        if given.shorter:
            say(f"it fails with these steps alone: {suite.shorter(given.first)}")
            return 0
        seeds = [given.first] if given.end is None else range(given.first, given.end)
        for seed in seeds:
            try:
                counts += suite.history(seed, say if given.end is None else None)
            except Exception as error:
                if not given.go_on:
                    raise
                failed += 1
                say(f"{seed}: {type(error).__name__}: {str(error)[:400]}")
    say(f"{len(seeds)} histories, {failed} failed; {dict(sorted(counts.items()))}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
