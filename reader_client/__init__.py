"""Readers: read events with watermarks in between, and get the time window of a position.

    with EventReader("http://127.0.0.1:8433", "billing", "reader-1", {"orders": log}, time_domain="event") as reader:
        for item in reader:
            if item.is_watermark:
                item.watermark              # no older event follows
            else:
                item.event.value

    with TimeWindows("http://127.0.0.1:8433", "orders", cached=True) as windows:
        window = windows.get_time_window({"0": 120, "1": 80})
        window.lower                        # all older events have been read

For asyncio there are the same classes with `Async` before their names.
"""

from reader_client.async_map import map_async as map_async
from reader_client.async_work import Completed as Completed
from reader_client.backlog import GroupBacklog as GroupBacklog
from reader_client.backlog import remaining_offsets as remaining_offsets
from reader_client.errors import ReaderClosed as ReaderClosed
from reader_client.errors import StateOfAnotherGroup as StateOfAnotherGroup
from reader_client.event_windows import Closed as Closed
from reader_client.event_windows import EventWindows as EventWindows
from reader_client.event_windows import Session as Session
from reader_client.event_windows import Sliding as Sliding
from reader_client.event_windows import Tumbling as Tumbling
from reader_client.events import AsyncEventReader as AsyncEventReader
from reader_client.events import EventReader as EventReader
from reader_client.events import ReaderOptions as ReaderOptions
from reader_client.groups import AsyncGroupReader as AsyncGroupReader
from reader_client.groups import AsyncReaderGroup as AsyncReaderGroup
from reader_client.groups import GroupReader as GroupReader
from reader_client.groups import ReaderGroup as ReaderGroup
from reader_client.items import EventItem as EventItem
from reader_client.items import IdleItem as IdleItem
from reader_client.items import ReaderState as ReaderState
from reader_client.items import WatermarkItem as WatermarkItem
from reader_client.mark_follower import Following as Following
from reader_client.windows import AsyncTimeWindows as AsyncTimeWindows
from reader_client.windows import PositionAt as PositionAt
from reader_client.windows import TimeWindows as TimeWindows
from strandline import extras
from strandline.client.http import AsyncConnection as AsyncConnection
from strandline.client.http import Connection as Connection
from strandline.client.retry import Patience as Patience
from strandline.core.coalesce import Coalescer as Coalescer
from strandline.core.coalesce import Idle as Idle
from strandline.core.coalesce import Join as Join
from strandline.core.coalesce import Watermark as Watermark
from strandline.core.window import TimeWindow as TimeWindow
from strandline.version import __version__ as __version__
from strandline.wire.groups import FromHead as FromHead
from strandline.wire.groups import FromPositions as FromPositions
from strandline.wire.groups import FromTime as FromTime
from strandline.wire.groups import GroupWindow as GroupWindow
from strandline.wire.groups import StreamWindow as StreamWindow
from strandline.wire.streams import MarksAt as MarksAt
from strandline.wire.streams import MarksPage as MarksPage
from strandline.wire.streams import TimeIndexPage as TimeIndexPage
from strandline.wire.streams import WireMark as WireMark

extras.export(vars())
