"""Streams as a controller has them, made and loaded without one."""

from __future__ import annotations

from sqlalchemy import Connection

from controller.storage.load import StoredStream, read_stream
from controller.storage.rows import StreamOrigin
from controller.streams.loaded_stream import LoadedStream
from strandline.core.served_time import Unserved
from strandline.core.stream import Stream


def load_stream(connection: Connection, name: str, unserved: Unserved | None = None) -> StoredStream | None:
    """Loads a stream as a controller does."""
    return read_stream(connection, lambda: None, name, unserved if unserved is not None else Unserved())


def loaded(connection: Connection, name: str = "s", unserved: Unserved | None = None) -> LoadedStream:
    """The same, as it is in memory then."""
    stored = load_stream(connection, name, unserved)
    assert stored is not None
    return LoadedStream.loaded(stored, watch=lambda _: None)


def made(stream: Stream, origin: StreamOrigin | None = None) -> LoadedStream:
    """A new stream, as it is in memory before its first commit."""
    origin = origin if origin is not None else StreamOrigin("1", 0, None)
    return LoadedStream(stream, origin, watch=lambda _: None)
