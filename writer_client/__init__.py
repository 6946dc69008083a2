"""Writers: append events to a log, and note their time.

    with Writer("http://127.0.0.1:8433", "orders", "w1", log=log) as writer:
        writer.write([Event(b"…", key=b"customer-7")])
        writer.note_time(1_700_000_000_000)    # this writer writes no older event from now on

`BackgroundWriter` does not wait for answers, and `AsyncWriter` is for asyncio.
"""

from strandline import extras
from strandline.client.http import Connection as Connection
from strandline.client.retry import Patience as Patience
from strandline.core.changes import Registered as Registered
from strandline.logs import Event as Event
from strandline.logs import Log as Log
from strandline.logs.errors import TransactionUnderWay as TransactionUnderWay
from strandline.version import __version__ as __version__
from strandline.wire.streams import NoteAnswer as NoteAnswer
from writer_client.automatic_notes import AutomaticTime as AutomaticTime
from writer_client.background_writer import BackgroundWriter as BackgroundWriter
from writer_client.errors import CommittedWithoutNote as CommittedWithoutNote
from writer_client.errors import ManualNote as ManualNote
from writer_client.errors import NewerBelow as NewerBelow
from writer_client.errors import NoLog as NoLog
from writer_client.errors import NotDrained as NotDrained
from writer_client.errors import WriterClosed as WriterClosed
from writer_client.reports import EventsLate as EventsLate
from writer_client.reports import NoteLate as NoteLate
from writer_client.reports import NoteRefused as NoteRefused
from writer_client.reports import NotesMoving as NotesMoving
from writer_client.reports import NotesStuck as NotesStuck
from writer_client.reports import RegisteredLate as RegisteredLate
from writer_client.reports import Report as Report
from writer_client.reports import Status as Status
from writer_client.sender import Background as Background
from writer_client.writer import AsyncWriter as AsyncWriter
from writer_client.writer import Writer as Writer

extras.export(vars())
