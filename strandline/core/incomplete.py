"""Marks that leave writers out: the watermark that a reader may go by then, and when that began and ceased.

A mark is complete, or it names the writers that it leaves out: timed out, excluded by an operator, or skipped.
Everything older than a complete mark is there. Below an incomplete one, events of these writers may still be missing.

    marks passed    10    20    30 without b    40 without b    50
    go_on           10    20    30              40              50      windows closed by 30 and 40 may lack events of b
    wait            10    20    20              20              50      no window closes without b
    fail            10    20    fails           fails           50

The watermark is a function of the marks below a position alone. So a reader that passes many marks at once may skip
all but the last complete one and the last one, and a replay has the watermark that the live run had.

The wait for a writer ends with the first complete mark. That comes when the writer is back and has caught up, closes,
registers again, or is named no longer, `forget_after_ms` after it was lost. The end of a sealed stream ends it as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from strandline.core.time_units import text_of
from strandline.errors import WritersLeftOut

NAMES_SHOWN: Final = 5  # of writers in one line
UNNAMED: Final = "a writer that the mark does not name"


class OnIncomplete(StrEnum):
    """What a reader does when marks leave writers out."""

    GO_ON = "go_on"  # its watermark follows every mark, and the log names who is left out
    WAIT = "wait"  # its watermark stays at the last complete mark
    FAIL = "fail"  # it raises WritersLeftOut


@dataclass(frozen=True, slots=True, kw_only=True)
class Began:
    """Marks leave out these writers from `time` on. What is older than `complete`, the last mark before, is there."""

    writers: tuple[str, ...]
    time: int
    complete: int | None

    def line(self, stream: str, policy: OnIncomplete) -> str:
        """The line for a log."""
        since = "from the beginning" if self.complete is None else f"at {text_of(self.complete)} or later"
        follows = {
            OnIncomplete.GO_ON: f"windows that close now may lack what they wrote {since}",
            OnIncomplete.WAIT: f"the watermark waits for them at the last complete mark ({policy})",
            OnIncomplete.FAIL: f"the reader stops at the last complete mark ({policy})",
        }[policy]
        return f"stream {stream!r}: marks leave out {names(self.writers)} from {text_of(self.time)} on: {follows}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceased:
    """Marks leave out these writers no longer, from `time` on. `complete` is as in `Began`."""

    writers: tuple[str, ...]
    time: int
    complete: int | None

    def line(self, stream: str, policy: OnIncomplete) -> str:
        """The line for a log."""
        since = "the beginning" if self.complete is None else text_of(self.complete)
        line = f"stream {stream!r}: marks leave out {names(self.writers)} no longer, from {text_of(self.time)} on"
        if policy is not OnIncomplete.GO_ON:
            return line
        return f"{line}; windows that closed between {since} and then may lack their events"


Change: TypeAlias = Began | Ceased


class Completeness:
    """Follows the marks that a reader of one stream and key passes."""

    def __init__(self, stream: str, policy: OnIncomplete = OnIncomplete.GO_ON) -> None:
        self._stream, self._policy = stream, policy
        self._last: int | None = None
        self._complete: int | None = None  # the time of the last complete mark
        self._left_out: dict[str, int | None] = {}  # who is left out, and the last mark before that

    @property
    def left_out(self) -> tuple[str, ...]:
        """The writers that the last mark leaves out, in order; UNNAMED where it does not name them."""
        return tuple(sorted(self._left_out))

    @property
    def last(self) -> int | None:
        """The time of the last mark; None before the first."""
        return self._last

    @property
    def there(self) -> dict[str, int | None]:
        """By writer that the last mark leaves out, the time up to which its events are there: the last mark before that
        did not leave it out; None if there was none."""
        return dict(self._left_out)

    @property
    def watermark(self) -> int | None:
        """The time up to which the reader may go; None before the first mark.

        Raises WritersLeftOut under the policy `fail`, while the last mark leaves writers out.
        """
        if self._policy is OnIncomplete.GO_ON or not self._left_out:
            return self._last
        if self._policy is OnIncomplete.FAIL:
            assert self._last is not None
            raise WritersLeftOut(
                stream=self._stream, writers=names(self.left_out), time=self._last, complete=self._complete
            )
        return self._complete

    def pass_mark(self, time: int, excluded: Iterable[str] = (), *, complete: bool | None = None) -> list[Change]:
        """Passes a mark, and returns what began or ceased with it. A mark that is not newer than the last one changes
        nothing. `complete` is given where the names of the writers are not known."""
        if self._last is not None and time <= self._last:
            return []
        now = set(excluded) or (set() if complete in (None, True) else {UNNAMED})
        ceased: dict[int | None, list[str]] = {}
        for name in sorted(self._left_out.keys() - now):
            ceased.setdefault(self._left_out.pop(name), []).append(name)
        changes: list[Change] = [
            Ceased(writers=tuple(writers), time=time, complete=since) for since, writers in ceased.items()
        ]
        if began := tuple(sorted(now - self._left_out.keys())):
            self._left_out |= dict.fromkeys(began, self._last)
            changes.append(Began(writers=began, time=time, complete=self._last))
        self._last = time
        if not now:
            self._complete = time
        return changes

    def lines(self, changes: Iterable[Change]) -> list[str]:
        """The lines for a log that say what began or ceased."""
        return [change.line(self._stream, self._policy) for change in changes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Marks left these writers out: the first one after `since`, and all up to `until`. So a window lacks them if it
    ends after `since`, and not after `until`: the first mark by which it can close leaves them out, and `since`, the
    last mark that did not, is below its end. A reader that passes several marks at once may have more, and never less.

        marks      10    20    30 without b    40 without b    50
        interval   since 20, until 40          windows that end in (20, 40] lack b; one that ends at 45 has all by 50
    """

    since: int | None  # None: no mark before had them
    until: int | None  # None: the last mark leaves them out
    writers: tuple[str, ...]


def intervals(marks: Iterable[tuple[int, Iterable[str]]], *, ended: bool = False) -> list[Interval]:
    """The intervals of marks, in their order: times, and whom they leave out. `ended`: the stream is sealed, so that
    every window closes which ends after the last mark."""
    passed, still_open, closed = Completeness(""), list[Interval](), list[Interval]()
    for time, excluded in marks:
        last = passed.last
        if passed.pass_mark(time, excluded):
            found = passed_on(still_open, last, passed.there)
            closed += [each for each in found if each.until is not None]
            still_open = [each for each in found if each.until is None]
    found = passed_on(still_open, passed.last, {}) if ended else still_open
    return sorted([*closed, *found], key=_order)


def passed_on(found: Iterable[Interval], last: int | None, there: Mapping[str, int | None]) -> list[Interval]:
    """The intervals with one more mark. `there` has whom it leaves out, each with the last mark that did not (as
    `Completeness.there`, and None also where that is not known), and `last` is the mark before."""
    known = list(found)
    before = {writer: each.since for each in known if each.until is None for writer in each.writers}
    now = {writer: before.get(writer) if since is None else since for writer, since in there.items()}
    if now == before:
        return known
    gone = {writer: since for writer, since in before.items() if writer not in now or now[writer] != since}
    closed = [each for each in known if each.until is not None]
    return sorted({*closed, *_by_since(gone, last), *_by_since(now, None)}, key=_order)


def _order(each: Interval) -> tuple[bool, int, bool, int, tuple[str, ...]]:
    return each.since is not None, each.since or 0, each.until is None, each.until or 0, each.writers


def _by_since(writers: Mapping[str, int | None], until: int | None) -> list[Interval]:
    grouped: dict[int | None, list[str]] = {}
    for writer, since in sorted(writers.items()):
        grouped.setdefault(since, []).append(writer)
    return [Interval(since=since, until=until, writers=tuple(each)) for since, each in grouped.items()]


def names(writers: Iterable[str]) -> str:
    """The names of writers as a text, cut after NAMES_SHOWN of them."""
    given = list(writers)
    more = f" and {len(given) - NAMES_SHOWN} others" if len(given) > NAMES_SHOWN else ""
    return ", ".join(given[:NAMES_SHOWN]) + more
