"""Domain values as rows and back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec
from sqlalchemy import Row, Select, Table, bindparam, select
from sqlalchemy.types import TypeEngine

from strandline.core.aggregate import Remainder
from strandline.core.config import StreamConfig
from strandline.core.cut import NOTHING, Cut
from strandline.core.mark import Mark
from strandline.core.segment import Segment
from strandline.core.stream import Stream

CONFIGS_REMEMBERED: Final = 1_024  # settings of streams as the store has them; others are read and checked again

Values: TypeAlias = dict[str, Any]
AnyRow: TypeAlias = Row[Any]
Columns: TypeAlias = Mapping[str, TypeEngine[Any]]
Query: TypeAlias = tuple[Select[Any], Mapping[str, str]]  # with its parameters


def _plain(value: object) -> dict[str, int]:
    if isinstance(value, Cut):
        return value.offsets
    raise NotImplementedError(f"cannot be stored as JSON: {value!r}")


def _made(kind: type, plain: dict[str, int]) -> Cut:
    assert kind is Cut
    return Cut(plain) if plain else NOTHING


_encoder = msgspec.json.Encoder(enc_hook=_plain)
_numbers = msgspec.json.Decoder(dict[str, int])
_remainders = msgspec.json.Decoder(dict[str, Remainder], dec_hook=_made)
_names = msgspec.json.Decoder(list[str])
_original: Final = msgspec.json.Decoder[tuple[tuple[str, float, float], ...] | None](
    tuple[tuple[str, float, float], ...] | None
)


@dataclass(frozen=True, slots=True)
class StreamOrigin:
    """When a stream was created, and with which segments (None: open). A repeated creation is compared with it.

    No other stream has its `identity`, not even one that is created under its name after it was deleted.
    """

    identity: str
    created_at: int
    segments: tuple[tuple[str, float, float], ...] | None


def rows_of(table: Table) -> Select[Any]:
    """Selects the rows of the stream that the parameter `stream` names."""
    return select(table).where(table.c.stream == bindparam("stream"))


def to_json(value: Any) -> str:  # anything that msgspec can encode
    return _encoder.encode(value).decode()


def cut_json(cut: Cut) -> str:
    return to_json(cut.offsets)


def numbers_of(text: str) -> dict[str, int]:
    """Offsets by segment, or times by key."""
    return _numbers.decode(text)


def names_of(text: str) -> list[str]:
    return _names.decode(text)


def cut_of(text: str) -> Cut:
    offsets = numbers_of(text)
    return Cut(offsets) if offsets else NOTHING


# -- streams -------------------------------------------------------------------------------------------------------


def stream_values(stream: Stream, origin: StreamOrigin) -> Values:
    return {
        "name": stream.name,
        "open": stream.graph.open,
        "config": config_json(stream.config),
        "original": to_json(origin.segments),
        "sealed": stream.sealed,
        "epochs": stream.epochs,
        "head": cut_json(stream.head),
        "remainders": to_json(stream.remainders),
        "passed": to_json(stream.passed),
        "created_at": origin.created_at,
    }


def config_json(config: StreamConfig) -> str:
    return to_json({field.name: getattr(config, field.name) for field in fields(config)})


@lru_cache(maxsize=CONFIGS_REMEMBERED)  # most streams have the same few
def config_of(text: str) -> StreamConfig:
    return StreamConfig(**msgspec.json.decode(text))


def remainders_of(text: str) -> dict[str, Remainder]:
    """What forgotten writers left behind, by key."""
    return _remainders.decode(text)


def original_of(text: str) -> tuple[tuple[str, float, float], ...] | None:
    """The segments with which a stream was created."""
    segments: tuple[tuple[str, float, float], ...] | None = _original.decode(text)
    return segments


def segment_values(stream: str, place: int, segment: Segment, noted_at: int | None) -> Values:
    return {
        "stream": stream,
        "id": segment.id,
        "place": place,
        "low": None if segment.low is None else float(segment.low),  # so that it loads as the same value
        "high": None if segment.high is None else float(segment.high),
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
        predecessors=tuple(names_of(row.predecessors)),
        final_offset=row.final_offset,
    )


# -- marks ---------------------------------------------------------------------------------------------------------


def mark_values(stream: str, mark: Mark, excluded_since: int | None) -> Values:
    return {
        "stream": stream,
        "key": mark.key,
        "seq": mark.seq,
        "time": mark.time,
        "upper": mark.upper,
        "cut": cut_json(mark.cut),
        "newest": mark.newest,
        "excluded_since": excluded_since,
        "created_at": mark.created_at,
    }


def excluded_values(stream: str, mark: Mark) -> Values:
    """For this mark, and for those after it that leave out the same writers."""
    return {"stream": stream, "key": mark.key, "seq": mark.seq, "writers": to_json(mark.excluded)}


def mark_of(row: AnyRow) -> Mark:
    """A mark, as if it left nobody out: `StoredMarks` adds whom it does."""
    return Mark(
        seq=row.seq,
        key=row.key,
        time=row.time,
        upper=row.upper,
        cut=cut_of(row.cut),
        newest=row.newest,
        excluded=(),
        created_at=row.created_at,
    )


def by_stream(rows: Iterable[AnyRow], column: str) -> Mapping[str, list[AnyRow]]:
    """Rows by their stream, which a column has."""
    found = defaultdict[str, list[AnyRow]](list)
    for row in rows:
        found[getattr(row, column)].append(row)
    return found
