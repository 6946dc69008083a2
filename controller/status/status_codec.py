"""The status as one controller sends it to another: MessagePack, with the fields of the values themselves.

Controllers of two releases may serve together for a while. An answer of another shape raises NotUnderstood, and counts
as none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec
from msgspec import structs

from controller.slices import Slices
from controller.status.group_members import GroupDetails
from controller.status.parts import StatusPart
from controller.status.stream_status import GroupStatus, KeyStatus, StreamDetails, StreamStatus
from controller.status.writer_status import WriterDetails
from controller.storage.counts import Totals
from strandline.core.cut import NOTHING, Cut
from strandline.core.segment import Segment, SegmentGraph

STATUS_SENT_WRITERS: Final = 2_000  # of each key of one stream, told to another controller, those in trouble first

Details = TypeVar("Details", StreamDetails, WriterDetails, GroupDetails)
Shape = TypeVar("Shape")


class NotUnderstood(Exception):
    """An answer has another shape."""


class _WirePart(msgspec.Struct, frozen=True):
    """A part, each status of which is encoded by itself: there may be thousands, and others have their turn between."""

    streams: Sequence[msgspec.Raw]
    unread: Mapping[str, str]
    groups: Sequence[msgspec.Raw]
    unread_groups: Mapping[str, str]


class _WireGraph(msgspec.Struct, frozen=True):
    open: bool
    segments: Sequence[Segment]


async def encode_part(part: StatusPart, slices: Slices) -> bytes:
    """A part, without what only metrics need, and without the cuts of marks."""
    streams = []
    for stream in part.streams:
        streams.append(msgspec.Raw(_encode(_trimmed(stream))))
        await slices.turn()
    groups = [msgspec.Raw(_encode(each)) for each in part.groups]
    return _encode(_WirePart(streams, part.unread, groups, part.unread_groups))


async def decode_part(body: bytes, slices: Slices) -> StatusPart:
    """Raises NotUnderstood."""
    read = _read(_part, body)
    streams, groups = [], []
    for raw in read.streams:
        streams.append(_read(_stream, raw))
        await slices.turn()
    for raw in read.groups:
        groups.append(_read(_group, raw))
        await slices.turn()
    return StatusPart(streams=streams, unread=read.unread, groups=groups, unread_groups=read.unread_groups)


def encode_details(details: StreamDetails | WriterDetails | GroupDetails) -> bytes:
    """One stream, writer or group; of a stream with very many writers the first ones."""
    if isinstance(details, StreamDetails):
        writers = {key: each[:STATUS_SENT_WRITERS] for key, each in details.writers.items()}
        details = replace(details, stream=_trimmed(details.stream), writers=writers)
    return _encode(details)


def decode_details(kind: type[Details], body: bytes) -> Details:
    """Raises NotUnderstood."""
    details: Details = _read(_details[kind], body)
    return details


def _trimmed(status: StreamStatus) -> StreamStatus:
    keys = tuple([_trimmed_key(key) for key in status.keys])
    worst = next(read for read, key in zip(keys, status.keys, strict=True) if key is status.worst)
    return structs.replace(status, keys=keys, worst=worst, counted_here=Totals())


def _trimmed_key(key: KeyStatus) -> KeyStatus:
    return structs.replace(key, held_ms={}, mark=None if key.mark is None else replace(key.mark, cut=NOTHING))


def _plain(value: Any) -> Any:
    """What MessagePack has no form for, in one that it has."""
    if isinstance(value, Cut):
        return value.offsets
    if isinstance(value, SegmentGraph):
        return _WireGraph(value.open, list(value))
    raise NotImplementedError(type(value))


def _made(kind: type[Any], plain: Any) -> Any:
    if kind is Cut:
        return Cut(plain)
    read = msgspec.convert(plain, _WireGraph)
    return SegmentGraph(read.segments, open=read.open)


def _decoder(kind: type[Shape]) -> msgspec.msgpack.Decoder[Shape]:
    return msgspec.msgpack.Decoder(kind, dec_hook=_made)


def _read(decoder: msgspec.msgpack.Decoder[Shape], body: bytes | msgspec.Raw) -> Shape:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:  # ValueError: of a value that checks itself
        raise NotUnderstood(str(error)) from None


_encode: Final = msgspec.msgpack.Encoder(enc_hook=_plain).encode
_part: Final = _decoder(_WirePart)
_stream: Final = _decoder(StreamStatus)
_group: Final = _decoder(GroupStatus)
_details: Final[Mapping[type[Any], msgspec.msgpack.Decoder[Any]]] = {
    kind: _decoder(kind) for kind in (StreamDetails, WriterDetails, GroupDetails)
}
