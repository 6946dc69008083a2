"""The calls of the naive stream: what `Stream` has under the same names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from strandline.core.config import TimeDomain
from strandline.core.note import Note
from tests.model.naive import NaiveMark, NaiveStream, NaiveWriter, Refusal, Said, join, le


@dataclass(frozen=True)
class NaiveAnswer:
    late: bool
    floors: dict[str, int | None]
    marks: list[NaiveMark]


def without(offsets: Mapping[str, int], segment: str) -> dict[str, int]:
    return {name: offset for name, offset in offsets.items() if name != segment}


class NaiveCalls(NaiveStream):
    """Every call is judged first; refused, nothing changes."""

    def register(self, name: str, keys: tuple[str, ...] | None, now: int) -> tuple[int, dict[str, int | None]]:
        now = self.moment(now)
        self.check_unsealed()
        known = self.writers.get(name)
        wanted = tuple(keys or ()) or (tuple(known.phase) if known else ()) or ("",)
        if self.config.time_domain is TimeDomain.INGESTION and set(wanted) != {""}:
            raise Refusal("wrong_domain")
        self.check_room(name)
        self.store_rest(now)
        writer = self.writers.setdefault(name, NaiveWriter(name, self.heard_now(now), now))
        self.start_over(writer)
        self.epochs += 1
        writer.epoch, writer.closed_epoch, writer.excluded_at = self.epochs, None, None
        self.hear(writer, now)
        self.take_up(writer, wanted)
        floors = {}
        for key in wanted:
            times = [time for time in (writer.time(key), self.last_time(key)) if time is not None]
            writer.phase[key], writer.floor[key] = "joined", max(times, default=None)
            writer.lost_at.pop(key, None)
            writer.answered.pop(key, None)
            floors[key] = self.floor_of_readers(writer, key, writer.floor[key])
        self.leave_out_at_once()
        return self.epochs, floors

    def note(self, note: Note, now: int, *, tail: bool = False) -> NaiveAnswer:
        now = self.moment(now)
        ingestion = self.config.time_domain is TimeDomain.INGESTION
        if tail and not ingestion:
            raise Refusal("wrong_domain")
        self.check_unsealed()
        writer = self.writers.get(note.writer)
        self.check_epoch(writer, note.epoch)
        self.check_segments(note.position)
        times = self.counted_times(note, now)
        if writer is not None and not writer.closed:
            for key, time in times.items():
                stored = writer.time(key) if key in writer.phase else None
                self.check_time(note.times[key], time, stored, now)
            for segment, offset in note.position.items():
                if offset < writer.offset(segment):
                    raise Refusal("position_went_back", writer.offset(segment))
        else:
            for key, time in times.items():
                self.check_time(note.times[key], time, None, now)
        if writer is None and not times:
            raise Refusal("unknown_writer", note.writer)
        self.check_room(note.writer)
        cut = self.closed(note.position)
        repeats = (
            writer is not None
            and le(cut, writer.position())
            and all(key in writer.phase and writer.time(key) == time for key, time in times.items())
        )
        floors = {
            key: self.floor_of_readers(writer, key, self.floor_told(writer, key, time, repeats=repeats, now=now))
            for key, time in times.items()
        }
        late = any(time < at for key, time in times.items() if (at := floors[key]) is not None)
        if repeats:
            assert writer is not None
            self.hear_again(writer, tuple(times), now)
        else:
            self.take(note, times, tail=tail, now=now)
            self.writers[note.writer].answered.update(floors)
        at_once = tail and self.config.mark_interval_ms is not None
        return NaiveAnswer(late, floors, self.evaluate(times, now, at_once=at_once))

    def floor_told(self, writer: NaiveWriter | None, key: str, time: int, *, repeats: bool, now: int) -> int | None:
        """What time has come to, to one that did not fully count; its floor, to one that joined and notes below it;
        to a repeat, what the first one was told."""
        if not self.stands(writer, key):
            return self.reached(key, now)
        floor = writer.floor.get(key) if writer is not None and writer.phase[key] == "joined" else None
        if floor is not None and time < floor:
            return floor
        return writer.answered.get(key) if writer is not None and repeats else None

    def floor_of_readers(self, writer: NaiveWriter | None, key: str, floor: int | None) -> int | None:
        """Where readers went on without the stream, that is late which a writer had not noted by then."""
        passed, noted = self.passed.get(key), writer.time(key) if writer is not None and key in writer.phase else None
        if passed is None or (noted is not None and noted >= passed):
            return floor
        return max(passed, passed if floor is None else floor)

    def let_pass(self, times: Mapping[str, int]) -> bool:
        before = dict(self.passed)
        self.passed |= {key: max(time, before.get(key, time)) for key, time in times.items()}
        return self.passed != before

    def stands(self, writer: NaiveWriter | None, key: str) -> bool:
        """Whether it counts, and with no less than the last mark's time."""
        if writer is None or key not in writer.phase or self.role(writer, key) != "counted":
            return False
        value, last = writer.value(key), self.last_time(key)
        return value is not None and (last is None or value >= last)

    def hear_again(self, writer: NaiveWriter, keys: tuple[str, ...], now: int) -> None:
        """A repeated note ends a silence, but wakes no one."""
        back = [key for key in keys if key in writer.lost_at and not writer.closed]
        if back:
            self.store_rest(now)
        for key in back:
            del writer.lost_at[key]
        self.hear(writer, now)
        self.leave_out_at_once()

    def take(self, note: Note, times: Mapping[str, int], *, tail: bool, now: int) -> None:
        for segment in note.position:
            self.before.setdefault(segment, ())
        self.store_rest(now)
        writer = self.writers.setdefault(note.writer, NaiveWriter(note.writer, self.heard_now(now), now))
        self.start_over(writer)
        writer.tail = writer.tail or tail
        self.take_up(writer, times)
        cut = self.closed(note.position)
        known = {key: writer.known_with(key, cut, note.newest.get(key)) for key in self.keys() | set(times)}
        writer.said.append(Said(writer.life, dict(times), dict(note.position), cut, known))
        for key, time in times.items():
            writer.phase[key] = "noted"
            writer.lost_at.pop(key, None)
            self.noted.setdefault(key, set()).add(note.writer)
            last = self.last_time(key)
            if last is None or time > last:
                writer.story.setdefault(key, []).append(("note", time, len(writer.said) - 1))
        self.hear(writer, now)
        self.leave_out_at_once()

    def take_up(self, writer: NaiveWriter, keys: Iterable[str]) -> None:
        """It may be one that was forgotten in other keys, whatever its name: what they noted counts as said."""
        cut = join(gone.position() for gone in self.gone)
        if all(le(cut, self.last_cut(key)) for key in keys if key not in writer.phase):
            return
        known = {key: writer.known_with(key, cut, None) for key in self.keys() | set(keys)}
        writer.said.append(Said(writer.life, {}, {}, cut, known))

    def start_over(self, writer: NaiveWriter) -> None:
        if not writer.closed:
            return
        writer.closed = False
        writer.life += 1
        writer.lost_at.clear()
        for key in writer.phase:
            writer.phase[key], writer.floor[key] = "idle", None
            writer.story.setdefault(key, []).append(("life", 0, -1))

    def idle(self, name: str, epoch: int | None, now: int) -> list[NaiveMark]:
        now = self.moment(now)
        self.check_unsealed()
        if self.was_forgotten(name, epoch):
            return []
        writer = self.known(name)
        if writer.closed and epoch in (None, writer.closed_epoch):
            return []
        self.check_epoch(writer, epoch)
        for key in writer.phase:
            writer.phase[key], writer.floor[key] = "idle", None
        writer.lost_at.clear()
        self.hear(writer, now)
        return self.evaluate(writer.phase, now)

    def close(self, name: str, epoch: int | None, now: int) -> list[NaiveMark]:
        now = self.moment(now)
        if self.was_forgotten(name, epoch):
            return []
        writer = self.known(name)
        if writer.closed and epoch in (None, writer.closed_epoch):
            return []
        self.check_unsealed()
        self.check_epoch(writer, epoch)
        self.store_rest(now)
        if writer.tail:
            for key in writer.phase:
                writer.lost_at.setdefault(key, now)
            writer.epoch = None
        else:
            self.end(writer, epoch, now)
        if writer.closed:
            self.hear(writer, now)
        return self.evaluate(writer.phase, now)

    def was_forgotten(self, name: str, epoch: int | None) -> bool:
        """Names of forgotten writers are not kept: an epoch that was given out says so, or that any were forgotten."""
        return name not in self.writers and (bool(self.gone) if epoch is None else epoch <= self.epochs)

    def end(self, writer: NaiveWriter, epoch: int | None, now: int) -> None:
        """Its own word, or an operator's about one that is lost: then nobody knows what it wrote."""
        lost = any(self.lost_since(writer, key) is not None for key in writer.phase)
        if lost and epoch is None:
            writer.excluded_at = now if writer.excluded_at is None else writer.excluded_at
        else:
            writer.closed, writer.closed_epoch, writer.excluded_at = True, epoch, None
        writer.epoch = None

    def exclude(self, name: str, now: int) -> list[NaiveMark]:
        now = self.moment(now)
        self.check_unsealed()
        writer = self.known(name)
        if writer.closed or writer.excluded_at is not None:
            return []
        self.store_rest(now)
        writer.excluded_at = now
        return self.evaluate(writer.phase, now)

    def include(self, name: str, now: int) -> list[NaiveMark]:
        now = self.moment(now)
        self.check_unsealed()
        writer = self.known(name)
        if writer.excluded_at is None:
            return []
        self.store_rest(now)
        writer.excluded_at = None
        self.leave_out_at_once()
        return self.evaluate(writer.phase, now)

    def configure(self, settings: Mapping[str, Any], now: int) -> list[NaiveMark]:
        now = self.moment(now)
        config = self.changed(**settings)
        if config == self.config:
            return []
        self.store_rest(now)
        self.config = config
        self.leave_out_at_once()
        return self.evaluate(self.keys(), now)

    def scale(self, seal: Mapping[str, int], create: Sequence[tuple[str, tuple[str, ...]]], now: int) -> None:
        """Only such as the log itself made: what else is refused is for the segments' own tests."""
        self.moment(now)
        self.check_unsealed()
        for segment, offset in seal.items():
            if offset < self.end_noted().get(segment, 0):
                raise Refusal("invalid_scale")
        self.final.update(seal)
        self.before.update(create)

    def truncate(self, position: Mapping[str, int], now: int) -> dict[str, int]:
        """Only to where the log is: what is refused is for the segments' own tests."""
        self.moment(now)
        self.head = join((self.head, self.closed(position)))
        return self.head

    def drop_segment(self, segment: str, now: int) -> None:
        """As if it had never been noted. Marks stay as they were made, but the next one follows without it."""
        self.moment(now)
        if segment not in self.before:
            raise Refusal("unknown_segment", segment)
        if not self.open or any(segment in before for before in self.before.values()):
            raise Refusal("invalid_scale")
        self.before.pop(segment)
        self.final.pop(segment, None)
        self.head = without(self.head, segment)
        for writer in self.everyone():
            writer.said = [
                replace(each, given=without(each.given, segment), cut=without(each.cut, segment))
                for each in writer.said
            ]
        self.dropped.append(({key: len(marks) for key, marks in self.marks.items()}, segment))

    def seal(self, final: Mapping[str, int], now: int) -> list[NaiveMark]:
        now = self.moment(now)
        for segment, offset in final.items():
            if self.final.get(segment, offset) != offset or offset < self.end_noted().get(segment, 0):
                raise Refusal("invalid_scale")
        if self.sealed:
            return []
        self.store_rest(now)
        peaks = {key: self.peak(key) for key in self.keys()}
        for writer in self.writers.values():
            lost = any(self.lost_since(writer, key) is not None for key in writer.phase)
            self.end(writer, None if lost else writer.epoch, now)
        self.final = {**self.end_noted_everywhere(), **final, **self.final}
        made = []
        for key, peak in sorted(peaks.items()):
            last = self.last_time(key)
            if peak is not None and (last is None or peak > last):
                made.append(self.append(key, peak, now, end=self.final))
        self.sealed = True
        return made

    def end_noted_everywhere(self) -> dict[str, int]:
        noted = self.end_noted()
        return {segment: noted.get(segment, 0) for segment in self.before}

    def demand(self, key: str, now: int) -> NaiveMark | None:
        """Evaluate now, whatever the interval."""
        now = self.moment(now)
        if self.sealed:
            return None
        rested = self.store_rest(now) if key == "" else None
        made = self.evaluate([key], now, at_once=True)
        return made[-1] if made else rested

    def advance(self, now: int) -> None:
        now = self.moment(now)
        self.evaluate(self.keys(), now)

    # -- refusals ------------------------------------------------------------------------------------------------

    def known(self, name: str) -> NaiveWriter:
        if name not in self.writers:
            raise Refusal("unknown_writer", name)
        return self.writers[name]

    def check_room(self, name: str) -> None:
        if name not in self.writers and len(self.writers) >= self.config.max_writers:
            self.make_room(name)
            if len(self.writers) >= self.config.max_writers:
                raise Refusal("too_many")

    def check_unsealed(self) -> None:
        if self.sealed:
            raise Refusal("stream_sealed")

    def check_epoch(self, writer: NaiveWriter | None, epoch: int | None) -> None:
        newest = writer.epoch if writer is not None else None
        if epoch is not None and epoch != newest:
            raise Refusal("fenced", newest)

    def counted_times(self, note: Note, now: int) -> Mapping[str, int]:
        if self.config.time_domain is TimeDomain.EVENT:
            return note.times
        if not note.times:
            return {}
        if set(note.times) != {""}:
            raise Refusal("wrong_domain")
        return {"": min(note.times[""], now) - self.config.clock_skew_ms}

    def check_time(self, said: int, counted: int, stored: int | None, now: int) -> None:
        if stored is not None and counted < stored:
            raise Refusal("time_went_back", stored)
        limit = self.config.max_ahead_ms
        if limit is not None and self.config.time_domain is TimeDomain.INGESTION:
            limit = max(limit, 24 * 60 * 60 * 1000)
        if limit is not None and said > now + limit:
            raise Refusal("time_too_far_ahead")
