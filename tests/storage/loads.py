"""Loads a stream as a controller does, all steps without a stop."""

from __future__ import annotations

from sqlalchemy import Connection

from controller.storage.load import StoredStream, stream_steps
from strandline.core.served_time import Unserved
from tests.steps import at_once


def load_stream(connection: Connection, name: str, unserved: Unserved | None = None) -> StoredStream | None:
    return at_once(stream_steps(connection, name, unserved if unserved is not None else Unserved()))
