"""The judge: what a history must not show. Pure functions of a history, each a rule with a name.

`judge` runs every rule and returns the violations. A rule yields one text for each thing that is wrong. Where the
outcome of a call is unknown, a rule takes whichever outcome excuses more; where the controller told something, it
must be so. What "before" means is decided by the harness's clock alone: a call is before another one where it ended
before the other began.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice, pairwise
from typing import Any, Final

from strandline.core.stream import HISTORY_NOTES_PER_WRITER
from strandline.wire.groups import READER_TIMEOUT_DEFAULT_MS
from tests.chaos.facts import (
    NOT_CHANGED,
    Effect,
    Facts,
    GroupCall,
    Json,
    NoteTry,
    Place,
    Registration,
    Sight,
    body_of,
    effect_of,
    facts_of,
    problem_of,
)
from tests.chaos.history import Answered, Call, Delivered, Record, Watermark, Window
from tests.chaos.limits import CLOCK_LAG_S, COUNTED_AWAY_S

NEVER: Final = float("inf")
TOLD_PER_RULE: Final = 20  # violations of one rule that are reported; the rest is counted
CACHE: Final = "cache"  # of each of several controllers: the client that lists what it has when all is over
JUDGE: Final = "judge"  # the client that lists all marks and writers once every fault is over


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    what: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.what}"


Rule = Callable[[Facts], Iterator[str]]


def judge(history: Iterable[Record], *, without: frozenset[str] = frozenset()) -> list[Violation]:
    """Everything that is wrong with a history; `without` leaves rules out by name."""
    facts = facts_of(history)
    found: list[Violation] = []
    for name, rule in RULES.items():
        if name not in without:
            told = list(rule(facts))
            found += [Violation(name, what) for what in told[:TOLD_PER_RULE]]
            if len(told) > TOLD_PER_RULE:
                found.append(Violation(name, f"and {len(told) - TOLD_PER_RULE} more"))
    return found


def _stamped_ms(facts: Facts, stream: str) -> int:
    """By how much a noted time may be lowered: a position of an ingestion stream counts with the clock of the
    controller that takes it, if that is less."""
    described = facts.streams.get(stream)
    stamped = described is not None and described.domain == "ingestion"
    return round(CLOCK_LAG_S * 1000) if facts.several and stamped else 0


# -- order and sight ---------------------------------------------------------------------------------------------


class Greatest:
    """The greatest of some values that are known from a moment on: `before(t)` is that of all known by then."""

    def __init__(self, known: Iterable[tuple[float, int]]) -> None:
        ordered = sorted(known)
        self._moments = [moment for moment, _ in ordered]
        self._greatest = list(accumulate((value for _, value in ordered), max))

    def before(self, moment: float) -> int | None:
        count = bisect_left(self._moments, moment)
        return self._greatest[count - 1] if count else None


def le(lesser: Mapping[str, int], greater: Mapping[str, int]) -> bool:
    """Whether a position is wholly at or below another one."""
    return all(offset <= greater.get(segment, 0) for segment, offset in lesser.items())


def reached_by(note: NoteTry) -> Iterator[str]:
    """The segments that a note reaches into: the offset 0 means nothing of a segment."""
    return (segment for segment, offset in note.position.items() if offset)


def known_seqs(facts: Facts, place: Place) -> Greatest:
    """The newest mark that somebody had seen, by moment. A window that is no cached one shows its mark, too."""
    seen = [(sight.call.ended, seq) for seq, sights in facts.sights[place].items() for sight in sights]
    seen += [
        (each.ended, each.mark_seq)
        for each in facts.windows
        if (each.stream, each.key) == place and each.mark_seq is not None
    ]
    return Greatest(seen)


def definitely_before(facts: Facts, note: NoteTry | Registration, mark: Json, brought: Sight | None) -> bool:
    """Whether a call was carried out before a mark was made; `brought` is the answer that the mark came with, if known.

    The notes of one request are carried out in their order, so those behind the note that made the mark came later.
    """
    if note.effect is not Effect.DONE:
        return False
    if brought is not None and note.call is brought.call:
        return isinstance(note, NoteTry) and brought.note is not None and note.index <= brought.note.index
    if brought is not None and note.call.ended < brought.call.began:
        return True
    told = facts.clock(note.call)
    return told is not None and told < mark["created_at"]


def bringing_answer(facts: Facts, place: Place, seq: int) -> Sight | None:
    """The answer to the call that brought a mark about, where it arrived."""
    return next((sight for sight in facts.sights[place][seq] if sight.call.method != "GET"), None)


def outage_s(facts: Facts, began: float, ended: float) -> float:
    """For how many of the seconds between two moments nobody served, of those that do not count as silence."""
    total, covered = 0.0, began
    for outage_began, outage_ended in sorted(_outages(facts)):
        first, last = max(outage_began, covered), min(outage_ended, ended)
        if last > first:
            total += last - first
            covered = last
    return total


def silence_s(facts: Facts, began: float, ended: float) -> float:
    """The most seconds of silence that a controller may have counted between two moments."""
    return ended - began - outage_s(facts, began, ended)


def _outages(facts: Facts) -> Iterator[tuple[float, float]]:
    for outage in facts.outages:
        if outage.ended - outage.began >= COUNTED_AWAY_S:
            yield outage.began, outage.ended


# -- answers -----------------------------------------------------------------------------------------------------


def answers(facts: Facts) -> Iterator[str]:
    """Statuses are those of the contract, a 503 says when to come again, every answer has a clock."""
    for call in facts.calls:
        outcome = call.outcome
        if not isinstance(outcome, Answered):
            continue
        where = f"{call.client}: {call.method} {call.path} was answered {outcome.status}"
        code = str((problem_of(call) or {}).get("code"))
        if outcome.clock is None:
            yield f"{where} without a clock"
        if outcome.status == 503 and code not in NOT_CHANGED:
            yield f"{where} with the code {code!r}"
        elif outcome.status == 503 and not outcome.retry_after:
            yield f"{where} {code} without Retry-After"
        elif outcome.status >= 500 and outcome.status != 503 and code != "store_undecided":
            yield f"{where}: {str(outcome.body)[:300]}"


def clock(facts: Facts) -> Iterator[str]:
    """The controller's clock never steps back, over restarts either. Those of several controllers agree."""
    lag_ms = round(CLOCK_LAG_S * 1000) if facts.several else 0
    readings = [
        (call.ended, call.outcome.clock, call)
        for call in facts.calls
        if isinstance(call.outcome, Answered) and call.outcome.clock is not None
    ]
    known = Greatest((ended, now) for ended, now, _ in readings)
    for _, now, call in readings:
        before = known.before(call.began)
        if before is not None and now < before - lag_ms:
            who = f"{call.client}: {call.method} {call.path}"
            yield f"{who} showed {now}, {before - now} ms behind an earlier answer"


def refusals(facts: Facts) -> Iterator[str]:
    """A refusal has a reason that the history shows. Our clients give none but those looked for here."""
    created = {call.path for call in facts.calls if call.method == "PUT" and effect_of(call) is Effect.DONE}
    for (stream, writer), tries in facts.notes.items():
        for note in tries:
            if note.effect is Effect.NONE and note.result is not None and note.result.get("status", 500) < 500:
                code = str(note.result.get("code"))
                if not _refused_rightly(facts, note, code):
                    shown = {**note.times}, {**note.position}
                    yield f"{note.call.client}: note {shown} of {writer}@{stream} was refused: {dict(note.result)}"
    for call in facts.calls:
        problem = problem_of(call)
        if problem is None or call.path.endswith(("/notes", "/tail")) or problem.get("status", 500) >= 500:
            continue
        code, parts = str(problem.get("code")), call.path.strip("/").split("/")
        path = "/".join(["", *parts[:3]])
        if code == "unknown_seq" and facts.lost and call.ended > facts.lost[0].began:
            continue  # a mark that is gone
        if code == "unknown_stream" and (path not in created or call.path == path):
            continue  # whether a stream is there is another rule's affair
        if parts[1] == "reader-groups" or (code == "fenced" and _leaving_fenced(facts, call)):
            continue
        yield f"{call.client}: {call.method} {call.path} {dict(call.query)} was refused: {dict(problem)}"


def _refused_rightly(facts: Facts, note: NoteTry, code: str) -> bool:
    place = note.stream, note.writer
    result = note.result or {}
    if code == "fenced":
        return _fence_shown(facts, place, note.epoch, note.call)
    if code == "time_went_back":
        key, stored = result.get("key", ""), result.get("stored_time")
        return stored is not None and any(
            other.effect.possible
            and other.call.began < note.call.ended
            and note.times.get(key, stored) < other.times.get(key, stored - 1) == stored
            for other in facts.notes[place]
        )
    if code == "position_went_back":
        segment, stored = result.get("segment", ""), result.get("stored_offset")
        return stored is not None and any(
            other.effect.possible
            and other.call.began < note.call.ended
            and note.position.get(segment, stored) < other.position.get(segment, 0) == stored
            for other in facts.notes[place]
        )
    return False


def _fence_shown(facts: Facts, place: Place, epoch: int | None, call: Call) -> bool:
    """Whether an epoch may have been over when a call with it was answered."""
    own = next((each for each in facts.registrations[place] if each.epoch == epoch), None)
    since = own.call.began if own is not None else 0.0
    later = any(
        each is not own
        and each.effect.possible
        and each.call.began < call.ended
        and (each.epoch is None or epoch is None or each.epoch > epoch)
        for each in facts.registrations[place]
    )
    left = any(
        each.what == "close" and each.effect.possible and since <= each.call.ended and each.call.began < call.ended
        for each in facts.leavings[place]
    )
    return later or left


def _leaving_fenced(facts: Facts, call: Call) -> bool:
    for place, leavings in facts.leavings.items():
        for each in leavings:
            if each.call is call:
                return _fence_shown(facts, place, each.epoch, call)
    return False


# -- writers -----------------------------------------------------------------------------------------------------


def epochs(facts: Facts) -> Iterator[str]:
    """No epoch is given out twice in a stream, a later registration has a higher one, and fences the earlier ones."""
    by_stream: dict[str, list[Registration]] = defaultdict(list)
    for (stream, _), registrations in facts.registrations.items():
        by_stream[stream] += [each for each in registrations if each.effect is Effect.DONE]
    for stream, registrations in by_stream.items():
        seen: dict[int, Registration] = {}
        known = Greatest((each.call.ended, each.epoch or 0) for each in registrations)
        sent = _first_sent(facts, stream)
        for each in sorted(registrations, key=lambda each: each.call.began):
            epoch = each.epoch
            if epoch is None:
                yield f"{each.writer}@{stream} registered without an epoch"
                continue
            other = seen.setdefault(epoch, each)
            if other is not each and (each.name is None or (other.writer, other.name) != (each.writer, each.name)):
                yield f"epoch {epoch} of {stream} was given to {other.writer}, and again to {each.writer}"
            before = known.before(sent.get((each.writer, each.name), each.call.began))
            if before is not None and epoch <= before:
                yield f"{each.writer}@{stream} got epoch {epoch} after {before} had been given out"
    for place, tries in facts.notes.items():
        given = [each for each in facts.registrations[place] if each.effect is Effect.DONE]
        known = Greatest((each.call.ended, each.epoch or 0) for each in given)
        for note in tries:
            before = known.before(note.call.began)
            if note.effect is Effect.DONE and note.epoch is not None and before is not None and note.epoch < before:
                yield f"a note of {place} with epoch {note.epoch} was taken after {before} had been given out"


def _first_sent(facts: Facts, stream: str) -> dict[tuple[str, str | None], float]:
    """When each named registration of a stream was first sent: sent again, it keeps the epoch of the first time."""
    found: dict[tuple[str, str | None], float] = {}
    for (of, writer), registrations in facts.registrations.items():
        for each in registrations:
            if of == stream and each.name is not None and each.effect.possible:
                began = each.call.began
                found[writer, each.name] = min(began, found.get((writer, each.name), began))
    return found


def durable_notes(facts: Facts) -> Iterator[str]:
    """A listing has every note that was answered before it, and nothing that was not sent, or had been refused.

    It tells what was applied: a note whose commit is under way is listed, whatever comes of that.
    """
    for call, stream, entries in facts.listings:
        listed = {entry["writer"]: entry for entry in entries}
        for (of, writer), tries in facts.notes.items():
            if of != stream:
                continue
            entry = listed.get(writer)
            if entry is not None:
                yield from _entry_is_true(facts, call, stream, writer, entry, tries)
            elif (
                call.client == JUDGE
                and any(note.effect is Effect.DONE for note in tries)
                and _left_at(facts, (stream, writer), call) < tries[-1].call.began
            ):
                yield f"{writer}@{stream} is not listed, but its notes were answered"


def _left_at(facts: Facts, place: Place, call: Call) -> float:
    """When the last close began that may have been carried out by then."""
    left = [each.call.began for each in facts.leavings[place] if each.what == "close" and each.effect.possible]
    return max((began for began in left if began < call.ended), default=-1.0)


def _may_be_listed(note: NoteTry, listing: Call) -> bool:
    """Whether a note that was sent may have been applied, at least while the listing was made."""
    withdrawn = note.result is not None and note.result.get("code") in NOT_CHANGED
    return note.effect.possible or (withdrawn and listing.began < note.call.ended)


def _entry_is_true(
    facts: Facts, call: Call, stream: str, writer: str, entry: Json, tries: Sequence[NoteTry]
) -> Iterator[str]:
    left_at = _left_at(facts, (stream, writer), call)
    seen = facts.surely_seen(call.began, call.ended)
    answered = [note for note in tries if note.effect is Effect.DONE and note.call.ended < seen]
    possible = [note for note in tries if note.call.began < call.ended and _may_be_listed(note, call)]
    who = f"{writer}@{stream}, listed {entry['state']} to {call.client}"
    lag_ms = _stamped_ms(facts, stream)
    for key in {key for note in tries for key in note.times}:
        stored = entry["times"].get(key)
        least = max(
            (note.times[key] for note in answered if key in note.times and note.call.began > left_at), default=0
        )
        if least and entry["state"] != "closed" and (stored is None or stored < least - lag_ms):
            yield f"{who}: its time {key!r} is {stored}, but {least} was answered"
        if stored is not None and not any(0 <= note.times.get(key, NEVER) - stored <= lag_ms for note in possible):
            yield f"{who}: its time {key!r} is {stored}, which no note had that may have been taken"
    for segment in {segment for note in tries for segment in note.position}:
        stored = entry["position"].get(segment, 0)
        least = max((note.position.get(segment, 0) for note in answered), default=0)
        most = max((note.position.get(segment, 0) for note in possible), default=0)
        if not least <= stored <= most:
            yield f"{who}: it stands at {stored} in {segment}, but {least} was answered and {most} sent"
    epoch = entry.get("epoch")
    given = facts.registrations[stream, writer]
    newest = max((each.epoch or 0 for each in given if each.call.ended < seen), default=0)
    if epoch is not None and left_at < 0 and epoch < newest:
        yield f"{who}: its epoch is {epoch}, but {newest} was given out"


def floors(facts: Facts) -> Iterator[str]:
    """A registration's floor is at or above every mark seen before it, and every note answered before it."""
    known: dict[Place, Greatest] = {}
    for (stream, _), registrations in facts.registrations.items():
        for each in registrations:
            if each.effect is not Effect.DONE:
                continue
            for key, floor in each.floors.items():
                place = stream, key
                if place not in known:
                    known[place] = _known_times(facts, place)
                yield from _floor_is_true(facts, each, key, floor, known[place])


def _known_times(facts: Facts, place: Place) -> Greatest:
    sights = facts.sights[place].values()
    return Greatest((each.call.ended, each.mark["time"]) for seen in sights for each in seen)


def _floor_is_true(facts: Facts, given: Registration, key: str, floor: int | None, known: Greatest) -> Iterator[str]:
    who = f"{given.writer}@{given.stream} registered and got the floor {floor} for {key!r}"
    reached = known.before(given.call.began)
    if reached is not None and (floor is None or floor < reached):
        yield f"{who}, but a mark had reached {reached}"
    place = given.stream, given.writer
    left_at = _left_at(facts, place, given.call)
    notes = facts.notes[place]
    own = [
        note.times[key]
        for note in notes
        if key in note.times
        and note.effect is Effect.DONE
        and note.call.ended < given.call.began
        and note.call.began > left_at
    ]
    if own and (floor is None or floor < max(own)):
        yield f"{who}, but it had noted {max(own)}"
    if floor is not None:
        marks = {sights[0].mark["time"] for sights in facts.sights[given.stream, key].values()}
        sent = {note.times.get(key) for note in notes if note.effect.possible}
        if floor not in marks and floor not in sent:
            yield f"{who}, which is no mark's time and none that it noted"


def late_notes(facts: Facts) -> Iterator[str]:
    """Notes are called late where they are, and only there; and whoever was left out is told from where it is late."""
    for (stream, writer), tries in facts.notes.items():
        described = facts.streams.get(stream)
        if described is None or described.domain != "event":
            continue
        for key in sorted({key for note in tries for key in note.times}):
            marks = facts.marks((stream, key))
            known = _known_times(facts, (stream, key))
            told = _told_floors(facts, (stream, writer), key)
            naming = [mark for mark in marks if writer in mark["excluded"]]
            sent: dict[tuple[Any, ...], float] = {}  # when each note was first sent: a repetition is no later
            for note in tries:
                if note.effect.possible:
                    sent.setdefault(note.same_note, note.call.began)
                if note.effect is Effect.DONE and key in note.times and note.result is not None:
                    floor = told.before(note.call.began)
                    below = floor is not None and note.times[key] < floor
                    may_be_lost = described.timeout_ms is not None and bool(naming)
                    reached = known.before(sent[note.same_note])
                    yield from _late_is_true(note, key, reached, may_be_late=below or may_be_lost)
            yield from _left_out_is_told(facts, (stream, key), tries, naming)


def _late_is_true(note: NoteTry, key: str, reached: int | None, *, may_be_late: bool) -> Iterator[str]:
    assert note.result is not None
    time, late = note.times[key], bool(note.result.get("late"))
    who = f"note {time} for {key!r} of {note.writer}@{note.stream}"
    if reached is not None and time < reached and not late:
        yield f"{who} was not called late, but a mark had reached {reached}"
    if late and len(note.times) == 1 and not may_be_late:
        yield f"{who} was called late, but the writer was in all along"


def _left_out_is_told(facts: Facts, place: Place, tries: Sequence[NoteTry], naming: Sequence[Json]) -> Iterator[str]:
    """The first note after marks that name its writer is answered with a floor at or above these marks. Repeated,
    it is told the same: the first answer may have been lost."""
    stream, key = place
    for mark in naming:
        first_seen = facts.first_seen(place, mark["seq"])
        after = [note for note in tries if note.call.began > first_seen and key in note.times]
        if not after:
            continue
        tries_of_first = [note for note in tries if note.same_note == after[0].same_note]
        first = next((note for note in tries_of_first if note.effect is Effect.DONE), None)
        if first is None:
            continue
        before = [note.call.began for note in tries if definitely_before(facts, note, mark, None)]
        settled = max(before, default=-1.0)
        between = any(
            note.effect.possible and settled < note.call.began < first.call.began and note.same_note != first.same_note
            for note in tries
        )
        registered = any(
            each.effect.possible and each.call.ended > first_seen - 1 and each.call.began < first.call.ended
            for each in facts.registrations[stream, first.writer]
        )
        if between or registered:
            continue
        floor = first.floor(key)
        if floor is None or floor < mark["time"]:
            yield (
                f"{first.writer}@{stream} noted {first.times[key]} after mark {mark['seq']} at {mark['time']} left it "
                f"out, and was told the floor {floor}"
            )


# -- "nothing was changed" ---------------------------------------------------------------------------------------


def nothing_changed(facts: Facts) -> Iterator[str]:
    """A stream that is there was created by a call that may have been carried out; one that was created stays."""
    tries: dict[str, list[Call]] = defaultdict(list)
    for call in facts.calls:
        parts = call.path.strip("/").split("/")
        if parts[:2] == ["v1", "streams"] and len(parts) == 3 and call.method == "PUT":
            tries[parts[2]].append(call)
    for call in facts.calls:
        parts = call.path.strip("/").split("/")
        if parts[:2] != ["v1", "streams"] or len(parts) != 3 or call.method != "GET":
            continue
        creations = tries[parts[2]]
        possible = [each for each in creations if effect_of(each).possible and each.began < call.ended]
        done = [each for each in creations if effect_of(each) is Effect.DONE and each.ended < call.began]
        if body_of(call) is not None and not possible:
            yield f"stream {parts[2]} is there, but every try to create it was told that nothing was changed"
        if (problem_of(call) or {}).get("code") == "unknown_stream" and done:
            yield f"stream {parts[2]} is not there, but its creation was answered"


def origin_of_marks(facts: Facts) -> Iterator[str]:
    """A mark's time was noted, by a call that may have been carried out, and so was its cut; no bound is invented."""
    for place in list(facts.sights):
        stream, key = place
        lag_ms = _stamped_ms(facts, stream)
        tries = [note for (of, _), each in facts.notes.items() if of == stream for note in each if note.effect.possible]
        began: dict[int, float] = {}
        for note in tries:
            if key in note.times:
                time = note.times[key]
                began[time] = min(began.get(time, NEVER), note.call.began)
        times = Greatest((moment, time) for time, moment in began.items())
        reached = {
            segment: Greatest((note.call.began, note.position[segment]) for note in tries if segment in note.position)
            for segment in {segment for note in tries for segment in note.position}
        }
        for mark in facts.marks(place):
            seen = facts.first_seen(place, mark["seq"])
            if min((began.get(mark["time"] + lag, NEVER) for lag in range(lag_ms + 1)), default=NEVER) > seen:
                yield f"mark {mark['seq']} of {place} has the time {mark['time']}, which nobody noted, or was told so"
            most = times.before(seen)
            if most is None or mark["upper"] > most:
                yield f"mark {mark['seq']} of {place} has the upper {mark['upper']}, above all that was noted: {most}"
            for segment, offset in mark["cut"].items():
                known = reached[segment].before(seen) if segment in reached else None
                if known is None or offset > known:
                    yield f"mark {mark['seq']} of {place} cuts {segment} at {offset}, but {known} was noted"


# -- marks -------------------------------------------------------------------------------------------------------


def marks_agree(facts: Facts) -> Iterator[str]:
    """A mark is the same for everybody, for ever; marks follow each other without a gap, and none is lost.

    Marks are known to be lost once the judge has looked for them: it does not where no controller came back.
    """
    looked = facts.ended is not None and any(call.client == JUDGE for call in facts.calls)
    for place, by_seq in facts.sights.items():
        if not by_seq:
            continue
        for seq, sights in sorted(by_seq.items()):
            for sight in sights[1:]:
                if sight.mark != sights[0].mark:
                    yield f"mark {seq} of {place} was {dict(sights[0].mark)}, and then {dict(sight.mark)}"
                    break
        seqs = sorted(by_seq)
        missing = sorted(set(range(1, seqs[-1] + 1)) - set(seqs))
        if missing and looked:
            yield f"marks {missing[:5]} of {place} are missing below {seqs[-1]}"
        for last, mark in pairwise(facts.marks(place)):
            if mark["seq"] == last["seq"] + 1:
                yield from _follows(place, last, mark)
        if looked:
            final = max((s for s, each in by_seq.items() if any(o.call.client == JUDGE for o in each)), default=0)
            if final < seqs[-1]:
                yield f"mark {seqs[-1]} of {place} was seen, but in the end the last one is {final}"


def _follows(place: Place, last: Json, mark: Json) -> Iterator[str]:
    if mark["time"] <= last["time"]:
        yield f"marks of {place} do not rise: {dict(last)}, {dict(mark)}"
    if not le(last["cut"], mark["cut"]):
        yield f"the cut of {place} goes back: {dict(last)}, {dict(mark)}"
    if mark["upper"] < last["upper"] or mark["created_at"] < last["created_at"]:
        yield f"upper or created_at of {place} goes back: {dict(last)}, {dict(mark)}"
    if mark["upper"] < mark["time"]:
        yield f"a mark of {place} has an upper below its time: {dict(mark)}"
    if mark["complete"] != (not mark["excluded"]):
        yield f"a mark of {place} is complete and names somebody, or neither: {dict(mark)}"


def pages(facts: Facts) -> Iterator[str]:
    """A page of marks begins after the seq that was asked for, has no gap, and has what others had seen before."""
    known: dict[Place, Greatest] = {}
    for call in facts.calls:
        parts = call.path.strip("/").split("/")
        told = body_of(call)
        if call.method != "GET" or len(parts) != 4 or parts[3] != "marks" or told is None:
            continue
        place = parts[2], call.query.get("key", "")
        if place not in known:
            known[place] = known_seqs(facts, place)
        after, limit = int(call.query.get("after", 0)), int(call.query.get("limit", 100))
        seqs = [mark["seq"] for mark in told["marks"]]
        if seqs != list(range(after + 1, after + 1 + len(seqs))):
            yield f"{call.client} asked for the marks of {place} after {after} and got {seqs[:5]} …"
        before = known[place].before(facts.surely_seen(call.began, call.ended)) or 0
        if after + len(seqs) < min(before, after + limit):
            yield f"{call.client} got marks of {place} up to {after + len(seqs)}, but {before} had been seen before"


def truth_of_marks(facts: Facts) -> Iterator[str]:
    """Every event older than a mark, of every writer that the mark does not name, lies below its cut."""
    for place in list(facts.sights):
        stream, key = place
        described = facts.streams.get(stream)
        if described is None or described.domain != "event":
            continue
        minima = _least_times(facts, stream, key)
        for mark in facts.marks(place):
            for (segment, writer), (offsets, least, events) in minima.items():
                if writer in mark["excluded"]:
                    continue
                index = bisect_left(offsets, mark["cut"].get(segment, 0))
                if index < len(offsets) and least[index] < mark["time"]:
                    missed = next(n for n in range(index, len(offsets)) if events[n] < mark["time"])
                    yield (
                        f"mark {mark['seq']} of {place} at {mark['time']} cuts {segment} at "
                        f"{mark['cut'].get(segment, 0)}, but {writer} has {events[missed]} at {offsets[missed]}"
                    )


def _least_times(
    facts: Facts, stream: str, key: str
) -> dict[tuple[str, str], tuple[list[int], list[float], list[float]]]:
    """By segment and writer: the offsets of its events, the least time from each on, and the times themselves.

    What a writer wrote below a floor that it had been told counts with that floor: it was told that it is late.
    """
    found: dict[tuple[str, str], tuple[list[int], list[float], list[float]]] = {}
    told = {writer: _told_floors(facts, (stream, writer), key) for writer in facts.writer_names(stream)}
    for (of, segment), events in facts.events.items():
        if of == stream:
            by_writer: dict[str, list[tuple[int, float]]] = defaultdict(list)
            for event in events:
                at = event.times.get(key, NEVER)
                floor = told[event.writer].before(event.at) if event.at is not None and event.writer in told else None
                by_writer[event.writer].append((event.offset, at if floor is None else max(at, floor)))
            for writer, own in by_writer.items():
                times = [time for _, time in own]
                least = list(accumulate(reversed(times), min))[::-1]
                found[segment, writer] = [offset for offset, _ in own], least, times
    return found


def _told_floors(facts: Facts, place: Place, key: str) -> Greatest:
    told = [(each.call.ended, each.floors.get(key)) for each in facts.registrations[place]]
    told += [(note.call.ended, note.floor(key)) for note in facts.notes[place] if note.effect is Effect.DONE]
    return Greatest((ended, floor) for ended, floor in told if floor is not None)


def truth_of_ingestion(facts: Facts) -> Iterator[str]:
    """An event that was there when the clock showed K lies below the cut of every mark above K."""
    lag_ms = round(CLOCK_LAG_S * 1000) if facts.several else 0
    for place in list(facts.sights):
        described = facts.streams.get(place[0])
        if described is None or described.domain != "ingestion":
            continue
        readings = sorted(
            (call.began, call.outcome.clock)
            for call in facts.calls
            if isinstance(call.outcome, Answered) and call.outcome.clock is not None
        )
        begins = [began for began, _ in readings]
        least = list(accumulate((float(now) for _, now in reversed(readings)), min))[::-1]
        bounds: dict[str, list[float]] = {}
        for (of, segment), events in facts.events.items():
            if of == place[0]:
                shown = [bisect_left(begins, NEVER if event.at is None else event.at) for event in events]
                times: list[float] = [least[index] if index < len(least) else NEVER for index in shown]
                bounds[segment] = list(accumulate(reversed(times), min))[::-1]
        for mark in facts.marks(place):
            for segment, bound in bounds.items():
                cut = mark["cut"].get(segment, 0)
                if cut < len(bound) and bound[cut] + lag_ms < mark["time"]:
                    yield (
                        f"mark {mark['seq']} of {place} at {mark['time']} cuts {segment} at {cut}, but an event there "
                        f"or later was appended before the clock showed {bound[cut]}"
                    )


def upper(facts: Facts) -> Iterator[str]:
    """`upper` bounds every time noted for anything below the cut, and no more than it has to where that is known.

    For each writer it is at least the time of its first note that covers the cut in every segment that the writer has
    reached, or of its last one. Only the notes of the writer's present life count.
    """
    for place in list(facts.sights):
        described = facts.streams.get(place[0])
        if described is None or described.domain != "event":
            continue
        writers = {name: _Lives(facts, place, name) for name in facts.writer_names(place[0])}
        shared = _shares_segments(facts, place[0])
        last: Json | None = None
        for mark in facts.marks(place):
            brought, seen = bringing_answer(facts, place, mark["seq"]), facts.first_seen(place, mark["seq"])
            greatest: float = mark["time"] if last is None else max(mark["time"], last["upper"])
            for name, lives in writers.items():
                least = lives.at(seen).least_upper(mark, brought)
                if least is not None and mark["upper"] < least:
                    yield (
                        f"mark {mark['seq']} of {place} has the upper {mark['upper']}, but {name} had noted {least} "
                        f"for what lies below its cut {dict(mark['cut'])}"
                    )
                if not shared:
                    greatest = max(greatest, lives.most_contributed(mark, brought, seen))
            if not shared and mark["upper"] > greatest:
                yield f"mark {mark['seq']} of {place} has the upper {mark['upper']}, but none gave more than {greatest}"
            last = mark


class _Life:
    """The notes of a writer in one key since it closed last, as far as they may have been taken."""

    def __init__(self, facts: Facts, stream: str, notes: Sequence[NoteTry], key: str) -> None:
        self._facts = facts
        self._stream = stream
        self._times = [note.times[key] for note in notes]
        self._positions: list[dict[str, int]] = []  # after each of them
        position: dict[str, int] = {}
        for note in notes:
            position = {**position, **{name: max(at, position.get(name, 0)) for name, at in note.position.items()}}
            self._positions.append(position)
        done = [note for note in notes if note.effect is Effect.DONE]
        self._by_end = Greatest((note.call.ended, note.times[key]) for note in done)
        clocks = [(facts.clock(note.call), note.times[key]) for note in done]
        self._by_clock = Greatest((told, time) for told, time in clocks if told is not None)
        self._by_call: dict[int, list[NoteTry]] = defaultdict(list)
        for note in done:
            self._by_call[id(note.call)].append(note)
        self._reached: dict[str, tuple[float, float]] = {}  # by segment, the first end and the first clock of a note
        for note in done:
            for segment in reached_by(note):
                ended, clock = self._reached.get(segment, (NEVER, NEVER))
                told = facts.clock(note.call)
                self._reached[segment] = min(ended, note.call.ended), min(clock, NEVER if told is None else told)
        self._key = key

    def least_upper(self, mark: Json, brought: Sight | None) -> int | None:
        """What the writer asks of a mark's upper, as far as that is certain."""
        began = brought.call.began if brought is not None else -1.0
        same = self._by_call.get(id(brought.call), []) if brought is not None else []
        own = [note for note in same if definitely_before(self._facts, note, mark, brought)]
        created_at = mark["created_at"]
        known = [self._by_end.before(began), self._by_clock.before(created_at)]
        certain = [time for time in known if time is not None] + [note.times[self._key] for note in own]
        if not certain:
            return None
        reached = {name for name, (ended, clock) in self._reached.items() if ended < began or clock < created_at}
        reached |= {segment for note in own for segment in reached_by(note)}
        cut = {segment: offset for segment, offset in mark["cut"].items() if segment in reached}
        covering = bisect_left(self._positions, True, key=lambda position: le(cut, position))
        latest = max(certain)
        return min(latest, self._times[covering]) if covering < len(self._times) else latest


class _Lives:
    """The lives of a writer: each begins when it closes, as far as that may have been carried out."""

    def __init__(self, facts: Facts, place: Place, writer: str) -> None:
        self._stream, self._key = place
        self._facts = facts
        of = self._stream, writer
        self._notes = [note for note in facts.notes[of] if note.effect.possible and self._key in note.times]
        closings = [each for each in facts.leavings[of] if each.what == "close" and each.effect.possible]
        self._closings = [(each.call.began, each.call.ended) for each in closings]
        self._lives: dict[float, _Life] = {}

    def at(self, seen: float) -> _Life:
        begin = self._begin(seen)
        if begin not in self._lives:
            own = [note for note in self._notes if note.call.began > begin]
            self._lives[begin] = _Life(self._facts, self._stream, own, self._key)
        return self._lives[begin]

    def most_contributed(self, mark: Json, brought: Sight | None, seen: float) -> float:
        """At most so much the writer can have contributed to a mark: the earliest note of its life at or above the
        mark's time, and whatever it noted in the lives before."""
        own = [note for note in self._notes if note.call.began < seen]
        if not own:
            return -NEVER
        above = sorted({note.times[self._key] for note in own if note.times[self._key] >= mark["time"]})
        if len(above) > HISTORY_NOTES_PER_WRITER // 2:
            return NEVER  # older ones may have been thinned out
        begin = self._begin(seen)
        certain = [
            note for note in own if note.call.began > begin and definitely_before(self._facts, note, mark, brought)
        ]
        reached = [note.times[self._key] for note in certain if note.times[self._key] >= mark["time"]]
        if not reached:
            return max(note.times[self._key] for note in own)
        return max([min(reached), *(note.times[self._key] for note in own if note.call.began <= begin)])

    def _begin(self, seen: float) -> float:
        """When the life surely had begun that a mark may know of which was seen then."""
        return max((ended for began, ended in self._closings if began < seen), default=-1.0)


def _shares_segments(facts: Facts, stream: str) -> bool:
    owner: dict[str, str] = {}
    for (of, writer), tries in facts.notes.items():
        for note in tries if of == stream else ():
            for segment in reached_by(note):
                if owner.setdefault(segment, writer) != writer:
                    return True
    return False


def newest(facts: Facts) -> Iterator[str]:
    """Nothing below a mark's cut is newer than its `newest`."""
    for place in list(facts.sights):
        stream, key = place
        greatest: dict[str, list[float]] = {}
        offsets: dict[str, list[int]] = {}
        for (of, segment), events in facts.events.items():
            if of == stream:
                greatest[segment] = list(accumulate((event.times.get(key, -NEVER) for event in events), max))
                offsets[segment] = [event.offset for event in events]
        for mark in facts.marks(place):
            for segment, cut in mark["cut"].items():
                below = bisect_left(offsets.get(segment, []), cut)
                if mark["newest"] is not None and below and greatest[segment][below - 1] > mark["newest"]:
                    yield (
                        f"mark {mark['seq']} of {place} says that nothing below it is newer than {mark['newest']}, but "
                        f"{segment} has {greatest[segment][below - 1]}"
                    )


def excluded(facts: Facts) -> Iterator[str]:
    """A mark names only writers that were silent for the stream's timeout, while somebody served."""
    for place in list(facts.sights):
        described = facts.streams.get(place[0])
        for mark in facts.marks(place):
            for writer in mark["excluded"]:
                if described is None or described.timeout_ms is None:
                    yield f"mark {mark['seq']} of {place} names {writer}, but nobody can be lost there"
                    continue
                own: list[NoteTry | Registration] = [*facts.notes[place[0], writer]]
                own += facts.registrations[place[0], writer]
                heard = [each.call.began for each in own if definitely_before(facts, each, mark, None)]
                if not heard:
                    continue
                seen = facts.first_seen(place, mark["seq"])
                silent_s = silence_s(facts, max(heard), seen)
                if silent_s * 1000 < described.timeout_ms and not _named_before(facts, place, mark, writer, heard):
                    yield (
                        f"mark {mark['seq']} of {place} names {writer}, which was silent for at most {silent_s:.3f} s "
                        f"of service; the timeout is {described.timeout_ms} ms"
                    )


def _named_before(facts: Facts, place: Place, mark: Json, writer: str, heard: Sequence[float]) -> bool:
    """Whether an earlier mark, made after the writer was heard last, names it already: then that one is judged."""
    return any(
        writer in before["excluded"] and facts.first_seen(place, before["seq"]) > max(heard)
        for before in facts.marks(place)
        if before["seq"] < mark["seq"]
    )


# -- windows -----------------------------------------------------------------------------------------------------


def windows(facts: Facts) -> Iterator[str]:
    """A window is that of its position among the marks, with all the marks that anybody had seen before."""
    by_place: dict[Place, list[Window]] = defaultdict(list)
    for each in facts.windows:
        by_place[each.stream, each.key].append(each)
    for place, asked in by_place.items():
        described = facts.streams.get(place[0])
        if described is None or described.domain != "event":
            continue
        marks = facts.marks(place)
        if [mark["seq"] for mark in marks] != list(range(1, len(marks) + 1)):
            continue  # another rule tells
        known = known_seqs(facts, place)
        for window in asked:
            before = known.before(facts.surely_seen(window.began, window.ended)) or 0
            yield from _window_is_true(place, window, marks, before)


def _window_is_true(place: Place, window: Window, marks: Sequence[Json], before: int) -> Iterator[str]:
    position, seq = window.position, window.mark_seq or 0
    who = f"{window.reader} at {dict(position)} of {place}"
    passed = bisect_right(marks, False, key=lambda mark: not le(mark["cut"], position))
    if seq > len(marks):
        yield f"{who} was told mark {seq}, which is not there"
        return
    if seq > passed:
        yield f"{who} was told the lower of mark {seq}, but has passed only {passed}"
    if not window.cached and seq < min(passed, before):
        yield f"{who} was told the lower of mark {seq}, but mark {min(passed, before)} had been seen before"
    lower = marks[seq - 1]["time"] if seq else None
    if window.lower != lower:
        yield f"{who} was told the lower {window.lower}, but mark {seq} has {lower}"
    if seq and window.complete != marks[seq - 1]["complete"]:
        yield f"{who} was told complete {window.complete}, but mark {seq} says otherwise"
    covering = bisect_left(marks, True, key=lambda mark: le(position, mark["cut"]))
    ahead = marks[max(covering, seq)] if max(covering, seq) < len(marks) else None
    if window.upper is not None and (ahead is None or window.upper != ahead["upper"]):
        shown = None if ahead is None else (ahead["seq"], ahead["upper"])
        yield f"{who} was told the upper {window.upper}, but ahead of it is {shown}"
    if window.upper is None and ahead is not None and ahead["seq"] <= before and not window.cached:
        yield f"{who} was told no upper, but mark {ahead['seq']} had been seen before"


def windows_never_back(facts: Facts) -> Iterator[str]:
    """For one reader at a fixed or rising position no bound goes back."""
    last: dict[tuple[str, str, str], Window] = {}
    for window in sorted(facts.windows, key=lambda each: each.began):
        place = window.reader, window.stream, window.key
        before = last.get(place)
        last[place] = window
        if before is None or before.ended > window.began or not le(before.position, window.position):
            continue
        who = f"{window.reader} of {window.stream} {window.key!r}"
        if (window.lower if window.lower is not None else -NEVER) < (
            before.lower if before.lower is not None else -NEVER
        ):
            yield f"{who}: lower went back from {before.lower} to {window.lower}"
        if window.upper is not None and before.upper is not None and window.upper < before.upper:
            yield f"{who}: upper went back from {before.upper} to {window.upper}"
        if window.position == before.position and window.upper is None and before.upper is not None:
            yield f"{who}: upper went back from {before.upper} to none"


# -- reader groups -----------------------------------------------------------------------------------------------


def group_positions(facts: Facts) -> Iterator[str]:
    """What a reader was answered it has reported is kept, and nothing is ahead of what was reported."""
    for group, calls in facts.group_calls.items():
        told: dict[Place, list[tuple[float, int]]] = defaultdict(list)
        sent: dict[Place, list[tuple[float, int]]] = defaultdict(list)
        for each in calls:
            for place, offset in each.positions.items():
                if each.effect is Effect.DONE:
                    told[place].append((each.call.ended, offset))
                if each.effect.possible:
                    sent[place].append((each.call.began, offset))
        least = {place: Greatest(known) for place, known in told.items()}
        most = {place: Greatest(known) for place, known in sent.items()}
        looks = [(look.call, look.position) for look in facts.group_statuses[group]]
        looks += [(each.call, each.owned) for each in calls if each.owned is not None]
        for call, position in looks:
            partial = call.path.endswith("/time-window") is False and position is not None
            for place in {*least, *position} if not partial else position:
                stands = position.get(place, 0)
                kept = (least[place].before(call.began) if place in least else None) or 0
                reported = (most[place].before(call.ended) if place in most else None) or 0
                if stands < kept:
                    yield f"{group} stands at {stands} in {place} for {call.client}, but {kept} was answered"
                if stands > reported:
                    yield f"{group} stands at {stands} in {place} for {call.client}, but {reported} was reported"


def group_owners(facts: Facts) -> Iterator[str]:
    """One reader owns a segment: whoever lost it to another one is refused. Epochs of a group rise."""
    timeouts = group_timeouts(facts)
    for group, calls in facts.group_calls.items():
        known = Greatest(
            (each.call.ended, each.told_epoch)
            for each in calls
            if each.what == "register" and each.told_epoch is not None
        )
        sent: dict[tuple[str, str], float] = {}  # by reader and name of registration: sent again, it keeps its epoch
        for each in calls:
            if each.registration is not None and each.effect.possible:
                place = each.reader, each.registration
                sent[place] = min(each.call.began, sent.get(place, each.call.began))
        for each in calls:
            before = known.before(sent.get((each.reader, each.registration or ""), each.call.began))
            if each.what != "register" or each.told_epoch is None or before is None:
                continue
            if each.told_epoch <= before:
                yield f"{each.reader} of {group} got epoch {each.told_epoch} after {before} had been given out"
        for report in calls:
            if report.what == "report":
                yield from _still_owned(facts, group, report, calls, timeouts.get(group))


def _still_owned(
    facts: Facts, group: str, report: GroupCall, calls: Sequence[GroupCall], timeout_ms: int | None
) -> Iterator[str]:
    """Whether somebody took a segment after the reporter had it, and still had it as the reporter was told it has."""
    for place in report.positions:
        if report.owned is None or place not in report.owned:
            continue
        own = [each for each in calls if each.reader == report.reader and each.call.ended < report.call.began]
        held = max((each for each in own if each.owned is not None), key=lambda each: each.call.ended, default=None)
        if held is None or held.owned is None or place not in held.owned or held.told_epoch != report.told_epoch:
            continue
        for taken in calls:
            if (
                taken.reader != report.reader
                and taken.owned is not None
                and place in taken.owned
                and held.call.ended < taken.call.began
                and taken.call.ended < report.call.began
                and not _may_have_lost(facts, taken, calls, report.call.ended, timeout_ms)
            ):
                yield f"{report.reader} of {group} reported {place} as its own after {taken.reader} had taken it"
                break


def _may_have_lost(
    facts: Facts, owner: GroupCall, calls: Sequence[GroupCall], until: float, timeout_ms: int | None
) -> bool:
    """Whether a reader may have given up what it owned, or lost it by silence, before a moment."""
    gave_up = any(
        each.reader == owner.reader
        and each.what in ("release", "register", "offline")
        and each.effect.possible
        and owner.call.began < each.call.ended
        and each.call.began < until
        for each in calls
    )
    silent_s = silence_s(facts, owner.call.began, until)
    return gave_up or (timeout_ms is not None and silent_s * 1000 >= timeout_ms)


def group_timeouts(facts: Facts) -> Mapping[str, int | None]:
    """By group, after how much silence a reader of it loses its segments."""
    return {
        call.path.strip("/").split("/")[2]: call.body.get("reader_timeout_ms", READER_TIMEOUT_DEFAULT_MS)
        for call in facts.calls
        if call.method == "PUT" and call.path.startswith("/v1/reader-groups/") and call.path.count("/") == 3
    }


def group_refusals(facts: Facts) -> Iterator[str]:
    """A reader of a group is refused only where it registered again, or was silent for the group's timeout."""
    timeouts = group_timeouts(facts)
    for group, calls in facts.group_calls.items():
        for each in calls:
            problem = problem_of(each.call)
            if problem is None or problem.get("status", 500) >= 500:
                continue
            known = problem.get("code") in ("fenced", "unknown_reader", "position_went_back")
            if known and _reader_may_be_refused(facts, each, calls, timeouts.get(group)):
                continue
            yield f"{each.reader} of {group}: {each.what} {dict(each.positions)} was refused: {dict(problem)}"


def _reader_may_be_refused(
    facts: Facts, refused: GroupCall, calls: Sequence[GroupCall], timeout_ms: int | None
) -> bool:
    own = [each for each in calls if each.reader == refused.reader and each is not refused]
    if any(
        each.what == "release" and each.effect is Effect.MAYBE and each.call.began < refused.call.began
        for each in own
        if set(each.positions) & set(refused.positions)
    ):
        return True  # a release whose answer was lost was carried out, and somebody else has the segment by now
    if facts.lost and any(
        each.what == "acquire" and each.effect is Effect.MAYBE and each.call.began < refused.call.began for each in own
    ):
        return True  # the store lost what it had acquired, and somebody else has the segment by now
    if any(
        each.what in ("register", "offline")
        and each.effect.possible
        and each.call.began < refused.call.ended
        and (each.told_epoch is None or refused.epoch is None or each.told_epoch > refused.epoch)
        for each in own
    ):
        return True
    heard = [each.call.began for each in own if each.effect is Effect.DONE and each.call.ended < refused.call.began]
    if timeout_ms is None or not heard:
        return False
    # It may have lost its segments in any silence of this epoch, and heard of it only now.
    moments = [*sorted(heard), refused.call.ended]
    return any(silence_s(facts, earlier, later) * 1000 >= timeout_ms for earlier, later in pairwise(moments))


def deliveries(facts: Facts) -> Iterator[str]:
    """A reader of events hands out everything that its group has passed, and nothing older than its watermarks."""
    first: dict[tuple[str, str, int], float] = {}
    for items in facts.delivered.values():
        for item in items:
            if isinstance(item, Delivered):
                place = item.stream, item.segment, item.offset
                first[place] = min(first.get(place, NEVER), item.at)
    for reader, items in facts.delivered.items():
        reached = -NEVER
        for item in items:
            if isinstance(item, Watermark):
                if item.time <= reached:
                    yield f"{reader} was given the watermark {item.time} after {reached}"
                reached = max(reached, item.time)
                continue
            again = first[item.stream, item.segment, item.offset] < item.at
            who = f"{reader} was given {item.segment}:{item.offset} of {item.stream} by {item.writer}"
            if item.time < reached and not item.late:
                yield f"{who} with the time {item.time} after the watermark {reached}"
            if item.late and not again and _nobody_lost(facts, item.stream):
                yield f"{who} as late, but nobody was left out there"
    for group, looks in facts.group_statuses.items():
        finals = [look for look in looks if look.call.client == JUDGE]
        for (stream, segment), offset in finals[-1].position.items() if finals and facts.delivered else ():
            events = islice(facts.events[stream, segment], offset)
            lost = [event.offset for event in events if (stream, segment, event.offset) not in first]
            if lost and any(item.stream == stream for item in _all_delivered(facts)):
                yield f"{group} has passed {segment}:{lost[:5]} of {stream}, which no reader was given"


def _all_delivered(facts: Facts) -> Iterator[Delivered]:
    for items in facts.delivered.values():
        yield from (item for item in items if isinstance(item, Delivered))


def _nobody_lost(facts: Facts, stream: str) -> bool:
    described = facts.streams.get(stream)
    return described is not None and described.timeout_ms is None


# -- clients, and the end ----------------------------------------------------------------------------------------


def clients(facts: Facts) -> Iterator[str]:
    """Our own clients tell their programs of no trouble that a faithful program did not cause."""
    for said in facts.said:
        registered = facts.registrations[said.stream, said.client]
        if said.code == "fenced" and any(each.effect is Effect.MAYBE for each in registered):
            continue  # a registration of its own whose answer was lost may have come in late
        yield f"{said.client}@{said.stream} {said.kind}: {said.code}, {said.detail}"


def progress(facts: Facts) -> Iterator[str]:
    """Once all faults are over, everything moves on."""
    if facts.ended is not None:
        yield from facts.ended.stuck


def caches(facts: Facts) -> Iterator[str]:
    """What each of several controllers has of a writer when all is over is what the store has."""
    stored = {stream: _standing(entries) for call, stream, entries in facts.listings if call.client == JUDGE}
    for call, stream, entries in facts.listings:
        if call.client.startswith(CACHE) and stream in stored:
            shown = _standing(entries)
            for writer in sorted(stored[stream].keys() | shown.keys()):
                kept, of_store = shown.get(writer), stored[stream].get(writer)
                if kept != of_store:
                    yield f"{call.client} has {kept} of {writer}@{stream}, but the store has {of_store}"


def _standing(entries: Sequence[Json]) -> dict[str, object]:
    """What time alone does not change, by writer."""
    return {entry["writer"]: (entry["times"], entry["position"], entry.get("epoch")) for entry in entries}


RULES: Final[Mapping[str, Rule]] = {
    rule.__name__: rule
    for rule in (
        answers,
        clock,
        refusals,
        epochs,
        durable_notes,
        floors,
        late_notes,
        nothing_changed,
        origin_of_marks,
        marks_agree,
        pages,
        truth_of_marks,
        truth_of_ingestion,
        upper,
        newest,
        excluded,
        windows,
        windows_never_back,
        group_positions,
        group_owners,
        group_refusals,
        deliveries,
        clients,
        progress,
        caches,
    )
}
