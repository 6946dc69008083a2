"""Domain values as rows and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import Row

from strandline.config import StreamConfig
from strandline.cut import NOTHING, Cut
from strandline.mark import Mark
from strandline.segment import Segment
from strandline.stream import Stream
from strandline.writer import Entry, Phase, Standing, Writer

Values: TypeAlias = dict[str, Any]
AnyRow: TypeAlias = Row[Any]

_encoder = msgspec.json.Encoder()
_offsets = msgspec.json.Decoder(dict[str, int])
_names = msgspec.json.Decoder(list[str])


class StoredStanding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A standing as it is stored. Its history has a table of its own."""

    phase: str
    floor: int | None = None
    time: int | None = None
    newest: int | None = None
    has_noted: bool = False
    lost_at: int | None = None
    told_floor: int | None = None


_standings = msgspec.json.Decoder(dict[str, StoredStanding])


@dataclass(frozen=True, slots=True)
class Origin:
    """How a stream came to be: when, and with which segments (None: open), for a creation that is repeated."""

    created_at: int
    segments: tuple[tuple[str, float, float], ...] | None


def to_json(value: Any) -> str:  # whatever msgspec can encode
    return _encoder.encode(value).decode()


def cut_json(cut: Cut) -> str:
    return to_json(cut.offsets)


def cut_of(text: str) -> Cut:
    offsets = _offsets.decode(text)
    return Cut._trusted(offsets) if offsets else NOTHING


# -- streams -------------------------------------------------------------------------------------------------------


def stream_values(stream: Stream, origin: Origin, owner: str, fence: int) -> Values:
    return {
        "name": stream.name,
        "open": stream.graph.open,
        "config": config_json(stream.config),
        "original": to_json(origin.segments),
        "sealed": stream.sealed,
        "epochs": stream.epochs,
        "head": cut_json(stream.head),
        "clock": stream.clock,
        "created_at": origin.created_at,
        "owner": owner,
        "fence": fence,
    }


def config_json(config: StreamConfig) -> str:
    return to_json({field.name: getattr(config, field.name) for field in fields(config)})


def config_of(text: str) -> StreamConfig:
    return StreamConfig(**msgspec.json.decode(text))


def origin_of(row: AnyRow) -> Origin:
    segments = msgspec.json.decode(row.original, type=tuple[tuple[str, float, float], ...] | None)
    return Origin(created_at=row.created_at, segments=segments)


def segment_values(stream: str, place: int, segment: Segment, noted_at: int | None = None) -> Values:
    return {
        "stream": stream,
        "id": segment.id,
        "place": place,
        "low": segment.low,
        "high": segment.high,
        "predecessors": to_json(segment.predecessors),
        "final_offset": segment.final_offset,
        "created_at": segment.created_at,
        "last_noted_at": noted_at,
    }


def segment_of(row: AnyRow) -> Segment:
    return Segment(
        id=row.id,
        created_at=row.created_at,
        low=row.low,
        high=row.high,
        predecessors=tuple(_names.decode(row.predecessors)),
        final_offset=row.final_offset,
    )


# -- writers -------------------------------------------------------------------------------------------------------


def writer_values(stream: str, writer: Writer, fence: int) -> Values:
    return {
        "stream": stream,
        "name": writer.name,
        "heard_at": writer.heard_at,
        "tail": writer.tail,
        "epoch": writer.epoch,
        "closed": writer.closed,
        "closed_epoch": writer.closed_epoch,
        "excluded_at": writer.excluded_at,
        "noted": to_json(writer.noted),
        "position": cut_json(writer.position),
        "standings": to_json(
            {
                key: StoredStanding(
                    each.phase, each.floor, each.time, each.newest, each.has_noted, each.lost_at, each.told_floor
                )
                for key, each in writer.standings.items()
            }
        ),
        "fence": fence,
    }


def writer_of(row: AnyRow, histories: Mapping[str, list[Entry]]) -> Writer:
    """A writer, with its history by key."""
    standings = {
        key: Standing(
            phase=Phase(stored.phase),
            floor=stored.floor,
            time=stored.time,
            newest=stored.newest,
            has_noted=stored.has_noted,
            lost_at=stored.lost_at,
            told_floor=stored.told_floor,
            history=histories.get(key, []),
        )
        for key, stored in _standings.decode(row.standings).items()
    }
    return Writer(
        name=row.name,
        heard_at=row.heard_at,
        tail=row.tail,
        epoch=row.epoch,
        closed=row.closed,
        closed_epoch=row.closed_epoch,
        excluded_at=row.excluded_at,
        noted=_offsets.decode(row.noted),
        position=cut_of(row.position),
        standings=standings,
    )


def entry_values(stream: str, key: str, writer: str, entry: Entry) -> Values:
    return {
        "stream": stream,
        "key": key,
        "writer": writer,
        "time": entry.time,
        "cut": cut_json(entry.cut),
        "newest": entry.newest,
    }


def entry_of(row: AnyRow) -> Entry:
    return Entry(row.time, cut_of(row.cut), row.newest)


# -- marks ---------------------------------------------------------------------------------------------------------


def mark_values(stream: str, mark: Mark, fence: int) -> Values:
    return {
        "stream": stream,
        "key": mark.key,
        "seq": mark.seq,
        "time": mark.time,
        "upper": mark.upper,
        "cut": cut_json(mark.cut),
        "newest": mark.newest,
        "excluded": to_json(mark.excluded),
        "created_at": mark.created_at,
        "fence": fence,
    }


def mark_of(row: AnyRow) -> Mark:
    return Mark(
        seq=row.seq,
        key=row.key,
        time=row.time,
        upper=row.upper,
        cut=cut_of(row.cut),
        newest=row.newest,
        excluded=tuple(_names.decode(row.excluded)),
        created_at=row.created_at,
    )


def marks_of(rows: Iterable[AnyRow]) -> list[Mark]:
    return [mark_of(row) for row in rows]
