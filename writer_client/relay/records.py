"""What a record of a topic of notes says: a JSON object, from any client of Kafka.

{"stream": "orders", "writer": "till-7", "time": 1767268800000}     nothing of mine that is older is still to come
{"stream": "orders", "writer": "till-7", "times": {"ship": 5}}      the same by time key
{"stream": "orders", "writer": "till-7", "idle": true}              leave me out until I note again
{"stream": "orders", "writer": "till-7", "close": true}             I am done
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from strandline.core.note import DEFAULT_KEY, Note
from strandline.errors import StrandlineError
from strandline.names import check_name
from writer_client.relay.lines import shown

SHOWN_CHARACTERS: Final = 120  # of a record that is none, and of what is wrong with it


class Leaving(StrEnum):
    """How a writer leaves with a record."""

    IDLE = "idle"
    CLOSE = "close"


class Said(NamedTuple):
    """What a record says of a writer."""

    stream: str
    writer: str
    times: Mapping[str, int]
    leaving: Leaving | None


class NotANote(Exception):
    """A record says nothing that can be relayed, and why."""


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    stream: str
    writer: str
    time: int | None = None
    times: dict[str, int] | None = None
    idle: bool = False
    close: bool = False


_decoder: Final = msgspec.json.Decoder(_Record)


def read_record(value: bytes | None) -> Said:
    """What a record's value says. Raises NotANote."""
    if value is None:
        raise NotANote("it has no value")
    try:
        found = _decoder.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotANote(f"{shown(value[:SHOWN_CHARACTERS])}: {shown(error, SHOWN_CHARACTERS)}") from None
    if found.time is not None and found.times is not None:
        raise NotANote("it has a time and times: one of them")
    if found.idle and found.close:
        raise NotANote("it is idle and close: one of them")
    leaving = Leaving.CLOSE if found.close else Leaving.IDLE if found.idle else None
    times = found.times if found.times is not None else {} if found.time is None else {DEFAULT_KEY: found.time}
    if not times and leaving is None:
        raise NotANote('it has neither "time" nor "times", "idle" or "close"')
    try:
        check_name("stream", found.stream)
        Note(writer=found.writer, times=times, position={})
    except StrandlineError as error:
        raise NotANote(shown(error)) from None
    return Said(found.stream, found.writer, times, leaving)
