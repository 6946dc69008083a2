"""Shapes: typed values that go over the wire, each declared once, and their decoders.

A shape is a `msgspec.Struct`, or a value of the core that is a dataclass with the same fields. Clients decode it, the
controller encodes it, and OpenAPI describes it. Unknown fields in answers are ignored, because a newer controller may
add some. A text is no number, and a fraction is no whole number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from threading import Lock
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from strandline.limits import OFFSET_BOUND, SEGMENTS_PER_STREAM, TIME_BOUND_MS
from strandline.names import NAME

Value = TypeVar("Value")

# Types of fields in many shapes. Descriptions and bounds are OpenAPI's: the core checks them, with errors of its own.
Name: TypeAlias = Annotated[str, Meta(extra_json_schema={"pattern": f"^{NAME.pattern}$"})]
Key: TypeAlias = Annotated[str, Meta(extra_json_schema={"pattern": f"^({NAME.pattern})?$"})]
Time: TypeAlias = Annotated[
    int,
    Meta(
        description="whole milliseconds",
        extra_json_schema={"exclusiveMinimum": -TIME_BOUND_MS, "exclusiveMaximum": TIME_BOUND_MS},
    ),
]
Epoch: TypeAlias = Annotated[int, Meta(extra_json_schema={"minimum": 1, "exclusiveMaximum": TIME_BOUND_MS})]
Offset: TypeAlias = Annotated[int, Meta(extra_json_schema={"minimum": 0, "exclusiveMaximum": OFFSET_BOUND})]
Offsets: TypeAlias = Annotated[
    Mapping[Name, Offset],
    Meta(description="by segment, the next free offset", extra_json_schema={"maxProperties": SEGMENTS_PER_STREAM}),
]
Positions: TypeAlias = Annotated[
    Mapping[Name, Mapping[Name, Offset]], Meta(description="by stream and segment, the offset")
]
ByKey: TypeAlias = Annotated[Mapping[str, int | None], Meta(description="by time key, whole milliseconds or null")]

_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}
_making = Lock()


def decoder_of(kind: type[Value]) -> msgspec.json.Decoder[Value]:
    """The decoder of a type, made once. Any thread may ask for it at any time.

    msgspec analyses a type when its first decoder is made, and the process crashes if two threads do that for one type
    at the same moment. So there is a lock, and no decoder is made elsewhere.
    """
    found = _decoders.get(kind)
    if found is None:
        with _making:
            found = _decoders.get(kind)
            if found is None:
                found = _decoders[kind] = msgspec.json.Decoder(kind)
    return found


def convert(value: object, kind: type[Value]) -> Value:
    """A decoded value, converted to a type. Raises msgspec.ValidationError."""
    decoder_of(kind)  # it analyses the type
    return msgspec.convert(value, kind)


def read(kind: type[Value], body: bytes) -> Value:
    """An answer's body as a value; raises ValueError, which names the field that is wrong."""
    try:
        return decoder_of(kind).decode(body)
    except msgspec.ValidationError as error:
        raise ValueError(f"the answer: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error}) and begins with {body[:80]!r}") from None


def reader_of(kind: type[Value]) -> Callable[[bytes], Value]:
    """`read` for one type."""
    return partial(read, kind)


def _renew() -> None:
    """In a forked child: makes a new lock, because the thread that held the old one does not exist there."""
    global _making
    _making = Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
