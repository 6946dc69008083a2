"""How a stream behaves: its time domain and the settings that `design.md` names."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum

from strandline.checks import check_whole
from strandline.errors import InvalidConfig
from strandline.limits import (
    FORGET_AFTER_DEFAULT_MS,
    IDLE_LAG_DEFAULT_MS,
    MARK_INTERVAL_DEFAULT_MS,
    MAX_AHEAD_DEFAULT_MS,
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
    """The settings of a stream. A value that makes no sense is an InvalidConfig that names it."""

    time_domain: TimeDomain = TimeDomain.EVENT
    writer_timeout_ms: int | None = WRITER_TIMEOUT_DEFAULT_MS
    min_writers: int = 1
    mark_interval_ms: int | None = MARK_INTERVAL_DEFAULT_MS
    late_writers: LateWriters = LateWriters.HOLD
    max_ahead_ms: int | None = MAX_AHEAD_DEFAULT_MS
    idle_lag_ms: int = IDLE_LAG_DEFAULT_MS
    clock_skew_ms: int = 0
    forget_after_ms: int = FORGET_AFTER_DEFAULT_MS
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
