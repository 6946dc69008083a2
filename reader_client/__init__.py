"""Reading by time: events with watermarks between them, and where a position stands among the marks.

with EventReader("http://127.0.0.1:8433", "billing", "reader-1", {"orders": log}, time_domain="event") as reader:
    for item in reader:
        if item.is_watermark:
            item.watermark              # nothing older than this follows
        else:
            item.event.value

with TimeWindows("http://127.0.0.1:8433", "orders", cached=True) as windows:
    window = windows.get_time_window({"0": 120, "1": 80})
    window.lower                        # everything older than this has been read
"""

from typing import TYPE_CHECKING

from strandline.protocol.lazy import names_from

if TYPE_CHECKING:
    from reader_client.backlog import GroupBacklog as GroupBacklog
    from reader_client.backlog import remaining_offsets as remaining_offsets
    from reader_client.errors import ReaderClosed as ReaderClosed
    from reader_client.events import AsyncEventReader as AsyncEventReader
    from reader_client.events import EventReader as EventReader
    from reader_client.following import Following as Following
    from reader_client.groups import AsyncGroupReader as AsyncGroupReader
    from reader_client.groups import AsyncReaderGroup as AsyncReaderGroup
    from reader_client.groups import GroupReader as GroupReader
    from reader_client.groups import ReaderGroup as ReaderGroup
    from reader_client.items import EventItem as EventItem
    from reader_client.items import IdleItem as IdleItem
    from reader_client.items import ReaderState as ReaderState
    from reader_client.items import WatermarkItem as WatermarkItem
    from reader_client.mapping import map_async as map_async
    from reader_client.windows import AsyncTimeWindows as AsyncTimeWindows
    from reader_client.windows import PositionAt as PositionAt
    from reader_client.windows import TimeWindows as TimeWindows
    from strandline.coalesce import Coalescer as Coalescer
    from strandline.coalesce import Idle as Idle
    from strandline.coalesce import Join as Join
    from strandline.coalesce import Watermark as Watermark
    from strandline.protocol.attempts import Patience as Patience
    from strandline.protocol.group_wire import FromHead as FromHead
    from strandline.protocol.group_wire import FromPositions as FromPositions
    from strandline.protocol.group_wire import FromTime as FromTime
    from strandline.protocol.group_wire import GroupWindow as GroupWindow
    from strandline.protocol.group_wire import StreamWindow as StreamWindow
    from strandline.protocol.transport import AsyncConnection as AsyncConnection
    from strandline.protocol.transport import Connection as Connection
    from strandline.protocol.wire import MarksAt as MarksAt
    from strandline.protocol.wire import MarksPage as MarksPage
    from strandline.protocol.wire import TimeIndexPage as TimeIndexPage
    from strandline.protocol.wire import WireMark as WireMark
    from strandline.window import TimeWindow as TimeWindow
    from strandline.windowing import EventWindows as EventWindows
    from strandline.windowing import Session as Session
    from strandline.windowing import Sliding as Sliding
    from strandline.windowing import Tumbling as Tumbling

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
            "AsyncConnection": "strandline.protocol.transport",
            "AsyncEventReader": "reader_client.events",
            "AsyncGroupReader": "reader_client.groups",
            "AsyncReaderGroup": "reader_client.groups",
            "AsyncTimeWindows": "reader_client.windows",
            "Coalescer": "strandline.coalesce",
            "Connection": "strandline.protocol.transport",
            "EventItem": "reader_client.items",
            "EventReader": "reader_client.events",
            "EventWindows": "strandline.windowing",
            "Following": "reader_client.following",
            "FromHead": "strandline.protocol.group_wire",
            "FromPositions": "strandline.protocol.group_wire",
            "FromTime": "strandline.protocol.group_wire",
            "GroupBacklog": "reader_client.backlog",
            "GroupReader": "reader_client.groups",
            "GroupWindow": "strandline.protocol.group_wire",
            "Idle": "strandline.coalesce",
            "IdleItem": "reader_client.items",
            "Join": "strandline.coalesce",
            "MarksAt": "strandline.protocol.wire",
            "MarksPage": "strandline.protocol.wire",
            "Patience": "strandline.protocol.attempts",
            "PositionAt": "reader_client.windows",
            "ReaderClosed": "reader_client.errors",
            "ReaderGroup": "reader_client.groups",
            "ReaderState": "reader_client.items",
            "Session": "strandline.windowing",
            "Sliding": "strandline.windowing",
            "StreamWindow": "strandline.protocol.group_wire",
            "TimeIndexPage": "strandline.protocol.wire",
            "TimeWindow": "strandline.window",
            "TimeWindows": "reader_client.windows",
            "Tumbling": "strandline.windowing",
            "Watermark": "strandline.coalesce",
            "WatermarkItem": "reader_client.items",
            "WireMark": "strandline.protocol.wire",
            "map_async": "reader_client.mapping",
            "remaining_offsets": "reader_client.backlog",
        },
    )
