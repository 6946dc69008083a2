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
    from logs.errors import TransactionUnderWay as TransactionUnderWay
    from strandline.changes import Registered as Registered
    from strandline.protocol.attempts import Patience as Patience
    from strandline.protocol.transport import AsyncConnection as AsyncConnection
    from strandline.protocol.transport import Connection as Connection
    from strandline.protocol.wire import NoteAnswer as NoteAnswer
    from writer_client.automatic import AutomaticTime as AutomaticTime
    from writer_client.background import Background as Background
    from writer_client.background_writer import BackgroundWriter as BackgroundWriter
    from writer_client.errors import CommittedWithoutNote as CommittedWithoutNote
    from writer_client.errors import ManualNote as ManualNote
    from writer_client.errors import NeverNoted as NeverNoted
    from writer_client.errors import NewerBelow as NewerBelow
    from writer_client.errors import NoLog as NoLog
    from writer_client.errors import NotDrained as NotDrained
    from writer_client.errors import WriterClosed as WriterClosed
    from writer_client.reports import NoteLate as NoteLate
    from writer_client.reports import NoteRefused as NoteRefused
    from writer_client.reports import NotesMoving as NotesMoving
    from writer_client.reports import NotesStuck as NotesStuck
    from writer_client.reports import Status as Status
    from writer_client.writer import AsyncWriter as AsyncWriter
    from writer_client.writer import Writer as Writer

__all__ = [
    "AsyncConnection",
    "AsyncWriter",
    "AutomaticTime",
    "Background",
    "BackgroundWriter",
    "CommittedWithoutNote",
    "Connection",
    "Event",
    "Log",
    "ManualNote",
    "NeverNoted",
    "NewerBelow",
    "NoLog",
    "NotDrained",
    "NoteAnswer",
    "NoteLate",
    "NoteRefused",
    "NotesMoving",
    "NotesStuck",
    "Patience",
    "Registered",
    "Status",
    "TransactionUnderWay",
    "Writer",
    "WriterClosed",
]

if not TYPE_CHECKING:  # a type checker that saw this would let any name pass
    __getattr__ = names_from(
        __name__,
        {
            "AsyncConnection": "strandline.protocol.transport",
            "AsyncWriter": "writer_client.writer",
            "AutomaticTime": "writer_client.automatic",
            "Background": "writer_client.background",
            "BackgroundWriter": "writer_client.background_writer",
            "CommittedWithoutNote": "writer_client.errors",
            "Connection": "strandline.protocol.transport",
            "Event": "logs",
            "Log": "logs",
            "ManualNote": "writer_client.errors",
            "NeverNoted": "writer_client.errors",
            "NewerBelow": "writer_client.errors",
            "NoLog": "writer_client.errors",
            "NotDrained": "writer_client.errors",
            "NoteAnswer": "strandline.protocol.wire",
            "NoteLate": "writer_client.reports",
            "NoteRefused": "writer_client.reports",
            "NotesMoving": "writer_client.reports",
            "NotesStuck": "writer_client.reports",
            "Patience": "strandline.protocol.attempts",
            "Registered": "strandline.changes",
            "Status": "writer_client.reports",
            "TransactionUnderWay": "logs.errors",
            "Writer": "writer_client.writer",
            "WriterClosed": "writer_client.errors",
        },
    )
