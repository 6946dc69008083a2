"""Drawn histories: each call goes to one of several caches of a stream, after it caught up, and to a single stream.

    calls     a    b    c    d    e    f
    single    ●────●────●────●────●────●     gets them all, and is never stored
    cache 1   ●─────────●╌╌╌╌╌╌╌╌╌●          ╌ adopts what others stored, or loads the stream
    cache 2   ╌╌╌╌╌●╌╌╌╌╌╌╌╌╌●╌╌╌╌╌╌╌╌●

Answers, marks and who is forgotten are the same, and whenever a cache has caught up, it equals one that is loaded.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from strandline.core.changes import Changes
from strandline.core.config import LateWriters, StreamConfig, TimeDomain
from strandline.core.note import Note
from strandline.core.segment import NewSegment, SegmentGraph
from strandline.core.served_time import Unserved
from strandline.core.stream import Stream
from strandline.core.writer import StreamWriter
from strandline.errors import Refused
from tests.drawn import Draw, Suite
from tests.several.cache_store import Cache, Store

START = 1_000
PAUSES = (1, 0, 7, 30, 70, 150)
MOST_SEGMENTS = 7
SETTINGS = (
    "writer_timeout_ms", "min_writers", "mark_interval_ms", "late_writers", "forget_after_ms", "idle_lag_ms",
    "max_writers",
)  # fmt: skip


class Differs(AssertionError):
    """A cache is not what it should be."""


@dataclass(frozen=True)
class Call:
    name: str
    args: tuple[Any, ...]
    settings: Mapping[str, Any]

    def answer(self, stream: Stream, now: int) -> object:
        """The answer of a stream, or its refusal."""
        given = dict(self.settings) if self.name == "let_pass" else {**self.settings, "now": now}
        try:
            return getattr(stream, self.name)(*self.args, **given)
        except Refused as refused:
            return refused.code, str(refused)


def call(name: str, *args: Any, **settings: Any) -> Call:
    return Call(name, args, settings)


def drawn_config(random: Random) -> StreamConfig:
    choose = random.choice
    ingestion = random.random() < 0.3
    return StreamConfig(
        time_domain=TimeDomain.INGESTION if ingestion else TimeDomain.EVENT,
        writer_timeout_ms=choose((60, 200, None, 0)),
        min_writers=choose((1, 1, 2)),
        mark_interval_ms=choose((0, 0, 40, None)),
        late_writers=choose((LateWriters.HOLD, LateWriters.SKIP)),
        max_ahead_ms=choose((None, 500)),
        idle_lag_ms=choose((10, 0)),
        clock_skew_ms=choose((0, 5)) if ingestion else 0,
        forget_after_ms=choose((1_000_000, 100, 0)),
        max_writers=choose((10, 10, 3)),
    )


class World:
    """One history."""

    def __init__(self, random: Random) -> None:
        self._random = random
        config = drawn_config(random)
        self._is_ingestion = config.time_domain is TimeDomain.INGESTION
        self._keys = ("",) if self._is_ingestion else random.choice((("",), ("", "k")))
        self._names = [f"w{number}" for number in range(random.choice((2, 3, 5)))]
        self._unserved = Unserved()
        settings: dict[str, Any] = {
            "history_notes": random.choice((64, 1, 2, 3)),
            "gone_kept_ms": random.choice((0, 0, 90)),
            "unserved": self._unserved,
        }
        is_open, count = random.random() < 0.3, random.randint(1, 3)
        graph = SegmentGraph(open=True) if is_open else SegmentGraph.equal_shares(count, START)
        self._segments = [str(number) for number in range(count)] + (["x"] if is_open else [])
        self._have_own = random.random() < 0.3  # each writer has segments of its own
        self._now = START
        self._single = Stream("s", config, graph, now=START, **settings)
        self._store = Store(self._single, **settings)
        self._caches = [Cache(self._store) for _ in range(random.choice((2, 3)))]
        self.counts = Counter[str]()

    def step(self) -> None:
        """One commit."""
        calls, cache = self._call()
        expected, changes = self._single.drain(), cache.commit(self._random.getrandbits(30))
        self._compare(calls, results_of(expected), results_of(changes))
        self.counts["marks"] += len(changes.marks)

    def _call(self) -> tuple[list[Call], Cache]:
        """Some calls, to a cache that first catches up, and to the single stream."""
        random = self._random
        self._now += random.choice(PAUSES)
        if random.random() < 0.05:
            self._unserved.total_ms += random.choice((30, 100))
        cache = random.choice(self._caches)
        if cache.catch_up():
            self._compare_with_loaded(cache)
        calls = [self._drawn(self._single) for _ in range(random.choice((1, 1, 1, 2, 4)))]
        if calls[0].name == "drop_segment":
            del calls[1:]  # the controller has such a call drained by itself
        calls = [calls[0], *(each for each in calls[1:] if each.name != "drop_segment")]
        for each in calls:
            self._compare(each, each.answer(self._single, self._now), each.answer(cache.stream, self._now))
            self.counts["calls"] += 1
        return calls, cache

    def _compare_with_loaded(self, cache: Cache) -> None:
        loaded, _ = self._store.load()
        self.counts["adopted"] += 1
        self._compare("caught up", facts_of(loaded, self._now), facts_of(cache.stream, self._now))
        if self._random.random() < 0.1:
            self._go_on(loaded, copy.deepcopy(cache.stream))

    def _go_on(self, loaded: Stream, caught_up: Stream) -> None:
        """Both get the same further calls, beside the history."""
        now = self._now
        for _ in range(8):
            now += self._random.choice(PAUSES)
            each = self._drawn(loaded)
            self._compare(each, each.answer(loaded, now), each.answer(caught_up, now))
            self._compare(each, results_of(loaded.drain()), results_of(caught_up.drain()))
            self._compare(each, facts_of(loaded, now), facts_of(caught_up, now))

    def _compare(self, after: object, expected: object, found: object) -> None:
        if expected == found:
            return
        if isinstance(expected, dict) and isinstance(found, dict):
            names = [name for name in {**expected, **found} if expected.get(name) != found.get(name)]
            expected, found = ({name: each.get(name) for name in names} for each in (expected, found))
        raise Differs(f"after {after} at {self._now}:\n  expected {expected}\n  found    {found}")

    # -- calls ---------------------------------------------------------------------------------------------------

    def _drawn(self, stream: Stream) -> Call:
        """A call that means something to the stream, as it is."""
        random = self._random
        name = random.choice(self._names)
        kinds: Sequence[tuple[int, Callable[[Stream, str], Call]]] = (
            (22, self._note),
            (4, self._registration),
            (4, lambda stream, name: call("idle", name, self._epoch(stream, name))),
            (4, lambda stream, name: call("close", name, self._epoch(stream, name))),
            (2, lambda stream, name: call(random.choice(("exclude", "include")), name)),
            (1, self._configuration),
            (2, lambda stream, name: call("evaluate", random.choice(self._keys))),
            (1, self._structural),
            (2, lambda stream, name: call("let_pass", {random.choice(self._keys): START + random.randint(0, 300)})),
            (2, lambda stream, name: call("truncate", {random.choice(self._segments): random.randint(0, 3)})),
            (6, lambda stream, name: call("advance")),
        )
        (kind,) = random.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
        return kind(stream, name)

    def _epoch(self, stream: Stream, name: str) -> int | None:
        random, known = self._random, stream.writers.get(name)
        if random.random() < 0.08:
            return random.randint(1, stream.epochs + 1)
        return random.choice((None if known is None else known.epoch, None))

    def _note(self, stream: Stream, name: str) -> Call:
        random, known = self._random, stream.writers.get(name)
        keys = random.choice(((self._keys[0],), (self._keys[-1],), self._keys))
        times = {key: self._near(stream, known, key) + random.choice((3, 0, 12, 40, 40, -1, -15, 400)) for key in keys}
        segments = self._segments
        if self._have_own:
            segments = [segments[self._names.index(name) % len(segments)]]
        position = {}
        for segment in segments:
            if random.random() < 0.6:
                noted = 0 if known is None else known.position.offset(segment)
                position[segment] = max(0, noted + random.choice((1, 0, 2, 3, -1)))
                final = stream.graph[segment].final_offset if segment in stream.graph else None
                if final is not None and random.random() < 0.9:
                    position[segment] = min(position[segment], final)
        newest = {key: times[key] + random.randint(-5, 20) for key in keys if random.random() < 0.5}
        epoch = self._epoch(stream, name)
        tail = self._is_ingestion and random.random() < 0.15
        return call("note", Note(writer=name, times=times, position=position, epoch=epoch, newest=newest), tail=tail)

    def _near(self, stream: Stream, known: StreamWriter | None, key: str) -> int:
        if self._is_ingestion:
            return stream.clock
        key_state = None if known is None else known.key_states.get(key)
        last = stream.last_marks.get(key)
        times = [None if key_state is None else key_state.time, None if last is None else last.time]
        return self._random.choice([time for time in times if time is not None] or [START])

    def _registration(self, stream: Stream, name: str) -> Call:
        keys = self._random.choice((None, self._keys, (self._keys[-1],)))
        return call("register", name, keys, registration=self._random.choice((None, "one", "two")))

    def _configuration(self, stream: Stream, name: str) -> Call:
        setting = self._random.choice(SETTINGS)
        return call("configure", {setting: getattr(drawn_config(self._random), setting)})

    def _structural(self, stream: Stream, name: str) -> Call:
        random = self._random
        if random.random() < 0.05:
            return call("seal", {})
        if stream.graph.open:
            return call("drop_segment", random.choice(self._segments)) if random.random() < 0.5 else call("advance")
        unsealed = [segment for segment in stream.graph if not segment.sealed]
        if len(self._segments) >= MOST_SEGMENTS or not unsealed or stream is not self._single:
            return call("advance")
        divided = random.choice(unsealed)
        positions = [0, *(writer.position.offset(divided.id) for writer in stream.writers.values())]
        positions += [mark.cut.offset(divided.id) for mark in stream.last_marks.values()]
        assert divided.low is not None and divided.high is not None
        new = [str(len(self._segments)), str(len(self._segments) + 1)]
        self._segments += new
        bounds = (divided.low, (divided.low + divided.high) / 2, divided.high)
        parts = [NewSegment(new[0], *bounds[:2]), NewSegment(new[1], *bounds[1:])]
        return call("scale", {divided.id: max(positions) + random.randint(0, 1)}, parts)


def results_of(changes: Changes) -> dict[str, object]:
    """What changed. The order in which writers time out at one moment depends on when deadlines were looked up."""
    states = sorted(changes.states, key=lambda each: (each.at, each.writer, each.key))
    return {"marks": changes.marks, "forgotten": changes.forgotten, "states": states}


def facts_of(stream: Stream, now: int) -> dict[str, object]:
    """All by which streams can differ, but for what only further calls show."""
    facts: dict[str, object] = {
        "clock": stream.clock,
        "epochs": stream.epochs,
        "passed": stream.passed,
        "head": stream.head,
        "sealed": stream.sealed,
        "config": stream.config,
        "segments": list(stream.graph),
        "remainders": stream.remainders,
        "last_marks": stream.last_marks,
        "next_wake": stream.next_wake(),
        "resting": stream.resting(now),
        "held_states": stream._held_states,
    }
    for key in stream.keys:
        facts[f"held_by {key!r}"] = stream.held_by(key, now)
        facts[f"have_noted {key!r}"] = stream.aggregate(key).have_noted
        facts[f"next_time {key!r}"] = stream._aggregates[key].next_time()
    for name, writer in stream.writers.items():
        facts[f"writer {name}"] = _needed(writer, stream.last_marks)
    return facts


def _needed(writer: StreamWriter, last_marks: Mapping[str, Any]) -> StreamWriter:
    """The writer without the kept notes that marks have passed: when they are dropped makes no difference."""
    key_states = {}
    for key, each in writer.key_states.items():
        key_states[key] = replace(each)
        if key in last_marks:
            key_states[key].drop_passed(last_marks[key].time)
    return replace(writer, key_states=key_states)


def run(draw: Draw) -> Counter[str]:
    world = World(draw.random)
    for _ in draw.steps(50):
        world.step()
    return world.counts


CACHES: Final = Suite("caches", run, AssertionError)
