"""How a stream behaves: its time domain and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import NoneType
from typing import Annotated, Any, Final, NamedTuple, get_args, get_origin, get_type_hints

from strandline.core.checks import check_whole
from strandline.errors import InvalidConfig
from strandline.limits import STANDINGS_PER_STREAM

WRITER_TIMEOUT_DEFAULT_MS: Final = 600_000  # a writer that is silent for this long no longer holds time back
MARK_INTERVAL_DEFAULT_MS: Final = 1_000  # the least time between two marks
MAX_AHEAD_DEFAULT_MS: Final = 300_000  # how far a note may be ahead of the clock
IDLE_LAG_DEFAULT_MS: Final = 10_000  # ingestion domain: how far the time of an idle stream is behind the clock
FORGET_AFTER_DEFAULT_MS: Final = 86_400_000  # how long marks name a lost writer
MAX_WRITERS_DEFAULT: Final = 100_000  # of a stream


class Says(NamedTuple):
    """What a setting's type does not say: its meaning in a line, its least and greatest value, and whether it stays as
    it was when the stream was created."""

    meaning: str
    least: int = 0
    most: int | None = None
    stays: bool = False


class Setting(NamedTuple):
    """A setting as it was declared: a whole number, or one of `choices`; `or_null`: it may be null as well."""

    name: str
    says: Says
    or_null: bool
    choices: type[StrEnum] | None


class TimeDomain(StrEnum):
    EVENT = "event"
    INGESTION = "ingestion"


class LateWriters(StrEnum):
    HOLD = "hold"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """The settings of a stream. Raises InvalidConfig for an invalid value, and names it.

    Each setting is declared here alone: bodies, answers, OpenAPI and the dashboard's form are made from it, and
    docs/reference/options.md from the comments.
    """

    # Where times come from: `event`, the application, as writers note them, or `ingestion`, the controller's clock. It
    # cannot be changed.
    time_domain: Annotated[TimeDomain, Says("what time is, and where it comes from", stays=True)] = TimeDomain.EVENT
    # Marks leave out a writer that was silent for this long, and name it. Null: time waits for every writer without
    # limit; 0: time waits for no writer. Ten minutes outlast a deployment, and the five that Kubernetes leaves a pod on
    # a dead node, or Kafka a silent consumer.
    writer_timeout_ms: Annotated[int | None, Says("a writer silent for so long times out; empty: never")] = (
        WRITER_TIMEOUT_DEFAULT_MS
    )
    # The first mark of a time key is made after this many writers have noted in it.
    min_writers: Annotated[int, Says("no mark before so many have noted", least=1)] = 1
    # The least time between two marks. 0: a mark for every advance; null: a mark only on request.
    mark_interval_ms: Annotated[int | None, Says("at least so long between marks; empty: only on demand")] = (
        MARK_INTERVAL_DEFAULT_MS
    )
    # What happens with a writer whose time is below the last mark: `hold`, time waits until the writer catches up or
    # times out, or `skip`, marks leave it out and name it until it has caught up.
    late_writers: Annotated[LateWriters, Says("what becomes of a writer below the last mark")] = LateWriters.HOLD
    # A time that is further than this ahead of the controller's clock is refused. Null: every time is accepted. In the
    # ingestion domain, where no time counts as later than that clock, a day at least is allowed.
    max_ahead_ms: Annotated[int | None, Says("times further ahead of the clock are refused; empty: no limit")] = (
        MAX_AHEAD_DEFAULT_MS
    )
    # In the ingestion domain, while all reporters are idle: by how much time is behind the controller's clock.
    idle_lag_ms: Annotated[int, Says("how far behind the clock a stream at rest follows")] = IDLE_LAG_DEFAULT_MS
    # In the ingestion domain: by how much a broker's clock may be behind the controller's. The times of marks are
    # earlier by this.
    clock_skew_ms: Annotated[int, Says("taken off reported times, for brokers that keep their own clock")] = 0
    # This long after a writer was lost, marks no longer name it, and it may be forgotten. Its last position stays in
    # every cut.
    forget_after_ms: Annotated[int, Says("how long marks go on naming a lost writer, before it may be forgotten")] = (
        FORGET_AFTER_DEFAULT_MS
    )
    # The most writers of a stream; it refuses one more (`too_many`). A closed or lost writer counts until it is
    # forgotten.
    max_writers: Annotated[
        int,
        Says("one writer more is refused; closed ones count until forgotten", least=1, most=STANDINGS_PER_STREAM),
    ] = MAX_WRITERS_DEFAULT
    # Marks older than this are removed, except the newest one and those that a reader group still needs. Null: all
    # marks are kept.
    mark_retention_ms: Annotated[int | None, Says("marks are kept so long; empty: all above the head")] = None

    def __post_init__(self) -> None:
        for setting in SETTINGS.values():
            object.__setattr__(self, setting.name, checked(setting, getattr(self, setting.name)))

    def changed(self, **settings: object) -> StreamConfig:
        """A copy with other settings. Raises InvalidConfig for the time domain, which never changes."""
        known = {setting.name for setting in SETTINGS.values() if not setting.says.stays}
        for name, value in settings.items():
            if name not in known:
                raise InvalidConfig(name=name, value=value, wanted=f"only {', '.join(sorted(known))} can change")
        return replace(self, **settings)  # type: ignore[arg-type]  # the settings are checked when it is built


def checked(setting: Setting, value: Any) -> Any:
    """The value of a setting, a choice as its enum. Raises InvalidConfig for a value that the setting cannot have."""
    if setting.choices is not None:
        return _choice(setting.name, value, setting.choices)
    if value is not None or not setting.or_null:
        also = ", or null" if setting.or_null else ""
        check_whole(setting.name, value, least=setting.says.least, most=setting.says.most, also=also)
    return value


def _choice(name: str, value: Any, kind: type[StrEnum]) -> StrEnum:
    try:
        return kind(value)
    except ValueError:
        raise InvalidConfig(name=name, value=value, wanted=" or ".join(f'"{choice}"' for choice in kind)) from None


def settings_of(kind: type[Any]) -> Mapping[str, Setting]:
    """The settings that a class declares, in its order: each field with an `Annotated` type and what it `Says`."""
    found = {}
    hints = get_type_hints(kind, include_extras=True)
    for name in [name for name, hint in hints.items() if get_origin(hint) is Annotated]:
        of, says = get_args(hints[name])
        choices = of if isinstance(of, type) and issubclass(of, StrEnum) else None
        found[name] = Setting(name, says, or_null=NoneType in get_args(of), choices=choices)
    return found


SETTINGS: Final = settings_of(StreamConfig)
