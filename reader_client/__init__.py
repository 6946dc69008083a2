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

from typing import TYPE_CHECKING

from strandline.lazy_names import names_from

if TYPE_CHECKING:
    from reader_client.async_map import map_async as map_async
    from reader_client.backlog import GroupBacklog as GroupBacklog
    from reader_client.backlog import remaining_offsets as remaining_offsets
    from reader_client.errors import ReaderClosed as ReaderClosed
    from reader_client.events import AsyncEventReader as AsyncEventReader
    from reader_client.events import EventReader as EventReader
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
    from strandline.client.http import AsyncConnection as AsyncConnection
    from strandline.client.http import Connection as Connection
    from strandline.client.retry import Patience as Patience
    from strandline.core.coalesce import Coalescer as Coalescer
    from strandline.core.coalesce import Idle as Idle
    from strandline.core.coalesce import Join as Join
    from strandline.core.coalesce import Watermark as Watermark
    from strandline.core.event_windows import EventWindows as EventWindows
    from strandline.core.event_windows import Session as Session
    from strandline.core.event_windows import Sliding as Sliding
    from strandline.core.event_windows import Tumbling as Tumbling
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

__all__ = [
    "AsyncConnection",
    "AsyncEventReader",
    "AsyncGroupReader",
    "AsyncReaderGroup",
    "AsyncTimeWindows",
    "Coalescer",
    "Connection",
    "EventItem",
    "EventReader",
    "EventWindows",
    "Following",
    "FromHead",
    "FromPositions",
    "FromTime",
    "GroupBacklog",
    "GroupReader",
    "GroupWindow",
    "Idle",
    "IdleItem",
    "Join",
    "MarksAt",
    "MarksPage",
    "Patience",
    "PositionAt",
    "ReaderClosed",
    "ReaderGroup",
    "ReaderState",
    "Session",
    "Sliding",
    "StreamWindow",
    "TimeIndexPage",
    "TimeWindow",
    "TimeWindows",
    "Tumbling",
    "Watermark",
    "WatermarkItem",
    "WireMark",
    "map_async",
    "remaining_offsets",
]

if not TYPE_CHECKING:  # a type checker that saw this would let any name pass
    __getattr__ = names_from(
        __name__,
        {
            "__version__": "strandline.version",
            "AsyncConnection": "strandline.client.http",
            "AsyncEventReader": "reader_client.events",
            "AsyncGroupReader": "reader_client.groups",
            "AsyncReaderGroup": "reader_client.groups",
            "AsyncTimeWindows": "reader_client.windows",
            "Coalescer": "strandline.core.coalesce",
            "Connection": "strandline.client.http",
            "EventItem": "reader_client.items",
            "EventReader": "reader_client.events",
            "EventWindows": "strandline.core.event_windows",
            "Following": "reader_client.mark_follower",
            "FromHead": "strandline.wire.groups",
            "FromPositions": "strandline.wire.groups",
            "FromTime": "strandline.wire.groups",
            "GroupBacklog": "reader_client.backlog",
            "GroupReader": "reader_client.groups",
            "GroupWindow": "strandline.wire.groups",
            "Idle": "strandline.core.coalesce",
            "IdleItem": "reader_client.items",
            "Join": "strandline.core.coalesce",
            "MarksAt": "strandline.wire.streams",
            "MarksPage": "strandline.wire.streams",
            "Patience": "strandline.client.retry",
            "PositionAt": "reader_client.windows",
            "ReaderClosed": "reader_client.errors",
            "ReaderGroup": "reader_client.groups",
            "ReaderState": "reader_client.items",
            "Session": "strandline.core.event_windows",
            "Sliding": "strandline.core.event_windows",
            "StreamWindow": "strandline.wire.groups",
            "TimeIndexPage": "strandline.wire.streams",
            "TimeWindow": "strandline.core.window",
            "TimeWindows": "reader_client.windows",
            "Tumbling": "strandline.core.event_windows",
            "Watermark": "strandline.core.coalesce",
            "WatermarkItem": "reader_client.items",
            "WireMark": "strandline.wire.streams",
            "map_async": "reader_client.async_map",
            "remaining_offsets": "reader_client.backlog",
        },
    )
