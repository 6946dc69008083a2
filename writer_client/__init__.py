"""Noting time, for those who write to a log.

with Writer("http://127.0.0.1:8433", "orders", "w1", log=log) as writer:
    writer.write([Event(b"…", key=b"customer-7")])
    writer.note_time(1_700_000_000_000)    # every event of mine that is older is written, or will never be
"""

from typing import TYPE_CHECKING

from strandline.protocol.lazy import names_from

if TYPE_CHECKING:
    from logs import Event as Event
    from logs import Log as Log
    from strandline.changes import Registered as Registered
    from strandline.protocol.attempts import Patience as Patience
    from strandline.protocol.transport import AsyncConnection as AsyncConnection
    from strandline.protocol.transport import Connection as Connection
    from strandline.protocol.wire import NoteAnswer as NoteAnswer
    from writer_client.errors import NeverNoted as NeverNoted
    from writer_client.errors import NoLog as NoLog
    from writer_client.errors import WriterClosed as WriterClosed
    from writer_client.writer import AsyncWriter as AsyncWriter
    from writer_client.writer import Writer as Writer

__all__ = [
    "AsyncConnection",
    "AsyncWriter",
    "Connection",
    "Event",
    "Log",
    "NeverNoted",
    "NoLog",
    "NoteAnswer",
    "Patience",
    "Registered",
    "Writer",
    "WriterClosed",
]

if not TYPE_CHECKING:  # a type checker that saw this would let any name pass
    __getattr__ = names_from(
        __name__,
        {
            "AsyncConnection": "strandline.protocol.transport",
            "AsyncWriter": "writer_client.writer",
            "Connection": "strandline.protocol.transport",
            "Event": "logs",
            "Log": "logs",
            "NeverNoted": "writer_client.errors",
            "NoLog": "writer_client.errors",
            "NoteAnswer": "strandline.protocol.wire",
            "Patience": "strandline.protocol.attempts",
            "Registered": "strandline.changes",
            "Writer": "writer_client.writer",
            "WriterClosed": "writer_client.errors",
        },
    )
