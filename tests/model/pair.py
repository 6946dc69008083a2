"""The core and the naive stream side by side: every call goes to both, and everything they say is compared."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final, Protocol, TypeVar

from hypothesis import strategies as st

from strandline.core.changes import NoteResult, Registered
from strandline.core.config import LateWriters, StreamConfig, TimeDomain
from strandline.core.cut import Cut
from strandline.core.mark import Mark
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.served_time import SERVED_GAP_MS, Unserved
from strandline.core.stream import Stream
from strandline.core.writer import WriterState
from strandline.errors import Refused
from tests.drawn import Draw, Suite
from tests.model.calls import NaiveAnswer, NaiveCalls
from tests.model.naive import NaiveMark, Refusal
from tests.model.store import Log, Piece, Store

T = TypeVar("T")

WRITERS = ("a", "b", "c")
START_MS = 1_000
AHEAD_MS = 500  # of the clock, where times are bounded
TOLD = {  # the value of a refusal that the caller goes on with
    "time_went_back": "stored_time",
    "position_went_back": "stored_offset",
    "fenced": "newest",
    "unknown_segment": "segment",
    "beyond_final_offset": "final_offset",
    "unknown_writer": "writer",
}


class Choices(Protocol):
    """Where a history comes from: a seed, or Hypothesis."""

    def pick(self, of: Sequence[T]) -> T: ...
    def integer(self, least: int, most: int) -> int: ...


class Seeded:
    def __init__(self, random: Random) -> None:
        self.random = random

    def pick(self, of: Sequence[T]) -> T:
        return self.random.choice(of)

    def integer(self, least: int, most: int) -> int:
        return self.random.randint(least, most)


class Drawn:
    def __init__(self, data: st.DataObject) -> None:
        self.data = data

    def pick(self, of: Sequence[T]) -> T:
        return self.data.draw(st.sampled_from(of))

    def integer(self, least: int, most: int) -> int:
        return self.data.draw(st.integers(least, most))


def draw_config(choices: Choices) -> StreamConfig:
    ingestion = choices.pick((False, False, True))
    return StreamConfig(
        time_domain=TimeDomain.INGESTION if ingestion else TimeDomain.EVENT,
        writer_timeout_ms=choices.pick((60, None, 0)),
        min_writers=choices.pick((1, 1, 2)),
        mark_interval_ms=choices.pick((0, 0, 40, None)),
        late_writers=choices.pick((LateWriters.HOLD, LateWriters.SKIP)),
        max_ahead_ms=choices.pick((None, AHEAD_MS)),
        idle_lag_ms=choices.pick((10, 0)),
        clock_skew_ms=choices.pick((0, 5)) if ingestion else 0,
        forget_after_ms=choices.pick((1_000_000, 100, 0)),
        max_writers=choices.pick((10, 10, 2)),
    )


class Pair:
    """One history for two streams. A restart puts the core's back together from what it had stored, and a third stream,
    the core's as well, is never restarted: it must make the same marks."""

    def __init__(self, choices: Choices, trace: Callable[[str], None] | None = None) -> None:
        self.choices = choices
        self.trace = trace
        config = draw_config(choices)
        self.ingestion = config.time_domain is TimeDomain.INGESTION
        self.keys = ("",) if self.ingestion else choices.pick((("",), ("", "k")))
        self.bound = choices.pick((64, 1, 2, 3))
        self.now = START_MS
        count, is_open = choices.integer(1, 3), choices.pick((False, False, True))
        self.log = Log(count, open=is_open)
        graph = SegmentGraph(open=True) if is_open else SegmentGraph.equal_shares(count, START_MS)
        self.store = Store(config, {each.id: each for each in graph}, is_open, START_MS)
        self.kept_ms = choices.pick((0, 0, 90))
        self.unserved = Unserved()
        again = SegmentGraph(graph, open=is_open)
        self.core, self.unstopped = (
            Stream(
                "s",
                config,
                each,
                now=START_MS,
                history_notes=self.bound,
                gone_kept_ms=self.kept_ms,
                unserved=self.unserved,
            )
            for each in (graph, again)
        )
        self.uppers: dict[str, int] = {}
        segments = () if is_open else tuple(self.log.pieces)
        self.naive = NaiveCalls(config, segments, now=START_MS, open=is_open, bound=self.bound, kept_ms=self.kept_ms)
        self.compared: dict[str, int] = {}
        self.tell(lambda: f"{config} keys {self.keys} bound {self.bound} segments {count} open {is_open}")

    def tell(self, what: Callable[[], str]) -> None:
        if self.trace is not None:
            self.trace(f"{self.now:>6} {what()}")

    # -- what to do next -----------------------------------------------------------------------------------------

    def step(self) -> None:
        """One call, drawn from the choices, at a moment that is drawn too; sometimes before the last one."""
        self.now += self.choices.pick((1, 0, 7, 30, 70, 150, -20))
        what = self.choices.integer(0, 24)
        writer = self.choices.pick(WRITERS)
        if what < 9:
            self.note(writer)
        elif what < 11:
            self.register(writer)
        elif what == 11:
            self.both("idle", writer, self.epoch(writer))
        elif what == 12:
            self.both("close", writer, self.epoch(writer))
        elif what == 13:
            self.both(self.choices.pick(("exclude", "include")), writer)
        elif what == 14:
            self.scale()
        elif what == 15:
            self.configure()
        elif what == 16:
            self.both("demand", self.choices.pick(self.keys))
        elif what == 17:
            self.restart()
        elif what == 18 and self.choices.integer(0, 9) == 9:
            self.both("seal", self.choices.pick(({}, self.log.end())) if not self.log.open else {})
        elif what == 19:
            self.drop()
        elif what == 20:
            self.pause()
        elif what == 21:
            self.stop_or_begin_to_serve()
        elif what == 22:
            self.truncate()
        elif what == 23:
            self.let_pass()
        else:
            self.both("advance")

    def epoch(self, writer: str) -> int | None:
        known = self.naive.writers.get(writer)
        newest = known.epoch if known is not None else None
        if self.choices.integer(0, 9) == 9:
            return self.choices.integer(1, self.naive.epochs + 1)
        return self.choices.pick((newest, None))

    def note(self, writer: str) -> None:
        known = self.naive.writers.get(writer)
        keys = self.choices.pick(((self.keys[0],), (self.keys[-1],), self.keys))
        if self.choices.integer(0, 14) == 14:
            keys = ()  # the position alone
        times = {}
        for key in keys:
            stored = known.time(key) if known is not None and key in known.phase else None
            last = self.naive.last_time(key)
            near = [time for time in (stored, last) if time is not None] or [START_MS]
            beside = self.choices.pick((3, 0, 12, 40, -1, -15, 400, AHEAD_MS + self.choices.pick((0, 1))))
            from_clock = self.ingestion or beside >= AHEAD_MS
            times[key] = (max(self.now, self.naive.clock) if from_clock else self.choices.pick(near)) + beside
        position = {}
        for segment in self.log.pieces:
            stored_offset = known.offset(segment) if known is not None else 0
            final = self.log.pieces[segment].final
            offset = stored_offset + self.choices.pick((1, 0, 2, 3, -1))
            if final is not None and self.choices.integer(0, 9) < 9:
                offset = min(offset, final)
            if self.choices.integer(0, 1):
                position[segment] = max(0, offset)
        if self.choices.integer(0, 19) == 19:
            position["unheard-of"] = self.choices.integer(0, 1)
            if self.log.open:
                self.log.pieces.setdefault("unheard-of", Piece("unheard-of", 1.0, 2.0))
        newest = {key: times[key] + self.choices.integer(-5, 20) for key in keys if self.choices.integer(0, 1)}
        tail = bool(keys) and self.choices.integer(0, 9) == 9 and (self.ingestion or self.choices.integer(0, 9) == 9)
        epoch = self.epoch(writer)
        said = Note(writer=writer, times=times, position=position, epoch=epoch, newest=newest)
        self.both("note", said, tail=tail)

    def register(self, writer: str) -> None:
        keys = self.choices.pick((None, self.keys, (self.keys[-1],)))
        self.both("register", writer, keys)

    def scale(self) -> None:
        """What the log does, told to both; the open segments must have been named before."""
        noted = self.naive.end_noted()
        for piece in self.log.live():
            while piece.end < noted.get(piece.id, 0) + self.choices.integer(0, 1):
                piece.end += 1
        pairs = self.log.neighbours()
        parents = [self.choices.pick(self.log.live())]
        if pairs and self.choices.integer(0, 1):
            parents = list(self.choices.pick(pairs))
        unknown = any(parent.id not in self.core.graph for parent in parents)
        if unknown or len(self.log.pieces) > 8 or self.core.sealed:
            return
        seal, create = self.log.scale(parents, self.choices.integer(1, 2))
        self.both("scale", seal, create)

    def drop(self) -> None:
        """A segment turns out not to exist; the log may begin it again as if nothing had been."""
        segment = self.choices.pick((*self.log.pieces, "unheard-of"))
        piece = self.log.pieces.get(segment)
        if self.core.sealed or (piece is not None and piece.final is not None):
            return
        self.both("drop_segment", segment)

    def truncate(self) -> None:
        ends = {name: end for name, end in (self.log.end() | self.naive.final).items() if name in self.core.graph}
        self.both("truncate", {name: self.choices.integer(0, end) for name, end in ends.items()})

    def let_pass(self) -> None:
        """Readers go on without the stream."""
        key = self.choices.pick(self.keys)
        passed = {key: (self.naive.last_time(key) or START_MS) + self.choices.pick((0, 3, 40))}
        self.tell(lambda: f"readers pass {passed}")
        mine = self.naive.let_pass(passed)
        for stream in (self.core, self.unstopped):
            self.same("let_pass", stream.let_pass(passed), mine)
        self.store.take(self.core, self.core.drain())

    def configure(self) -> None:
        drawn = draw_config(self.choices)
        name = self.choices.pick(
            (
                "writer_timeout_ms",
                "min_writers",
                "mark_interval_ms",
                "late_writers",
                "forget_after_ms",
                "idle_lag_ms",
                "max_writers",
            )
        )
        if not self.core.sealed:
            self.both("configure", {name: getattr(drawn, name)})

    def restart(self) -> None:
        """Only the core stops and starts; the next one goes on with the time in which nobody could be heard."""
        self.core = self.store.load(self.bound, self.kept_ms, self.unserved)
        self.tell(lambda: "restart")
        self.pause()

    def pause(self) -> None:
        """Time passes in which nobody could be heard."""
        passed = self.choices.pick((0, 0, 30, 200))
        self.now = max(self.now, self.core.clock) + passed
        self.tell(lambda: f"{passed} ms unserved")
        if self.unserved.until is None:
            self.unserved.total_ms += passed
            self.naive.unheard(passed)
        self.both("advance")  # the controller's clock has come so far, and does not go back

    def stop_or_begin_to_serve(self) -> None:
        """What is in memory stays: what becomes of that is not the core's affair."""
        self.now = max(self.now, self.core.clock)
        if self.naive.deaf_since is None:
            self.unserved.until = self.now
            self.naive.gap_begins(self.now)
            self.now += SERVED_GAP_MS + 1  # a shorter one is none
        else:
            self.unserved.serve(self.now)
            self.unserved.until = None
            self.naive.gap_ends(self.now)
        self.tell(lambda: f"nobody serves: {self.naive.deaf_since is not None}")
        self.both("advance")

    # -- both ----------------------------------------------------------------------------------------------------

    def both(self, what: str, *arguments: Any, **named: Any) -> None:
        naive_arguments = arguments
        if what == "scale":
            naive_arguments = (arguments[0], [(new.id, self.log.pieces[new.id].before) for new in arguments[1]])
        what_to_core = "evaluate" if what == "demand" else what
        its = self.outcome(getattr(self.core, what_to_core), arguments, named)
        changes = self.core.drain()
        self.naive.uppers.update({(mark.key, mark.seq): mark.upper for mark in changes.marks})
        mine = self.outcome(getattr(self.naive, what), naive_arguments, named)
        self.outcome(getattr(self.unstopped, what_to_core), arguments, named)
        if what in ("advance", "scale") and isinstance(its, list):
            its = None  # what changed is compared below
        self.tell(lambda: f"{what} {arguments} {named or ''} -> {its}")
        self.same(f"{what} {arguments}", its, mine)
        for mark in changes.marks:
            self.tell(partial(str, mark))
        assert changes.marks == self.unstopped.drain().marks, "what was restarted makes other marks"
        self.store.take(self.core, changes)
        self.compare(changes.marks)

    def outcome(self, call: Callable[..., object], arguments: tuple[Any, ...], named: Mapping[str, Any]) -> object:
        try:
            return self.plain(call(*arguments, self.now, **named))
        except Refused as refused:
            return refused.code, refused.values.get(TOLD.get(refused.code, ""))
        except Refusal as refusal:
            return refusal.code, refusal.value

    def plain(self, result: object) -> object:
        """An answer in words that both use."""
        match result:
            case NoteResult() | NaiveAnswer():
                return result.late, dict(result.floors), [self.plain(mark) for mark in result.marks]
            case Registered():
                return result.epoch, dict(result.floors)
            case Mark():
                cut = dict(result.cut.items())
                return result.seq, result.time, cut, result.newest, result.excluded, result.created_at
            case NaiveMark():
                return result.seq, result.time, result.cut, result.newest, result.excluded, result.created_at
            case Cut():
                return dict(result.items())
            case list():
                return [self.plain(mark) for mark in result]
            case _:
                return result

    def compare(self, marks: list[Mark]) -> None:
        """Marks, states, positions, holders, rest and the next moment to wake."""
        for key in self.keys:
            new = self.naive.marks.get(key, [])[self.compared.get(key, 0) :]
            self.compared[key] = len(self.naive.marks.get(key, []))
            its = [self.plain(mark) for mark in marks if mark.key == key]
            self.same(f"marks in {key!r}", its, [self.plain(mark) for mark in new])
            for mark, told in zip([mark for mark in marks if mark.key == key], new, strict=True):
                self.check_upper(mark, told)
                self.uppers[key] = mark.upper
            held = self.core.held_by(key, self.now)
            its_holder = None if held is None else (held.writer, held.state, held.last_heard_ms_ago)
            self.same("held_by", its_holder, self.naive.held_by(key, self.now))
        self.same("writers", set(self.core.writers), set(self.naive.writers))
        for name, writer in self.core.writers.items():
            mine = self.naive.writers[name]
            states = {key: str(state) for key, state in self.core.states(writer).items()}
            self.same(f"states of {name}", states, {key: self.naive.state(mine, key) for key in mine.phase})
            self.same(f"position of {name}", dict(writer.position.items()), mine.position())
            self.same(f"epoch of {name}", writer.epoch, mine.epoch)
        for key in self.core.keys:
            self.compare_census(key)
        self.same("writers of what is not restarted", set(self.core.writers), set(self.unstopped.writers))
        rest, told_rest = self.core.resting(self.now), self.naive.resting(self.now)
        self.same("rest", self.plain(rest), self.plain(told_rest))
        if rest is not None and told_rest is not None:
            self.check_upper(rest, told_rest)
        assert rest == self.unstopped.resting(self.now), "what was restarted has come to another rest"
        self.same("next_wake", self.core.next_wake(), self.naive.next_wake())
        self.same("sealed", self.core.sealed, self.naive.sealed)
        if self.core.sealed:
            self.same("the end", self.core.graph.end, Cut(self.naive.final))

    def compare_census(self, key: str) -> None:
        """How many writers are in each state, and when the last of them was heard, or lost."""
        census, found = self.core.aggregate(key).census, defaultdict[str, list[tuple[int, int]]](list)
        for writer in self.naive.writers.values():
            if key in writer.phase:
                found[self.naive.state(writer, key)].append((writer.heard_at, writer.lost_at.get(key, 0)))
        self.same("writers by state", census.counts(), {state: len(those) for state, those in sorted(found.items())})
        for state in WriterState:
            last = census.last(state)
            if state is WriterState.TIMED_OUT:
                its, mine = last and last.key_states[key].lost_at, max((lost for _, lost in found[state]), default=None)
            else:
                its, mine = last and last.heard_at, max((heard for heard, _ in found[state]), default=None)
            self.same(f"the last that is {state}", its, mine)

    def check_upper(self, mark: Mark, told: NaiveMark) -> None:
        """Never below the last mark's, nor a time noted below the cut; never above what the rules allow."""
        last = self.uppers.get(mark.key, mark.time)
        least, most = max(last, told.least_upper), max(last, told.most_upper)
        assert least <= mark.upper <= most, f"upper of {mark}: by the rules it is from {least} to {most}"

    def same(self, what: str, its: object, mine: object) -> None:
        assert its == mine, f"{what}: the core has {its}, by the rules it is {mine}"


def run(draw: Draw) -> None:
    pair = Pair(Seeded(draw.random), draw.say)
    for _ in draw.steps(60):
        pair.step()


MODEL: Final = Suite("model", run, AssertionError)
