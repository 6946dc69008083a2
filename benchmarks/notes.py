"""How many durable notes a second one controller takes, beside a bare uvicorn application in the same run.

    python -m benchmarks.notes [--seconds 3] [--rounds 3] [--connections 64]

The bare application takes the same requests and does nothing. Kinds take turns, the first round is not counted, and the
medians are printed. Machines differ and are shared: the ratios are what to look at.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import Final

import httpx

from benchmarks.figures import Figure, Report, arguments, run, spread
from benchmarks.servers import BARE, Load, load, middle, scratch, serving_stores, without_wrk

STREAMS, WRITERS = 10, 100
NOTES_A_ROUND: Final = 10_000_000  # more than can be made in one: times go up from round to round
SCRIPT: Final = """
local made = 0
local thread_count = 0
function setup(thread) thread:set("number", thread_count); thread_count = thread_count + 1 end
function request()
  made = made + 1
  local stream = made % STREAMS
  local writer = math.floor(made / STREAMS) % WRITERS
  local body = string.format(
    '{"writer":"t%d-w%d","time":%d,"position":{"%d":%d,"%d":%d}}',
    number, writer, START + made, writer % 4, START + made, (writer + 1) % 4, START + made)
  return wrk.format("POST", "/v1/streams/s" .. stream .. "/notes", {["content-type"] = "application/json"}, body)
end
"""


def make_streams(url: str) -> None:
    with httpx.Client(base_url=url, timeout=30) as client:
        for number in range(STREAMS):
            client.put(f"/v1/streams/s{number}", json={"segments": 4, "max_ahead_ms": None}).raise_for_status()


def noting(round_: int) -> str:
    """What wrk runs: notes above those of the rounds before."""
    text = SCRIPT.replace("STREAMS", str(STREAMS)).replace("WRITERS", str(WRITERS))
    return text.replace("START", str(round_ * NOTES_A_ROUND))


def measure(options: argparse.Namespace) -> Report:
    lacking = without_wrk()
    if lacking is not None:
        return Report(missing=[lacking])
    report = Report()
    with ExitStack() as opened:
        folder = opened.enter_context(scratch())
        urls = serving_stores(opened, folder, report.missing, postgres=bool(options.postgres))
        for kind, url in urls.items():
            if kind != BARE:
                make_streams(url)
        runs: dict[str, list[Load]] = {kind: [] for kind in urls}
        for number in range(options.rounds + 1):
            for kind, url in urls.items():
                seconds = options.seconds if number else options.warm_up
                if seconds:
                    runs[kind].append(load(url, noting(number), folder, options.connections, seconds))
    show(options, {kind: taken[-options.rounds :] for kind, taken in runs.items()}, report)
    return report


def show(options: argparse.Namespace, runs: dict[str, list[Load]], report: Report) -> None:
    print(f"{options.connections} connections, {options.rounds} runs of {options.seconds} s")
    print(f"{'':14} {'notes/s':>9} {'lowest–highest':>16} {'p50 ms':>7} {'p99 ms':>7} {'of bare':>8}")
    reference = middle(runs[BARE]).per_second
    for kind, taken in runs.items():
        found = middle(taken)
        rate, between = found.per_second, spread([each.per_second for each in taken])
        times = f"{found.median_ms:7.2f} {found.p99_ms:7.2f}"
        print(f"{kind:14} {rate:9,.0f} {between:>16} {times} {rate / reference:8.0%}")
        if kind != BARE:
            report.figures.append(Figure.of(f"durable notes a second, {kind}", rate, BARE, reference, "a second"))


def main() -> None:
    parser = arguments(__doc__, seconds=3, rounds=3, connections=64, warm_up=1, postgres=1)
    run(measure, parser.parse_args())


if __name__ == "__main__":
    main()
