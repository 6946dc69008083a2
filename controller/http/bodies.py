"""The bodies that callers send. Booleans and floats are no whole numbers here, and unknown fields are refused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from strandline.core.config import SETTINGS, Setting
from strandline.core.note import DEFAULT_KEY
from strandline.limits import SEGMENTS_PER_STREAM, STREAMS_PER_GROUP, TIME_BOUND_MS
from strandline.wire.groups import GROUP_SETTINGS, GroupOptions, StartShape, options_by_name
from strandline.wire.shapes import Epoch, Key, Name, Offsets, Positions, Time


class Strict(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """A body without unknown fields."""


class NoteBody(Strict, frozen=True):
    """A note, or, with `notes`, many of them. Code of ours checks which fields belong together."""

    writer: Name | UnsetType = UNSET
    position: Offsets | UnsetType = UNSET
    time: Time | UnsetType = UNSET
    times: dict[Key, Time] | UnsetType = UNSET
    epoch: Epoch | UnsetType | None = UNSET
    newest: Time | dict[Key, Time] | UnsetType | None = UNSET
    stream: Name | UnsetType = UNSET
    notes: list[NoteBody] | UnsetType = UNSET


class RawNotesBody(Strict, frozen=True):
    """Many notes, at least one of which is malformed: each is then decoded by itself."""

    notes: list[msgspec.Raw]


class TailBody(Strict, frozen=True):
    reporter: Name
    time: Time
    position: Offsets
    epoch: Epoch | None = None


class SegmentBody(Strict, frozen=True):
    id: Name
    low: float | None = None
    high: float | None = None
    predecessors: list[Name] | None = None


_FIRST_SEGMENTS = [
    {"type": "integer", "minimum": 1, "maximum": SEGMENTS_PER_STREAM},
    {"const": "open"},
    {"type": "array", "minItems": 1, "items": {"$ref": "#/components/schemas/SegmentBody"}},
]
FirstSegments: TypeAlias = Annotated[Any, Meta(extra_json_schema={"oneOf": _FIRST_SEGMENTS})]


def settings_body(
    name: str,
    about: str,
    settings: Iterable[Setting],
    base: type[Strict] = Strict,
    defaults: Mapping[str, object] = MappingProxyType({}),
) -> type[Strict]:
    """A body with settings. Each setting is decoded as it is, and checked by the configuration itself, whose error says
    what would be right. A setting that the body leaves out is unset, unless `defaults` has it."""
    fields = [
        (each.name, Annotated[Any, Meta(extra_json_schema=_schema(each))], defaults.get(each.name, UNSET))
        for each in settings
    ]
    made = msgspec.defstruct(
        name, fields, bases=(base,), namespace={"__doc__": about}, module=__name__, frozen=True, kw_only=True
    )
    assert issubclass(made, Strict)
    return made


def _schema(setting: Setting) -> dict[str, Any]:
    """What OpenAPI says about a setting."""
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
    keys: list[Key] = []
    registration: Name | None = None


class EvaluateBody(Strict, frozen=True):
    key: Key = DEFAULT_KEY


class WindowBody(Strict, frozen=True):
    position: Offsets
    key: Annotated[Key | UnsetType, Meta(extra_json_schema={"default": DEFAULT_KEY})] = UNSET
    identity: str | UnsetType = UNSET  # of the stream that the position is of


class ScaleBody(Strict, frozen=True):
    seal: Offsets
    create: list[SegmentBody] = []


class SealBody(Strict, frozen=True):
    final: Offsets = {}


class TruncateBody(Strict, frozen=True):
    head: Offsets


Streams: TypeAlias = Annotated[list[Name], Meta(extra_json_schema={"minItems": 1, "maxItems": STREAMS_PER_GROUP})]
GroupStart: TypeAlias = Annotated[
    Any, Meta(extra_json_schema={"oneOf": [{"const": "head"}, {"$ref": "#/components/schemas/StartBody"}]})
]


class _GroupStreams(Strict, frozen=True, kw_only=True):
    streams: Streams


class _ChangedStreams(Strict, frozen=True, kw_only=True):
    streams: Streams | UnsetType = UNSET


if TYPE_CHECKING:

    class _GroupOptions(_GroupStreams, frozen=True):
        """Its fields are read by the names of the settings."""

    class _ChangedOptions(_ChangedStreams, frozen=True):
        """The same."""

else:
    _GroupOptions = settings_body(
        "_GroupOptions",
        "All settings.",
        GROUP_SETTINGS.values(),
        _GroupStreams,
        options_by_name(GroupOptions(streams=())),
    )
    _ChangedOptions = settings_body("_ChangedOptions", "Changes.", GROUP_SETTINGS.values(), _ChangedStreams)


class GroupBody(_GroupOptions, frozen=True, kw_only=True):
    """A new reader group."""

    start: GroupStart = UNSET  # at the head; generated clients in Go do not compile with a default here


class GroupChangesBody(_ChangedOptions, frozen=True, kw_only=True):
    """What `PATCH` may change of a reader group. `start` is where streams that are added begin."""

    start: GroupStart = UNSET


class StartBody(StartShape, Strict, frozen=True):
    """Where a group starts, one of the two."""


class ReaderBody(Strict, frozen=True):
    positions: Positions = {}
    epoch: Epoch | None = None
    settled: Positions | None = None
    registration: Name | None = None


class AcquireBody(Strict, frozen=True):
    epoch: Epoch
    max: Annotated[int, Meta(extra_json_schema={"minimum": 0})]


class ReleaseBody(Strict, frozen=True):
    epoch: Epoch
    positions: Positions
    settled: Positions | None = None


class OfflineBody(Strict, frozen=True):
    positions: Positions
