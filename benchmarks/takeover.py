"""How long time stands still in each stream when a controller is killed, joins or is drained.

    python -m benchmarks.takeover [--streams 1000] [--many 10000] [--silent 500] [--seconds 8]

Three controllers serve one PostgreSQL. Every stream has a writer with a connection of its own, which notes twice a
second, at an address that answered last; after a refusal it sends the note again at once, and if it was not answered at
the next address. Time stands still in a stream while its note waits to be taken.

Then, with many streams: the memory of the controllers, the time until a stream of a killed controller takes a note
again, and how late marks come that time alone makes, in streams which nobody calls.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import time
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final

import httpx

from benchmarks.cluster import Cluster
from benchmarks.figures import Figure, Report, arguments, percentile, run
from benchmarks.raw_http import RawConnection
from benchmarks.servers import WITHOUT_POSTGRES, resident_mib, running_postgres

NAMES: Final = ("a", "b", "c")
TOGETHER: Final = 25  # streams in a request, where all are called
PERIOD_S: Final = 0.5
AGAIN_S: Final = 0.05  # after a refusal
WARM_UP_S: Final = 2
HAPPENINGS: Final = ("nothing", "killed", "joined", "drained")  # to the controller c, in turn
CALLS: Final = 32  # at once, where all streams are called
SETTINGS: Final = {"segments": 1, "max_ahead_ms": None, "mark_interval_ms": 0}
SILENT_MS: Final = 12_000  # after which a writer that is silent times out
BEFORE_KILL_S: Final = 4.0  # the controller is killed so long before the first of them does
PROMISED_MS: Final = {"killed": 5_000, "drained": 1_000}
CALL_DEADLINE_S: Final = 10.0
PATIENCE_S: Final = 60.0


class Addresses:
    """The controllers' addresses. A call goes to the one that answered last."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._at = 0

    def present(self) -> str:
        urls = [server.url for server in self._cluster.controllers.values()]
        return urls[self._at % len(urls)]

    def next(self) -> None:
        self._at += 1


class Noting:
    """Makes streams, and notes in many at once."""

    def __init__(self, cluster: Cluster) -> None:
        limits = httpx.Limits(max_connections=None)
        self._client = httpx.AsyncClient(timeout=CALL_DEADLINE_S, limits=limits)
        self._cluster = cluster
        self._moments = itertools.count(1)

    async def __aenter__(self) -> Noting:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def put(self, name: str, settings: dict[str, Any]) -> None:
        url, deadline = Addresses(self._cluster).present(), time.monotonic() + PATIENCE_S
        while not (answer := await self._client.put(f"{url}/v1/streams/{name}", json=settings)).is_success:
            if answer.status_code not in (503, 504) or time.monotonic() > deadline:
                raise SystemExit(f"{name} was not created: {answer.status_code} {answer.text}")
            await asyncio.sleep(AGAIN_S)

    async def once(self, streams: Sequence[str], addresses: Addresses, writer: str = "w") -> list[str]:
        """Sends one note for each stream; returns the streams whose note was not taken."""
        moment = next(self._moments)
        notes = [{"stream": name, "writer": writer, "time": moment, "position": {"0": moment}} for name in streams]
        try:
            answer = await self._client.post(f"{addresses.present()}/v1/notes", json={"notes": notes})
        except httpx.TransportError:
            addresses.next()
            return list(streams)
        if answer.status_code != 200:
            return list(streams)
        results = answer.json()["results"]  # what was taken without an answer is refused when it comes again
        return [
            name
            for name, result in zip(streams, results, strict=True)
            if result.get("code") not in (None, "time_went_back")
        ]

    async def until_taken(self, streams: Sequence[str], addresses: Addresses, writer: str = "w") -> None:
        left, deadline = list(streams), time.monotonic() + PATIENCE_S
        while left := await self.once(left, addresses, writer):
            if time.monotonic() > deadline:
                raise SystemExit(f"for {PATIENCE_S} s no note was taken for {left[:3]}")
            await asyncio.sleep(AGAIN_S)


class SteadyWriter:
    """Notes in one stream, over a connection of its own, until it is cancelled."""

    def __init__(self, cluster: Cluster, stream: str, moments: Iterator[int]) -> None:
        self._addresses = Addresses(cluster)
        self._stream = stream
        self._moments = moments
        self._sent: float | None = None  # the note that waits
        self._longest = 0.0
        self._connection: RawConnection | None = None

    def forget(self) -> None:
        """From now on only notes from here on count."""
        self._longest = 0.0

    @property
    def longest_s(self) -> float:
        """The longest time that a note waited until it was taken, with the one that waits now."""
        return max(self._longest, 0.0 if self._sent is None else time.monotonic() - self._sent)

    async def run(self) -> None:
        try:
            await asyncio.sleep(PERIOD_S * random.random())
            while True:
                self._sent = sent = time.monotonic()
                note = json.dumps({"writer": "w", "time": next(self._moments), "position": {"0": 1}}).encode()
                while not await self._is_taken(note):
                    await asyncio.sleep(AGAIN_S)
                self._longest, self._sent = max(self._longest, time.monotonic() - sent), None
                await asyncio.sleep(max(0.0, sent + PERIOD_S - time.monotonic()))
        finally:
            self._close()

    async def _is_taken(self, note: bytes) -> bool:
        try:
            async with asyncio.timeout(CALL_DEADLINE_S):
                if self._connection is None:
                    self._connection = RawConnection(self._addresses.present())
                status, body = await self._connection.send("POST", f"/v1/streams/{self._stream}/notes", note)
        except (OSError, EOFError):
            self._close()
            self._addresses.next()
            return False
        # What was taken without an answer is refused when it comes again.
        return status == 200 or b'"time_went_back"' in body

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


async def side_by_side(calls: Iterable[Coroutine[Any, Any, None]]) -> None:
    """A bounded number of calls at once."""
    bound = asyncio.Semaphore(CALLS)

    async def bounded(call: Coroutine[Any, Any, None]) -> None:
        async with bound:
            await call

    await asyncio.gather(*(bounded(call) for call in calls))


def parts(streams: Sequence[str], size: int = TOGETHER) -> list[Sequence[str]]:
    return [streams[at : at + size] for at in range(0, len(streams), size)]


# -- under load ----------------------------------------------------------------------------------------------------


async def stand_stills(cluster: Cluster, options: argparse.Namespace, report: Report) -> None:
    streams = [f"s{number}" for number in range(options.streams)]
    async with Noting(cluster) as noting:
        await side_by_side(noting.put(name, SETTINGS) for name in streams)
    print(f"{options.streams} streams, noted every {PERIOD_S * 1000:.0f} ms; time stands still, in ms")
    print(f"{'':20} {'streams':>8} {'p50':>7} {'p90':>7} {'p99':>7} {'longest':>8}")
    moments = itertools.count(1)
    for happening in HAPPENINGS:
        joins = happening == "joined"
        if joins:
            await asyncio.to_thread(cluster.start, "c")
        else:
            await asyncio.to_thread(cluster.balance)
        struck = streams if joins else cluster.owners_of(streams)["c"]
        writers = {name: SteadyWriter(cluster, name, moments) for name in streams}
        load = [asyncio.create_task(writer.run()) for writer in writers.values()]
        await asyncio.sleep(WARM_UP_S)
        for writer in writers.values():
            writer.forget()
        if joins:
            await asyncio.to_thread(cluster.balance)
        elif happening == "killed":
            cluster.controllers.pop("c").process.kill()
        elif happening == "drained":
            cluster.controllers.pop("c").process.terminate()
        await asyncio.sleep(options.seconds)
        times = [writers[name].longest_s * 1000 for name in struck]
        for task in load:
            task.cancel()
        await asyncio.gather(*load, return_exceptions=True)
        show(happening, options, times, report)
    await asyncio.to_thread(cluster.start, "c")


def show(what: str, options: argparse.Namespace, times: Sequence[float], report: Report) -> None:
    found = [percentile(times, percent) for percent in (50, 90, 99, 100)]
    print(f"{what:20} {len(times):8} {found[0]:7,.0f} {found[1]:7,.0f} {found[2]:7,.0f} {found[3]:8,.0f}")
    if what in PROMISED_MS:
        name = f"time stands still, one of three controllers on PostgreSQL {what}, {options.streams:,} streams, longest"
        report.figures.append(Figure.of(name, found[3], "aim", PROMISED_MS[what], "ms"))


# -- many streams --------------------------------------------------------------------------------------------------


async def many_streams(cluster: Cluster, options: argparse.Namespace, report: Report) -> None:
    before = {name: resident_mib(server.process.pid) for name, server in cluster.controllers.items()}
    streams = [f"m{number}" for number in range(options.many)]
    silent = streams[: options.silent]  # two writers, one of which falls silent; the others have one
    async with Noting(cluster) as noting:
        timeout = {**SETTINGS, "writer_timeout_ms": SILENT_MS}
        await side_by_side(noting.put(name, timeout if name in silent else SETTINGS) for name in streams)
        await asyncio.to_thread(cluster.balance)
        addresses = Addresses(cluster)
        await side_by_side(noting.until_taken(part, addresses) for part in parts(streams, 100))
        memory = {
            name: (resident_mib(server.process.pid) - before[name]) * 1024
            for name, server in cluster.controllers.items()
        }
        owned = cluster.owners_of(streams)
        each = [memory[name] / len(owned[name]) for name in memory]
        whole = sum(resident_mib(server.process.pid) for server in cluster.controllers.values())
        name = f"memory of one of {options.many:,} streams, three controllers on PostgreSQL"
        beside = f"all three: {whole:,.0f} MiB"
        report.figures.append(Figure(name, f"{max(each):.1f} KiB", beside, "", value=max(each)))
        print(f"{options.many} streams: {whole:,.0f} MiB in three controllers, {max(each):.1f} KiB a stream")

        begun: dict[str, float] = {}
        for part in parts(silent, 100):  # both writers note, the second one no more after that
            await noting.until_taken(part, addresses, "gone")
            begun |= dict.fromkeys(part, time.time())
            await noting.until_taken(part, addresses)
        await asyncio.sleep(max(0.0, min(begun.values()) + SILENT_MS / 1000 - BEFORE_KILL_S - time.time()))
        cluster.controllers.pop("c").process.kill()
        killed = time.monotonic()
        times: list[float] = []

        async def again(part: Sequence[str]) -> None:
            await noting.until_taken(part, Addresses(cluster))
            times.extend([time.monotonic() - killed] * len(part))

        called = [name for name in owned["c"] if name not in silent]
        await side_by_side(again(part) for part in parts(called))
    found = [percentile(times, percent) * 1000 for percent in (50, 99, 100)]
    print(f"{len(called)} streams of the killed one take a note again after: p50 {found[0]:,.0f}, p99 {found[1]:,.0f}, "
          f"longest {found[2]:,.0f} ms")  # fmt: skip
    name = f"{options.many:,} streams on PostgreSQL, those of a killed controller called at once, longest"
    report.figures.append(Figure.of(name, found[2], "aim", PROMISED_MS["killed"], "ms"))
    await asyncio.sleep(max(0.0, max(begun.values()) + SILENT_MS / 1000 + PROMISED_MS["killed"] / 1000 - time.time()))
    silences(cluster, begun, set(owned["c"]), report)


LAST_MARKS: Final = "SELECT stream, max(created_at) FROM mark WHERE stream LIKE 'm%' GROUP BY stream"


def silences(cluster: Cluster, begun: dict[str, float], lost: set[str], report: Report) -> None:
    """How late the marks came that the silence of one writer makes."""
    made: dict[str, int] = dict(cluster.postgres.execute(LAST_MARKS, cluster.database))
    for what, streams in (("of the killed controller", begun.keys() & lost), ("of others", begun.keys() - lost)):
        late = [made[name] - begun[name] * 1000 - SILENT_MS for name in streams]
        found = [percentile(late, percent) for percent in (50, 99, 100)]
        print(f"marks by silence in {len(late)} streams {what}: {found[0]:,.0f} ms late, p99 {found[1]:,.0f}, "
              f"latest {found[2]:,.0f}; earliest {min(late):,.0f}")  # fmt: skip
        if streams & lost:
            name = "marks by silence on PostgreSQL, streams that nobody calls, a controller killed, latest"
            report.figures.append(Figure.of(name, found[2], "aim", PROMISED_MS["killed"], "ms"))


def measure(options: argparse.Namespace) -> Report:
    with ExitStack() as opened:
        postgres = running_postgres(opened)
        if postgres is None:
            return Report(missing=[WITHOUT_POSTGRES])
        report = Report()
        cluster = Cluster(postgres, postgres.new_database(), opened)
        for name in NAMES:
            cluster.start(name)
        cluster.balance()
        asyncio.run(stand_stills(cluster, options, report))
        asyncio.run(many_streams(cluster, options, report))
    return report


def main() -> None:
    run(measure, arguments(__doc__, streams=1000, many=10_000, silent=500, seconds=8).parse_args())


if __name__ == "__main__":
    main()
