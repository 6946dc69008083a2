"""The bodies that callers send. Booleans and floats are no whole numbers here, and unknown fields are refused."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from strandline.core.coalesce import OnAllIdle
from strandline.core.config import SETTINGS, Setting
from strandline.limits import (
    READER_TIMEOUT_DEFAULT_MS,
    SEGMENTS_PER_STREAM,
    TIME_BOUND_MS,
)
from strandline.wire.groups import StartShape

Offsets: TypeAlias = dict[str, int]


class Strict(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A body with nothing in it that we do not know."""


class NoteBody(Strict, frozen=True):
    """A note, or, with `notes`, many of them: which fields belong together is checked by hand."""

    writer: str | UnsetType = UNSET
    position: Offsets | UnsetType = UNSET
    time: int | UnsetType = UNSET
    times: dict[str, int] | UnsetType = UNSET
    epoch: int | UnsetType | None = UNSET
    newest: int | dict[str, int] | UnsetType | None = UNSET
    stream: str | UnsetType = UNSET
    notes: list[NoteBody] | UnsetType = UNSET


class RawNotesBody(Strict, frozen=True):
    """Many notes of which at least one is badly made: each is then looked at by itself."""

    notes: list[msgspec.Raw]


class TailBody(Strict, frozen=True):
    reporter: str
    time: int
    position: Offsets
    epoch: int | None = None


class SegmentBody(Strict, frozen=True):
    id: str
    low: float | None = None
    high: float | None = None
    predecessors: list[str] | None = None


_WHOLE = {"type": "integer", "minimum": 0, "exclusiveMaximum": TIME_BOUND_MS}
OnAllIdleChoice: TypeAlias = Annotated[Any, Meta(extra_json_schema={"enum": list(OnAllIdle)})]
_FIRST_SEGMENTS = [
    {"type": "integer", "minimum": 1, "maximum": SEGMENTS_PER_STREAM},
    {"const": "open"},
    {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/SegmentBody"}},
]
FirstSegments: TypeAlias = Annotated[Any, Meta(extra_json_schema={"oneOf": _FIRST_SEGMENTS})]


def settings_body(name: str, about: str, settings: Iterable[Setting], base: type[Strict] = Strict) -> type[Strict]:
    """A body with settings. Each is decoded as it stands, and checked by the configuration itself, which says what
    would be right."""
    fields = [(each.name, Annotated[Any, Meta(extra_json_schema=_schema(each))], UNSET) for each in settings]
    made = msgspec.defstruct(
        name, fields, bases=(base,), namespace={"__doc__": about}, module=__name__, frozen=True, kw_only=True
    )
    assert issubclass(made, Strict)
    return made


def _schema(setting: Setting) -> dict[str, Any]:
    """What OpenAPI tells of a setting."""
    if setting.choices is not None:
        return {"enum": [str(choice) for choice in setting.choices]}
    most = setting.says.most
    end = {"exclusiveMaximum": TIME_BOUND_MS} if most is None else {"maximum": most}
    return {"type": ["integer", "null"] if setting.or_null else "integer", "minimum": setting.says.least, **end}


if TYPE_CHECKING:

    class SettingsBody(Strict, frozen=True):
        """Its fields are read by the names of the settings."""

    class _AllSettingsBody(SettingsBody, frozen=True):
        """The same."""

else:
    _CHANGE = [each for each in SETTINGS.values() if not each.says.stays]
    _STAY = [each for each in SETTINGS.values() if each.says.stays]
    SettingsBody = settings_body("SettingsBody", "What `PATCH` may change.", _CHANGE)
    _AllSettingsBody = settings_body("_AllSettingsBody", "All settings.", _STAY, SettingsBody)


class StreamBody(_AllSettingsBody, frozen=True, kw_only=True):
    """A new stream."""

    segments: FirstSegments


class RegisterBody(Strict, frozen=True):
    keys: list[str] = []
    registration: str | None = None


class EvaluateBody(Strict, frozen=True):
    key: str = ""


class WindowBody(Strict, frozen=True):
    position: Offsets
    key: str = ""


class ScaleBody(Strict, frozen=True):
    seal: Offsets
    create: list[SegmentBody] = []


class SealBody(Strict, frozen=True):
    final: Offsets = {}


class TruncateBody(Strict, frozen=True):
    head: Offsets


Positions: TypeAlias = dict[str, Offsets]


MillisecondsOrNull: TypeAlias = Annotated[
    Any, Meta(extra_json_schema={**_WHOLE, "type": ["integer", "null"], "minimum": 1})
]
GroupStart: TypeAlias = Annotated[
    Any, Meta(extra_json_schema={"oneOf": [{"const": "head"}, {"$ref": "#/components/schemas/StartBody"}]})
]


class GroupBody(Strict, frozen=True):
    """A reader group. The comments are what docs/reference/options.md says."""

    # What it reads.
    streams: list[str]
    # How far its watermark may be behind the clock before that is a backlog. It has to exceed the sum of the interval
    # of marks, the time between notes, and `idle_lag_ms`. No watermark at all is a backlog, too. Null: it never is.
    backlog_threshold_ms: MillisecondsOrNull = None
    # A reader that was silent for so long loses its segments, at the positions that it reported last. Null: never.
    reader_timeout_ms: MillisecondsOrNull = READER_TIMEOUT_DEFAULT_MS
    # A stream of which nothing was heard for so long, and of which the group has read everything, is taken for idle and
    # left out of the group's watermark. That is a guess, made only where it is asked for. Null: only what writers said
    # counts.
    idle_timeout_ms: MillisecondsOrNull = None
    # What its watermark does when all its streams are idle: `hold`, it stays, or `jump`, it goes to the greatest bound
    # of any of them. A jump is a guess: what a sleeping stream still has below that time will be late.
    on_all_idle: OnAllIdleChoice = OnAllIdle.HOLD
    # Where it begins: `head`, or `{"time": …}`, or `{"positions": {stream: position}}`.
    start: GroupStart = "head"


class GroupChangesBody(Strict, frozen=True, kw_only=True):
    """What `PATCH` may change of a reader group. `start` is where streams that are added begin."""

    streams: list[str] | UnsetType = UNSET
    backlog_threshold_ms: MillisecondsOrNull = UNSET
    reader_timeout_ms: MillisecondsOrNull = UNSET
    idle_timeout_ms: MillisecondsOrNull = UNSET
    on_all_idle: OnAllIdleChoice = UNSET
    start: GroupStart = UNSET


class StartBody(StartShape, Strict, frozen=True):
    """Where a group starts, one of the two."""


class ReaderBody(Strict, frozen=True):
    positions: Positions = {}
    epoch: int | None = None
    settled: Positions | None = None


class AcquireBody(Strict, frozen=True):
    epoch: int
    max: int


class ReleaseBody(Strict, frozen=True):
    epoch: int
    positions: Positions
    settled: Positions | None = None


class OfflineBody(Strict, frozen=True):
    positions: Positions
