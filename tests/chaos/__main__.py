"""Kills controllers under load: `python -m tests.chaos --store sqlite --kills 1000`.

Kills come in rounds, each with a fresh store, load and history, which is judged at its end. A round's seed is `--seed`
plus its number. With `--network both` every second round cuts connections and loses answers, in front of writers and
readers. Where a rule is broken, the seed, the command that runs the round again and the file of the history are told.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.chaos.checker import RULES, judge
from tests.chaos.faults import KINDS
from tests.chaos.history import read_history
from tests.chaos.limits import ROUND_KILLS
from tests.chaos.processes import Launcher
from tests.chaos.run import Round, Verdict, run_round
from tests.postgres import Postgres, programs


def main() -> int:
    options = _options()
    without = frozenset(name for name in options.without.split(",") if name)
    if unknown := without - set(RULES):
        print(f"there are no rules {sorted(unknown)}; the rules are {', '.join(RULES)}", file=sys.stderr)
        return 2
    if options.judge is not None:
        violations = judge(read_history(options.judge), without=without)
        for violation in violations:
            print(violation)
        return 1 if violations else 0
    folder = Path(options.folder if options.folder is not None else tempfile.mkdtemp(prefix="strandline-chaos-"))
    began, kills, broken, number = time.monotonic(), 0, 0, 0
    rules: Counter[str] = Counter()
    with Launcher() as launcher, _postgres(options.store) as postgres:
        while kills < options.kills:
            harmful = options.network == "harmful" or (options.network == "both" and number % 2 == 1)
            count = min(options.round, options.kills - kills)
            seed, kinds = options.seed + number, tuple(kind for kind in options.kinds.split(",") if kind)
            round_ = Round(options.store, seed, count, harmful, options.controllers, kinds)
            own = folder / f"{options.store}-{round_.seed}"
            verdict = run_round(round_, launcher, postgres, own, without=without)
            _tell(verdict)
            rules.update(violation.rule for violation in verdict.violations)
            kills += max(1, verdict.kills)
            number += 1
            if verdict.violations:
                broken += 1
                if not options.go_on:
                    break
            else:
                shutil.rmtree(own)
    seconds = time.monotonic() - began
    print(f"{kills} kills in {seconds:.0f} s, {number} rounds, {broken} with violations {dict(rules)}", flush=True)
    return 1 if broken else 0


def _tell(verdict: Verdict) -> None:
    print(verdict, flush=True)
    for violation in verdict.violations:
        print(f"  VIOLATION {violation}", flush=True)
    if verdict.violations:
        print(f"  history: {verdict.history}\n  again:   {verdict.round.command}", flush=True)


@contextmanager
def _postgres(store: str) -> Iterator[Postgres | None]:
    if store == "sqlite":
        yield None
        return
    folder = programs()
    if folder is None:
        raise SystemExit("PostgreSQL's server is not installed: make servers")
    postgres = Postgres(folder, "fsync=off", "max_connections=50", "autovacuum=off")
    try:
        yield postgres
    finally:
        postgres.remove()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--kills", type=int, default=ROUND_KILLS, help="of processes, in all rounds")
    parser.add_argument("--round", type=int, default=ROUND_KILLS, metavar="COUNT", help="of kills in one round")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--network", choices=("calm", "harmful", "both"), default="both")
    parser.add_argument("--controllers", type=int, default=1, help="on one PostgreSQL; --kills counts all faults then")
    parser.add_argument("--kinds", default="", help=f"of faults of several controllers: {', '.join(KINDS)}")
    parser.add_argument("--without", default="", metavar="RULES", help="leave rules out, by name")
    parser.add_argument("--go-on", action="store_true", help="run all rounds, whatever they show")
    parser.add_argument("--folder", help="where stores, logs and histories go; a new one unless given")
    parser.add_argument("--judge", type=Path, metavar="FILE", help="judge a history again, and run nothing")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
