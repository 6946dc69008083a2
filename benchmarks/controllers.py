"""What a note costs with one, two and three controllers on one PostgreSQL, and what it costs to call the wrong one.

    python -m benchmarks.controllers [--seconds 3] [--rounds 2] [--connections 48]

Each controller has an equal part of the streams. Callers either know the owners, as our clients do, or call one
controller about the streams of the others, which passes every call on. All controllers run on the first core, wrk and
PostgreSQL on the last one. So more controllers do not make the rate higher here. The CPU time of a call shows what they
cost: on machines of their own, controllers whose callers know the owners share nothing but PostgreSQL.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from benchmarks.cluster import Cluster, sessions_of
from benchmarks.figures import Figure, Report, arguments, median, run
from benchmarks.servers import (
    WITHOUT_POSTGRES,
    cpu_s,
    load,
    on_core,
    running_postgres,
    scratch,
    spent_s,
    without_wrk,
)
from tests.postgres import Postgres

STREAMS: Final = 60
MOST: Final = 3  # controllers
ALONE: Final = "one controller, owner called"
NOTES: Final = """
local names = {NAMES}
local made = 0
function request()
  made = made + 1
  local body = string.format(
    '{"writer":"w%d","time":%d,"position":{"%d":%d}}', made % 20, START + made, made % 4, START + made)
  local path = "/v1/streams/" .. names[made % #names + 1] .. "/notes"
  return wrk.format("POST", path, {["content-type"] = "application/json"}, body)
end
"""
WINDOWS: Final = """
local names = {NAMES}
local made = 0
function request()
  made = made + 1
  local path = "/v1/streams/" .. names[made % #names + 1] .. "/time-window"
  return wrk.format("POST", path, {["content-type"] = "application/json"}, '{"position":{"0":1}}')
end
"""
WORK: Final = {"notes": NOTES, "windows": WINDOWS}
CALLS_A_ROUND: Final = 10_000_000  # more than can be made in one: times go up from round to round


@dataclass(frozen=True, slots=True)
class CallCost:
    """Calls a second, and the CPU time of one in the controllers and in PostgreSQL."""

    per_second: float
    controllers_us: float
    postgres_us: float
    p99_ms: float


def made(cluster: Cluster) -> list[str]:
    """The names of new streams."""
    names = [f"s{number}" for number in range(STREAMS)]
    url = next(iter(cluster.controllers.values())).url
    with httpx.Client(base_url=url, timeout=30) as client:
        for name in names:
            client.put(f"/v1/streams/{name}", json={"segments": 4, "max_ahead_ms": None}).raise_for_status()
    return names


def once(
    cluster: Cluster, called: Mapping[str, Sequence[str]], script: str, options: argparse.Namespace, folder: Path
) -> CallCost:
    """Lets one wrk for each controller that is called ask about its streams, all side by side."""
    controllers = cpu_s([server.process.pid for server in cluster.controllers.values()])
    sessions = cpu_s(sessions_of(cluster.postgres.process_id))

    def ask(name: str) -> tuple[float, float]:
        own = folder / name
        own.mkdir(exist_ok=True)
        names = ", ".join(f'"{each}"' for each in called[name])
        text = script.replace("NAMES", names)
        found = load(cluster.controllers[name], text, own, options.connections // len(called), options.seconds)
        return found.per_second, found.p99_ms

    with ThreadPoolExecutor(len(called)) as pool:
        found = list(pool.map(ask, called))
    rate = sum(each for each, _ in found)
    calls = rate * options.seconds
    controllers_us, postgres_us = (spent_s(each) / calls * 1e6 for each in (controllers, sessions))
    return CallCost(rate, controllers_us, postgres_us, max(p99 for _, p99 in found))


def measure_with(count: int, postgres: Postgres, options: argparse.Namespace, folder: Path) -> dict[str, CallCost]:
    """The medians of all kinds of calls with so many controllers, by what is called how."""
    with ExitStack() as opened:
        cluster = Cluster(postgres, postgres.new_database(), opened, on_core(0))
        for name in "abc"[:count]:
            cluster.start(name)
        cluster.balance()
        names = made(cluster)
        owned = cluster.owners_of(names)
        ways = {"owner called": owned}
        if count > 1:
            ways["passed on"] = {"a": [name for name in names if name not in owned["a"]]}
        runs: dict[str, list[CallCost]] = {}
        for turn in range(options.rounds + 1):  # the first one is not counted
            for place, (way, called) in enumerate(ways.items()):
                for what, script in WORK.items():
                    text = script.replace("START", str((2 * turn + place) * CALLS_A_ROUND))
                    runs.setdefault(f"{what}, {way}", []).append(once(cluster, called, text, options, folder))
    return {kind: middle(taken[1:]) for kind, taken in runs.items()}


def middle(runs: Sequence[CallCost]) -> CallCost:
    return CallCost(
        median(each.per_second for each in runs),
        median(each.controllers_us for each in runs),
        median(each.postgres_us for each in runs),
        median(each.p99_ms for each in runs),
    )


def measure(options: argparse.Namespace) -> Report:
    lacking = without_wrk()
    report = Report(missing=[] if lacking is None else [lacking])
    with ExitStack() as opened:
        postgres = running_postgres(opened)
        if postgres is None:
            report.missing.append(WITHOUT_POSTGRES)
        if postgres is None or lacking is not None:
            return report
        folder = opened.enter_context(scratch())
        print(f"{options.connections} connections, {options.rounds} runs of {options.seconds} s; CPU time of a call")
        print(f"{'':14} {'':22} {'a second':>9} {'p99 ms':>7} {'controllers':>12} {'PostgreSQL':>11}")
        found = {count: measure_with(count, postgres, options, folder) for count in range(1, MOST + 1)}
    for count, kinds in found.items():
        for kind, taken in kinds.items():
            print(
                f"{count} controllers  {kind:22} {taken.per_second:9,.0f} {taken.p99_ms:7.1f} "
                f"{taken.controllers_us:9,.0f} µs {taken.postgres_us:8,.0f} µs"
            )
    for what in WORK:
        alone = found[1][f"{what}, owner called"]
        for count in range(2, MOST + 1):
            for way in ("owner called", "passed on"):
                taken = found[count][f"{what}, {way}"]
                name = f"CPU of {what} in {count} controllers on PostgreSQL, {way}"
                report.figures.append(Figure.of(name, taken.controllers_us, ALONE, alone.controllers_us, "µs"))
    return report


def main() -> None:
    run(measure, arguments(__doc__, seconds=3, rounds=2, connections=48).parse_args())


if __name__ == "__main__":
    main()
