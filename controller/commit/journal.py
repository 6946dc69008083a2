"""The journal of a stream or reader group: what happened, written with the commit that made it so.

Nothing here waits or reads: entries collect in memory, and the next commit numbers and writes them. The store keeps the
newest of each topic: the journal never grows, and a broken client cannot push out what an administrator did. Entries
that come too fast are only counted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from controller.operator_log import RateLimit, log_event, request_id
from controller.storage.journal import JOURNAL_BATCH, JournalTable
from controller.storage.save import Commit
from strandline.errors import Refused
from strandline.wire.journal import JournalEntry
from strandline.wire.problems import to_problem

JOURNAL_REFILL_MS: Final = 1_000  # between two entries of a topic that come after a burst; those left out are counted
JOURNAL_NAMES: Final = 16  # names in one entry

JOURNAL_BURST_ENTRIES: Final = 200  # of a topic at once; then one for each JOURNAL_REFILL_MS
JOURNAL_REFUSALS_BURST_ENTRIES: Final = 20  # the same for refusals of one code
JOURNAL_REFUSALS_REFILL_MS: Final = 60_000  # after the burst, between two refusals


class Topic(StrEnum):
    """What an entry is about."""

    REFUSALS = "refusal"
    STATES = "state"
    HELD = "held"
    HOLDING = "holding"  # a span that is not over
    INCOMPLETE = "incomplete"
    AHEAD = "ahead"
    PAUSES = "pause"
    ACTIONS = "action"
    REGISTRATIONS = "registration"


# An entry, and the id of the request that caused it.
WrittenEntry: TypeAlias = tuple[JournalEntry, str | None]
LOGGED_STATES: Final = ("timed_out", "behind")  # the other states follow from calls, which are logged themselves


@dataclass(frozen=True, slots=True)
class AdminAction:
    """An administrator's action. `by` is the name of the token that was used, None without tokens."""

    kind: str
    by: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


class Journal:
    """The entries of one stream or group that are not written yet. `written` is the seq of the newest one in the
    store."""

    __slots__ = ("_paces", "_unwritten", "name", "table", "written")

    def __init__(self, table: JournalTable, name: str, written: int = 0) -> None:
        self.table = table
        self.name = name
        self.written = written
        self._paces: dict[str, RateLimit] = {}
        self._unwritten: list[WrittenEntry] = []  # their seqs count from 1

    @property
    def omitted(self) -> dict[str, int]:
        """How many entries were left out since the last one that was not, by topic; for refusals, by code."""
        return {name: pace.omitted for name, pace in sorted(self._paces.items()) if pace.omitted}

    @property
    def last_seq(self) -> int:
        """The seq of the newest entry, which may not be durable yet."""
        return self.written + len(self._unwritten)

    def act(self, act: AdminAction, now: int) -> None:
        """Adds an administrator's action."""
        self.record(Topic.ACTIONS, act.kind, now, dict(act.details), by=act.by)

    def refuse(self, error: Refused, now: int, *, by: str | None, **more: Any) -> bool:
        """Adds and logs a refused call; False if there were too many: the metrics count all. `by` is the name of the
        caller's token."""
        omitted = self._allow(error.code, now, JOURNAL_REFUSALS_BURST_ENTRIES, JOURNAL_REFUSALS_REFILL_MS)
        if omitted is None:
            return False
        problem = {name: value for name, value in to_problem(error).items() if name not in ("type", "title", "status")}
        details = {**more, **problem}
        self._add(Topic.REFUSALS, "refused", now, details, by, omitted)
        log_event("refused", logging.WARNING, **{self.table.owner: self.name, **details, "by": by})
        return True

    def record(self, topic: Topic, kind: str, at: int, details: dict[str, Any], *, by: str | None = None) -> bool:
        """Adds an entry; False if there were too many of its topic."""
        omitted = self._allow(topic, at, JOURNAL_BURST_ENTRIES, JOURNAL_REFILL_MS)
        if omitted is None:
            return False
        self._add(topic, kind, at, details, by, omitted)
        return True

    def _allow(self, pace: str, at: int, burst: int, refill_ms: int) -> int | None:
        """How many entries were left out before this one; None if this one is left out too."""
        return self._paces.setdefault(pace, RateLimit(burst, refill_ms)).allow(at)

    def _add(self, topic: Topic, kind: str, at: int, details: dict[str, Any], by: str | None, omitted: int) -> None:
        if omitted:
            details = {**details, "omitted": omitted}
        entry = JournalEntry(seq=len(self._unwritten) + 1, at=at, topic=topic, kind=kind, by=by, details=details)
        self._unwritten.append((entry, request_id()))

    def __bool__(self) -> bool:
        """Whether there are entries that are not written yet."""
        return bool(self._unwritten)

    def write(self, commit: Commit) -> list[WrittenEntry]:
        """Adds the entries to a commit; returns them, to be logged once they are durable."""
        if not self._unwritten:
            return []
        written = [(replace(entry, seq=self.written + entry.seq), cause) for entry, cause in self._unwritten]
        before, self.written = self.written, self.last_seq
        self._unwritten = []
        for entry, _ in written:
            commit.add_row(self.table.table, self.table.values(self.name, entry))
        if self.written // JOURNAL_BATCH > before // JOURNAL_BATCH:
            commit.shorten(self.table, self.name, Topic)
        return written

    def log(self, written: list[WrittenEntry]) -> None:
        """Logs entries that are durable."""
        for entry, caused_by in written:
            level, event = logging.INFO, f"{self.table.owner}_{entry.kind}"
            match entry.topic:
                case "refusal" | "registration":
                    continue  # logged when it happened, whether or not the entry became durable
                case "holding" | "pause":
                    continue  # a holder is logged as `time_held`, whether or not anybody notes
                case "state" if self.table.owner == "stream":
                    before, after = entry.details["before"], entry.details["after"]
                    if before not in LOGGED_STATES and after not in LOGGED_STATES:
                        continue
                    level, event = (logging.WARNING if after in LOGGED_STATES else logging.INFO), f"writer_{after}"
                case "held":
                    event = "time_released"
                case "incomplete":
                    level, event = logging.WARNING, f"marks_{entry.kind}"
                case "ahead":
                    level, event = (logging.WARNING if entry.kind == "ahead" else logging.INFO), f"writer_{entry.kind}"
            log_event(
                event, level, **{self.table.owner: self.name, **entry.details, "by": entry.by, "request_id": caused_by}
            )


def few(offsets: Mapping[str, int]) -> dict[str, int]:
    """The first of these offsets by name, as many as an entry has room for."""
    return dict(islice(sorted(offsets.items()), JOURNAL_NAMES))
