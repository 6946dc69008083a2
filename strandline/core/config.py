"""How a stream behaves: its time domain and its settings."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum

from strandline.core.checks import check_whole
from strandline.errors import InvalidConfig
from strandline.limits import (
    FORGET_AFTER_DEFAULT_MS,
    IDLE_LAG_DEFAULT_MS,
    MARK_INTERVAL_DEFAULT_MS,
    MAX_AHEAD_DEFAULT_MS,
    MAX_WRITERS_DEFAULT,
    STANDINGS_PER_STREAM,
    WRITER_TIMEOUT_DEFAULT_MS,
)


class TimeDomain(StrEnum):
    EVENT = "event"
    INGESTION = "ingestion"


class LateWriters(StrEnum):
    HOLD = "hold"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """The settings of a stream. Raises InvalidConfig for an invalid value, and names it.

    docs/reference/options.md is made from the comments.
    """

    # Where times come from: `event`, the application, as writers note them, or `ingestion`, the controller's clock. It
    # cannot be changed.
    time_domain: TimeDomain = TimeDomain.EVENT
    # Marks leave out a writer that was silent for this long, and name it. Null: time waits for every writer without
    # limit; 0: time waits for no writer.
    writer_timeout_ms: int | None = WRITER_TIMEOUT_DEFAULT_MS
    # The first mark of a time key is made after this many writers have noted in it.
    min_writers: int = 1
    # The least time between two marks. 0: a mark for every advance; null: a mark only on request.
    mark_interval_ms: int | None = MARK_INTERVAL_DEFAULT_MS
    # What happens with a writer whose time is below the last mark: `hold`, time waits until the writer catches up or
    # times out, or `skip`, marks leave it out and name it until it has caught up.
    late_writers: LateWriters = LateWriters.HOLD
    # A time that is further than this ahead of the controller's clock is refused. Null: every time is accepted.
    max_ahead_ms: int | None = MAX_AHEAD_DEFAULT_MS
    # In the ingestion domain, while all reporters are idle: by how much time is behind the controller's clock.
    idle_lag_ms: int = IDLE_LAG_DEFAULT_MS
    # In the ingestion domain: by how much a broker's clock may be behind the controller's. The times of marks are
    # earlier by this.
    clock_skew_ms: int = 0
    # This long after a writer was lost, marks no longer name it, and it may be forgotten. Its last position stays in
    # every cut.
    forget_after_ms: int = FORGET_AFTER_DEFAULT_MS
    # The most writers of a stream; it refuses one more (`too_many`). A closed or lost writer counts until it is
    # forgotten.
    max_writers: int = MAX_WRITERS_DEFAULT
    # Marks older than this are removed, except the newest one and those that a reader group still needs. Null: all
    # marks are kept.
    mark_retention_ms: int | None = None

    def __post_init__(self) -> None:
        _choice(self, "time_domain", TimeDomain)
        _choice(self, "late_writers", LateWriters)
        for name in ("writer_timeout_ms", "mark_interval_ms", "max_ahead_ms", "mark_retention_ms"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), least=0, also=", or null")
        for name in ("idle_lag_ms", "clock_skew_ms", "forget_after_ms"):
            check_whole(name, getattr(self, name), least=0)
        check_whole("min_writers", self.min_writers, least=1)
        check_whole("max_writers", self.max_writers, least=1, most=STANDINGS_PER_STREAM)

    def changed(self, **settings: object) -> StreamConfig:
        """A copy with other settings. Raises InvalidConfig for the time domain, which never changes."""
        known = {field.name for field in fields(self)} - {"time_domain"}
        for name, value in settings.items():
            if name not in known:
                raise InvalidConfig(name=name, value=value, wanted=f"only {', '.join(sorted(known))} can change")
        return replace(self, **settings)  # type: ignore[arg-type]  # the settings are checked when it is built


def _choice(config: StreamConfig, name: str, kind: type[TimeDomain] | type[LateWriters]) -> None:
    value = getattr(config, name)
    try:
        object.__setattr__(config, name, kind(value))
    except ValueError:
        raise InvalidConfig(name=name, value=value, wanted=" or ".join(f'"{choice}"' for choice in kind)) from None
