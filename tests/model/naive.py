"""The rules of `docs/explanation/rules.md` written down a second time, as plainly as possible.

Nothing is worked out ahead or kept up to date: every question is answered from everything that was ever said, by
looking at every writer and every note. Slow on purpose, and without a line of the core's own aggregate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from strandline.core.config import LateWriters, StreamConfig, TimeDomain

Offsets = dict[str, int]


class Refusal(Exception):
    """A call that is turned down, with the code of the error and the value that the caller needs."""

    def __init__(self, code: str, value: object = None) -> None:
        super().__init__(code, value)
        self.code, self.value = code, value


def join(cuts: Iterable[Mapping[str, int]]) -> Offsets:
    joined: Offsets = {}
    for cut in cuts:
        for segment, offset in cut.items():
            joined[segment] = max(offset, joined.get(segment, 0))
    return {segment: offset for segment, offset in joined.items() if offset}


def le(one: Mapping[str, int], other: Mapping[str, int]) -> bool:
    return all(offset <= other.get(segment, 0) for segment, offset in one.items())


@dataclass(frozen=True)
class NaiveMark:
    """What a mark says. Of `upper` the rules say only between which bounds it is, beside the last mark's."""

    seq: int
    time: int
    least_upper: int
    most_upper: int
    cut: Offsets
    newest: int | None
    excluded: tuple[str, ...]
    created_at: int


@dataclass(frozen=True)
class Said:
    """A note that was taken. `life` counts closings before it."""

    life: int
    times: Mapping[str, int]
    given: Mapping[str, int]
    cut: Offsets
    known: Mapping[str, int | None]  # the newest event below all that was noted until then, by key


@dataclass
class NaiveWriter:
    name: str
    heard: int  # moved on by the time in which nobody could be
    heard_at: int
    tail: bool = False
    life: int = 0
    epoch: int | None = None
    closed: bool = False
    closed_epoch: int | None = None
    excluded_at: int | None = None
    phase: dict[str, str] = field(default_factory=dict)  # joined, noted or idle, by each key it ever held
    floor: dict[str, int | None] = field(default_factory=dict)
    lost_at: dict[str, int] = field(default_factory=dict)
    answered: dict[str, int | None] = field(default_factory=dict)  # the floor that its last new note was told
    said: list[Said] = field(default_factory=list)
    story: dict[str, list[tuple[str, int, int]]] = field(default_factory=dict)  # notes and marks of a key, in order

    def time(self, key: str) -> int | None:
        times = [each.times[key] for each in self.said if each.life == self.life and key in each.times]
        return times[-1] if times else None

    def value(self, key: str) -> int | None:
        return self.floor[key] if self.phase[key] == "joined" else self.time(key)

    def position(self, count: int | None = None) -> Offsets:
        """All that its first `count` notes said, whichever key and life they were of."""
        return join(each.cut for each in self.said[:count])

    def offset(self, segment: str) -> int:
        """What it named itself in this life."""
        return max((each.given.get(segment, 0) for each in self.said if each.life == self.life), default=0)

    def newest(self, key: str, count: int | None = None) -> int | None:
        """The greatest event time below that position, as far as its notes said it."""
        said = self.said[:count]
        return said[-1].known.get(key) if said else None

    def known_with(self, key: str, cut: Offsets, said: int | None) -> int | None:
        """That of the position with one more note: the greater of both, or what is said of all that was noted."""
        known, before = self.newest(key), self.position()
        if said is not None and known is not None:
            return max(said, known)
        if said is not None:
            return said if le(before, cut) else None
        return known if join((before, cut)) == before else None

    def kept(self, key: str, bound: int) -> list[int]:
        """Which notes (by number) are kept for tight cuts: those above the last mark then, of rising time, at most
        `bound`: past that every second one goes, counted from the last."""
        kept: list[tuple[int, int]] = []
        for what, time, number in self.story.get(key, ()):
            match what:
                case "note" if not kept or time > kept[-1][0]:
                    kept.append((time, number))
                    if len(kept) > bound:
                        kept = [each for n, each in enumerate(reversed(kept)) if n % 2 == 0][::-1]
                case "mark":
                    kept = [each for each in kept if each[0] > time]
                case "life":
                    kept = []
                case _:
                    pass
        return [number for _, number in kept]


class NaiveStream:
    """What `Stream` is, by the letter."""

    def __init__(
        self, config: StreamConfig, segments: Iterable[str], *, now: int, open: bool, bound: int, kept_ms: int
    ) -> None:
        self.config = config
        self.open = open
        self.bound = bound
        self.kept_ms = kept_ms
        self.clock = now
        self.sealed = False
        self.epochs = 0
        self.before: dict[str, tuple[str, ...]] = dict.fromkeys(segments, ())
        self.final: dict[str, int] = {}
        self.writers: dict[str, NaiveWriter] = {}
        self.marks: dict[str, list[NaiveMark]] = {}
        self.dropped: list[tuple[dict[str, int], str]] = []  # how many marks there were, by key, and the segment
        self.noted: dict[str, set[str]] = {}
        self.gone: list[NaiveWriter] = []  # who was forgotten: nothing that they gave may be missing for it
        self.newest_of_gone: dict[str, list[int | None]] = {}  # by key
        self.uppers: dict[tuple[str, int], int] = {}  # which upper the core chose for a mark, by key and seq
        self.deaf_since: int | None = None  # since when nobody has served
        self.head: Offsets = {}
        self.passed: dict[str, int] = {}  # by key, to where readers went on without the stream

    # -- roles and time ------------------------------------------------------------------------------------------

    def last_time(self, key: str) -> int | None:
        marks = self.marks.get(key)
        return marks[-1].time if marks else None

    def ever_held(self, key: str) -> list[NaiveWriter]:
        return [writer for writer in self.everyone() if key in writer.phase]

    def holders(self, key: str) -> list[NaiveWriter]:
        return [writer for writer in self.writers.values() if key in writer.phase]

    def lost_since(self, writer: NaiveWriter, key: str) -> int | None:
        if writer.closed:
            return None
        moments = [moment for moment in (writer.excluded_at, writer.lost_at.get(key)) if moment is not None]
        return min(moments, default=None)

    def behind(self, writer: NaiveWriter, key: str) -> bool:
        time, last = writer.time(key), self.last_time(key)
        return writer.phase[key] == "noted" and time is not None and last is not None and time < last

    def role(self, writer: NaiveWriter, key: str) -> str:
        if writer.closed:
            return "out"
        if self.lost_since(writer, key) is not None:
            return "lost"
        if writer.phase[key] == "idle":
            return "out"
        if writer.value(key) is None:
            return "blocking"
        skips = self.config.late_writers is LateWriters.SKIP
        return "skipped" if skips and self.behind(writer, key) else "counted"

    def state(self, writer: NaiveWriter, key: str) -> str:
        if writer.closed:
            return "closed"
        if writer.excluded_at is not None:
            return "excluded"
        if key in writer.lost_at:
            return "timed_out"
        if writer.phase[key] != "noted":
            return writer.phase[key]
        return "behind" if self.behind(writer, key) else "active"

    def counted(self, key: str) -> list[NaiveWriter]:
        return [writer for writer in self.holders(key) if self.role(writer, key) in ("counted", "blocking")]

    def enough(self, key: str) -> bool:
        gone = sum(1 for writer in self.gone if any(key in said.times for said in writer.said))
        return len(self.noted.get(key, ())) + gone >= self.config.min_writers

    def peak(self, key: str) -> int | None:
        times = [writer.time(key) for writer in self.ever_held(key) if writer.excluded_at is None]
        return max((time for time in times if time is not None), default=None)

    def next_time(self, key: str) -> int | None:
        if not self.enough(key):
            return None
        values = [writer.value(key) for writer in self.counted(key)]
        if None in values:
            return None
        time = min((value for value in values if value is not None), default=self.peak(key))
        last = self.last_time(key)
        return None if time is None or (last is not None and time <= last) else time

    def leave_out_at_once(self) -> None:
        """With a timeout of 0, whoever would hold time back is left out."""
        if self.config.writer_timeout_ms != 0 or self.sealed:
            return
        for writer in self.writers.values():
            for key in writer.phase:
                value, last = writer.value(key), self.last_time(key)
                if self.role(writer, key) in ("counted", "blocking") and (
                    value is None or (last is not None and value <= last)
                ):
                    writer.lost_at[key] = self.clock

    # -- marks ---------------------------------------------------------------------------------------------------

    def mark(self, key: str, time: int, now: int, end: Offsets | None = None) -> NaiveMark:
        """What a mark at `time` says: everyone's contribution, whatever their role. A sealed stream's last mark has all
        up to its `end`, of which nobody need have noted how new it is."""
        last = self.marks[key][-1] if self.marks.get(key) else None
        cuts: list[Offsets] = [self.last_cut(key)]
        contributed: list[int] = [time]
        newest: list[int | None] = [last.newest] if last and last.newest is not None else []
        newest += self.newest_of_gone.get(key, ())
        for writer in self.ever_held(key):
            late_enough = [number for number in writer.kept(key, self.bound) if writer.said[number].times[key] >= time]
            count = late_enough[0] + 1 if late_enough else None
            cut = writer.position(count)
            upper = writer.said[late_enough[0]].times[key] if late_enough else writer.time(key)
            cuts.append(cut)
            contributed += [upper] if upper is not None else []
            contributed += [each.times[key] for each in writer.said if each.life < writer.life and key in each.times]
            known = writer.newest(key, count)
            if writer not in self.gone and (cut or known is not None):
                newest.append(known)
        cut = join(cuts)
        if end is not None and join([cut, end]) != cut:
            cut, newest, contributed = join([cut, end]), [None], [*contributed, *self.noted_by_anyone(key)]
        return NaiveMark(
            seq=last.seq + 1 if last else 1,
            time=time,
            least_upper=max([time, *self.noted_below(key, cut)]),
            most_upper=max([time, *self.noted_by_anyone(key)] if self.segments_are_shared() else contributed),
            cut=cut,
            newest=None if None in newest else max((each for each in newest if each is not None), default=None),
            excluded=tuple(sorted(writer.name for writer in self.holders(key) if self.names(writer, key, time, now))),
            created_at=now,
        )

    # -- what `upper` promises, told from every note that there ever was -----------------------------------------

    def noted_below(self, key: str, cut: Mapping[str, int]) -> list[int]:
        """Every time that had been noted for anything below a cut, and those between: of each writer its notes up to
        the first that covers the cut in every segment it has named. Later ones add nothing to what lies below."""
        times = []
        for writer in self.everyone():
            named = writer.position()
            for count, said in enumerate(writer.said, start=1):
                if key not in said.times:
                    continue
                times.append(said.times[key])
                position = writer.position(count)
                if all(cut.get(segment, 0) <= position.get(segment, 0) for segment in named):
                    break
        return times

    def noted_by_anyone(self, key: str) -> list[int]:
        return [said.times[key] for writer in self.everyone() for said in writer.said if key in said.times]

    def segments_are_shared(self) -> bool:
        positions = [writer.position() for writer in self.everyone()]
        return len([segment for position in positions for segment in position]) > len(join(positions))

    def everyone(self) -> list[NaiveWriter]:
        return [*self.writers.values(), *self.gone]

    def last_cut(self, key: str) -> Offsets:
        """That of the last mark, but for segments dropped since."""
        marks = self.marks.get(key, [])
        gone = {segment for counts, segment in self.dropped if counts.get(key, 0) == len(marks)}
        return {segment: offset for segment, offset in marks[-1].cut.items() if segment not in gone} if marks else {}

    def names(self, writer: NaiveWriter, key: str, time: int, now: int) -> bool:
        role = self.role(writer, key)
        if role == "skipped":
            return True
        since = self.lost_since(writer, key)
        if role != "lost" or since is None or now - since >= self.config.forget_after_ms:
            return False
        value = writer.value(key)
        return value is None or value < time

    def append(self, key: str, time: int, now: int, end: Offsets | None = None) -> NaiveMark:
        mark = self.mark(key, time, now, end)
        self.marks.setdefault(key, []).append(mark)
        for writer in self.ever_held(key):
            writer.story.setdefault(key, []).append(("mark", time, -1))
        self.leave_out_at_once()
        return mark

    def evaluate(self, keys: Iterable[str], now: int, *, at_once: bool = False) -> list[NaiveMark]:
        made: list[NaiveMark] = []
        interval = self.config.mark_interval_ms
        for key in sorted(keys):
            while not self.sealed and (time := self.next_time(key)) is not None:
                marks = self.marks.get(key)
                due = interval is not None and (not marks or now >= marks[-1].created_at + interval)
                if not due and not at_once:
                    break
                rest = self.rest_time(now) if key == "" else None
                made.append(self.append(key, max(time, rest) if rest is not None else time, now))
        return made

    # -- forgetting ----------------------------------------------------------------------------------------------

    def forget(self, now: int) -> None:
        """As a call begins, whoever is gone for long enough is forgotten, where the last marks have all that it gave. A
        lost one only where a mark was made since it was gone for so long."""
        for writer in list(self.writers.values()):
            moments = [now] if writer.closed else [min(now, made) for made in self.newest_marks_made(writer)]
            if any(self.has_lapsed(writer, moment) for moment in moments) and self.is_passed(writer):
                self.let_go_of(writer)

    def make_room(self, needed_by: str) -> None:
        """Where there is no room for another writer, those who closed are forgotten before their time."""
        for writer in list(self.writers.values()):
            if writer.closed and writer.name != needed_by and self.is_passed(writer):
                self.let_go_of(writer)

    def is_passed(self, writer: NaiveWriter) -> bool:
        is_marked = any(self.marks.get(key) for key in writer.phase)
        return is_marked and all(self.has_passed(writer, key) for key in writer.phase)

    def newest_marks_made(self, writer: NaiveWriter) -> list[int]:
        """When the last mark of each of its keys was made."""
        return [self.marks[key][-1].created_at for key in writer.phase if self.marks.get(key)]

    def let_go_of(self, writer: NaiveWriter) -> None:
        del self.writers[writer.name]
        self.gone.append(writer)
        for key in writer.phase:
            if writer.position() or writer.newest(key) is not None:
                self.newest_of_gone.setdefault(key, []).append(writer.newest(key))
        for names in self.noted.values():
            names.discard(writer.name)

    def has_lapsed(self, writer: NaiveWriter, now: int) -> bool:
        """Whether it closed, or has been lost for long in every key that is not idle; and nothing was heard of it."""
        if writer.closed:
            return now - writer.heard_at >= self.kept_ms
        if writer.excluded_at is not None or not writer.lost_at or now - writer.heard_at < self.kept_ms:
            return False
        lost = [writer.lost_at.get(key) for key in writer.phase if key in writer.lost_at or writer.phase[key] != "idle"]
        return all(moment is not None and now - moment >= self.config.forget_after_ms for moment in lost)

    def has_passed(self, writer: NaiveWriter, key: str) -> bool:
        last = self.marks[key][-1] if self.marks.get(key) else None
        time, position = writer.time(key), writer.position()
        noted = [said.times[key] for said in writer.said if key in said.times]
        if last is None:
            return not noted and not position
        in_time = time is None or time <= last.time
        upper = self.uppers.get((key, last.seq), last.least_upper)
        return in_time and le(position, self.last_cut(key)) and all(each <= upper for each in noted)

    def keys(self) -> set[str]:
        return {key for writer in self.writers.values() for key in writer.phase} | set(self.marks)

    # -- rest ----------------------------------------------------------------------------------------------------

    def rest_time(self, now: int) -> int | None:
        """How far time has come in an ingestion stream where everyone said idle or closed."""
        if self.config.time_domain is not TimeDomain.INGESTION or self.sealed or not self.enough(""):
            return None
        resting = any(writer.closed for writer in self.gone)
        for writer in self.holders(""):
            since = self.lost_since(writer, "")
            if writer.excluded_at is not None or (since is not None and now - since >= self.config.forget_after_ms):
                continue
            if self.role(writer, "") != "out":
                return None
            resting = True
        time, last = now - self.config.idle_lag_ms - self.config.clock_skew_ms, self.last_time("")
        return None if not resting or (last is not None and time <= last) else time

    def resting(self, now: int) -> NaiveMark | None:
        now = max(now, self.clock)
        time = self.rest_time(now)
        return None if time is None else self.mark("", time, now)

    def store_rest(self, now: int) -> NaiveMark | None:
        time = self.rest_time(now)
        return None if time is None else self.append("", time, now)

    def reached(self, key: str, now: int) -> int | None:
        rest = self.rest_time(now) if key == "" else None
        return self.last_time(key) if rest is None else rest

    # -- silence -------------------------------------------------------------------------------------------------

    def awaited(self, writer: NaiveWriter) -> list[str]:
        return [key for key in writer.phase if self.role(writer, key) in ("counted", "blocking", "skipped")]

    def moment(self, now: int) -> int:
        """The clock never steps back; whoever has been silent for too long by then is lost, and marks follow."""
        self.clock = now = max(now, self.clock)
        timeout = self.config.writer_timeout_ms
        if not self.sealed:
            self.forget(now)
        if self.sealed or not timeout:
            return now
        keys: set[str] = set()
        for writer in self.writers.values():
            over = self.silence(writer, now) - timeout
            if over >= 0:
                for key in self.awaited(writer):
                    writer.lost_at[key] = now - over
                    keys.add(key)
        self.evaluate(keys, now)
        return now

    def heard_now(self, now: int) -> int:
        """The moment at which someone is heard: while nobody serves, that when the last one did."""
        return now if self.deaf_since is None else self.deaf_since

    def hear(self, writer: NaiveWriter, now: int) -> None:
        writer.heard, writer.heard_at = max(writer.heard, self.heard_now(now)), now

    def silence(self, writer: NaiveWriter, now: int) -> int:
        return max(0, self.heard_now(now) - writer.heard)

    def unheard(self, passed: int) -> None:
        """Nobody could be heard for so long until now: that is nobody's silence."""
        for writer in self.writers.values():
            writer.heard += passed
        if self.deaf_since is not None:
            self.deaf_since += passed

    def gap_begins(self, now: int) -> None:
        self.deaf_since = now

    def gap_ends(self, now: int) -> None:
        assert self.deaf_since is not None
        away, self.deaf_since = now - self.deaf_since, None
        self.unheard(away)

    def next_wake(self) -> int | None:
        if self.sealed:
            return None
        moments: list[int] = []
        if self.config.writer_timeout_ms:
            heard = [writer.heard for writer in self.writers.values() if self.awaited(writer)]
            moments += [moment + self.config.writer_timeout_ms for moment in heard]
        for key, marks in self.marks.items():
            if self.config.mark_interval_ms is not None and self.next_time(key) is not None:
                moments.append(marks[-1].created_at + self.config.mark_interval_ms)
        return min(moments, default=None)

    def held_by(self, key: str, now: int) -> tuple[str | None, str, int | None] | None:
        """Who holds time back, in which state, and how long it has been silent."""
        if self.sealed:
            return None
        if not self.enough(key):
            return None, "min_writers", None
        counted = self.counted(key)
        without = sorted(writer.name for writer in counted if writer.value(key) is None)
        if without:
            holder = self.writers[without[0]]
            return holder.name, self.state(holder, key), self.silence(holder, max(now, self.clock))
        if not counted:
            return self.holder_of_rest(key, max(now, self.clock))
        if self.next_time(key) is not None:
            return None
        values = [(value, writer.name) for writer in counted if (value := writer.value(key)) is not None]
        holder = self.writers[without[0] if without else min(values)[1]]
        return holder.name, self.state(holder, key), self.silence(holder, max(now, self.clock))

    def holder_of_rest(self, key: str, now: int) -> tuple[str, str, int] | None:
        """Who keeps an ingestion stream from resting in which everyone else said idle or closed: of the lost ones that
        are neither excluded nor forgotten, the one that was lost last."""
        if self.config.time_domain is not TimeDomain.INGESTION or key != "":
            return None
        roles = {self.role(writer, key) for writer in self.holders(key)}
        if "out" not in roles or roles - {"out", "lost"}:
            return None
        lost = [
            (since, writer.name)
            for writer in self.holders(key)
            if writer.excluded_at is None
            and (since := self.lost_since(writer, key)) is not None
            and now - since < self.config.forget_after_ms
        ]
        if not lost:
            return None
        holder = self.writers[max(lost)[1]]
        return holder.name, self.state(holder, key), self.silence(holder, now)

    # -- segments ------------------------------------------------------------------------------------------------

    def closed(self, position: Mapping[str, int]) -> Offsets:
        """The position, and all of what comes before the segments it names."""
        offsets = dict(position)
        pending = list(position)
        while pending:
            for name in self.before.get(pending.pop(), ()):
                offsets[name] = self.final[name]
                pending.append(name)
        return {segment: offset for segment, offset in offsets.items() if offset}

    def check_segments(self, position: Mapping[str, int]) -> None:
        for segment, offset in position.items():
            if segment not in self.before:
                if not self.open:
                    raise Refusal("unknown_segment", segment)
            elif segment in self.final and offset > self.final[segment]:
                raise Refusal("beyond_final_offset", self.final[segment])

    def end_noted(self) -> Offsets:
        return join((*(writer.position() for writer in self.everyone()), self.head))

    def changed(self, **settings: Any) -> StreamConfig:
        return replace(self.config, **settings)
