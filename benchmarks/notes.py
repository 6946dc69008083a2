"""How many durable notes a second one controller takes, beside a bare uvicorn application and an empty FastAPI endpoint
in the same run.

    python -m benchmarks.notes [--seconds 3] [--rounds 3] [--connections 64]

Every caller has a token. A thousand writers note in one stream, or in ten. The bare application and the endpoint, which
has a pydantic body, take the same requests and do nothing. Kinds take turns, the first round is not counted, and the
medians are printed. Machines differ and are shared: the ratios are what to look at, and
that of the CPU time before that of the rate.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import httpx

from benchmarks.figures import Figure, Report, arguments, run, spread
from benchmarks.servers import (
    BARE,
    ENDPOINT,
    Load,
    RunningServer,
    load,
    middle,
    new_token,
    scratch,
    serving_bare,
    serving_controller,
    serving_endpoint,
    stores,
    without_wrk,
)

STREAMS, WRITERS = 10, 1_000
NOTES_A_ROUND: Final = 10_000_000  # more than can be made in one: times go up from round to round
SCRIPT: Final = """
local made = 0
local headers = {HEADERS}
function request()
  made = made + 1
  local stream = made % STREAMS
  local writer = math.floor(made / STREAMS) % WRITERS
  local body = string.format(
    '{"writer":"t0-w%d","time":%d,"position":{"%d":%d,"%d":%d}}',
    writer, START + made, writer % 4, START + made, (writer + 1) % 4, START + made)
  return wrk.format("POST", "/v1/streams/PREFIX" .. stream .. "/notes", headers, body)
end
"""


@dataclass(frozen=True, slots=True)
class Service:
    """A server, and how it is asked."""

    server: RunningServer
    streams: int
    token: str | None


def headers(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {token}"}


def make_streams(url: str, streams: int = STREAMS, token: str | None = None) -> None:
    with httpx.Client(base_url=url, timeout=30, headers=headers(token)) as client:
        for number in range(streams):
            settings = {"segments": 4, "max_ahead_ms": None}
            client.put(f"/v1/streams/{prefix(streams)}{number}", json=settings).raise_for_status()


def prefix(streams: int) -> str:
    """How the names of so many streams begin: those of the kinds are not the same."""
    return "s" if streams == STREAMS else f"of-{streams}-"


def noting(round_: int, streams: int = STREAMS, token: str | None = None) -> str:
    """What wrk runs: notes above those of the rounds before."""
    sent = {"content-type": "application/json", **headers(token)}
    text = SCRIPT.replace("HEADERS", ", ".join(f'["{name}"] = "{value}"' for name, value in sent.items()))
    text = text.replace("STREAMS", str(streams)).replace("WRITERS", str(WRITERS // streams))
    return text.replace("PREFIX", prefix(streams)).replace("START", str(round_ * NOTES_A_ROUND))


def measure(options: argparse.Namespace) -> Report:
    lacking = without_wrk()
    if lacking is not None:
        return Report(missing=[lacking])
    report = Report()
    with ExitStack() as opened:
        folder = opened.enter_context(scratch())
        token = "as-long-as-a-token-of-ours-is-for-the-controllers"
        empty = {BARE: serving_bare(opened), ENDPOINT: serving_endpoint(opened)}
        kinds = {name: Service(server, STREAMS, token) for name, server in empty.items()}
        for store, database in stores(opened, folder, report.missing, postgres=bool(options.postgres)).items():
            token = new_token(database)
            server = serving_controller(opened, database)
            for streams, name in ((1, "one stream"), (STREAMS, f"{STREAMS} streams")):
                make_streams(server.url, streams, token)
                kinds[f"{store}, {name}"] = Service(server, streams, token)
        runs: dict[str, list[Load]] = {name: [] for name in kinds}
        for number in range(options.rounds + 1):
            seconds = options.seconds if number else options.warm_up
            for name, kind in kinds.items() if seconds else ():
                text = noting(number, kind.streams, kind.token)
                runs[name].append(load(kind.server, text, folder, options.connections, seconds))
    show(options, {name: taken[-options.rounds :] for name, taken in runs.items()}, report)
    return report


def show(options: argparse.Namespace, runs: Mapping[str, list[Load]], report: Report) -> None:
    print(f"{options.connections} connections, {options.rounds} runs of {options.seconds} s")
    print(f"{'':26} {'notes/s':>9} {'lowest–highest':>16} {'of bare':>8} {'CPU µs':>7} {'of FastAPI':>10} "
          f"{'p50 ms':>7} {'p99 ms':>7}")  # fmt: skip
    bare, endpoint = middle(runs[BARE]), middle(runs[ENDPOINT])
    for kind, taken in runs.items():
        found = middle(taken)
        rate, between = found.per_second, spread([each.per_second for each in taken])
        print(f"{kind:26} {rate:9,.0f} {between:>16} {rate / bare.per_second:8.0%} {found.cpu_us:7.1f} "
              f"{found.cpu_us / endpoint.cpu_us:10.2f} {found.median_ms:7.2f} {found.p99_ms:7.2f}")  # fmt: skip
        if kind == BARE:
            continue
        if kind == ENDPOINT:
            report.figures.append(Figure.of(f"calls of {kind}, a second", rate, BARE, bare.per_second, "a second"))
            continue
        what = f"durable notes, {kind}"
        of_kind = [
            Figure.of(f"{what}, a second", rate, BARE, bare.per_second, "a second", "ratio ≥ 0.18"),
            Figure.of(f"{what}, CPU of one", found.cpu_us, ENDPOINT, endpoint.cpu_us, "µs", "ratio ≤ 1"),
            Figure.of(f"{what}, p99", found.p99_ms, BARE, bare.p99_ms, "ms", "ratio ≤ 5"),
        ]
        report.figures.extend(of_kind)


def main() -> None:
    parser = arguments(__doc__, seconds=3, rounds=3, connections=64, warm_up=1, postgres=1)
    run(measure, parser.parse_args())


if __name__ == "__main__":
    main()
