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
    """The settings of a stream. A value that makes no sense is an InvalidConfig that names it.

    The comments are what docs/reference/options.md says.
    """

    # What time is: `event`, the application's, as writers note it, or `ingestion`, the controller's clock. It cannot be
    # changed.
    time_domain: TimeDomain = TimeDomain.EVENT
    # A writer that was silent for so long is left out of the marks, which name it. Null: time waits for ever; 0: nobody
    # is waited for.
    writer_timeout_ms: int | None = WRITER_TIMEOUT_DEFAULT_MS
    # No mark is made before so many writers have noted, in each time key.
    min_writers: int = 1
    # At least so long between two marks. 0: one for every advance; null: only when asked for.
    mark_interval_ms: int | None = MARK_INTERVAL_DEFAULT_MS
    # What becomes of a writer whose time is below the last mark: `hold`, time waits until it catches up or times out,
    # or `skip`, it is left out and named until it has caught up.
    late_writers: LateWriters = LateWriters.HOLD
    # A time that is further ahead of the controller's clock is refused. Null: any time is taken.
    max_ahead_ms: int | None = MAX_AHEAD_DEFAULT_MS
    # In the ingestion domain, when all reporters said that they are idle: how far behind the clock time follows.
    idle_lag_ms: int = IDLE_LAG_DEFAULT_MS
    # In the ingestion domain: by how much a broker's clock may be behind the controller's. Marks are that much earlier.
    clock_skew_ms: int = 0
    # So long after it was lost, a writer is no longer named in marks, and may be forgotten; its last position stays in
    # every cut.
    forget_after_ms: int = FORGET_AFTER_DEFAULT_MS
    # A stream has at most so many writers, and refuses one more (`too_many`). A writer that closed or was lost counts
    # until it is forgotten.
    max_writers: int = MAX_WRITERS_DEFAULT
    # Marks that were made longer ago go, but for the newest one and those that a reader group still needs. Null: they
    # stay.
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
        """The same with other settings; the time domain of a stream never changes."""
        known = {field.name for field in fields(self)} - {"time_domain"}
        for name, value in settings.items():
            if name not in known:
                raise InvalidConfig(name=name, value=value, wanted=f"what can change is {', '.join(sorted(known))}")
        return replace(self, **settings)  # type: ignore[arg-type]  # the settings are checked when it is built


def _choice(config: StreamConfig, name: str, kind: type[TimeDomain] | type[LateWriters]) -> None:
    value = getattr(config, name)
    try:
        object.__setattr__(config, name, kind(value))
    except ValueError:
        raise InvalidConfig(name=name, value=value, wanted=" or ".join(f'"{choice}"' for choice in kind)) from None
