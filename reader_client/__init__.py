"""Reading by time: where a position stands among the marks.

with TimeWindows("http://127.0.0.1:8433", "orders") as windows:
    window = windows.get_time_window({"0": 120, "1": 80})
    window.lower                        # everything older than this has been read
"""

from typing import TYPE_CHECKING

from strandline.protocol.lazy import names_from

if TYPE_CHECKING:
    from reader_client.groups import AsyncGroupReader as AsyncGroupReader
    from reader_client.groups import AsyncReaderGroup as AsyncReaderGroup
    from reader_client.groups import GroupReader as GroupReader
    from reader_client.groups import ReaderGroup as ReaderGroup
    from reader_client.windows import AsyncTimeWindows as AsyncTimeWindows
    from reader_client.windows import TimeWindows as TimeWindows
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
    from strandline.protocol.wire import WireMark as WireMark
    from strandline.window import TimeWindow as TimeWindow

__all__ = [
    "AsyncConnection",
    "AsyncGroupReader",
    "AsyncReaderGroup",
    "AsyncTimeWindows",
    "Connection",
    "FromHead",
    "FromPositions",
    "FromTime",
    "GroupReader",
    "GroupWindow",
    "MarksAt",
    "MarksPage",
    "Patience",
    "ReaderGroup",
    "StreamWindow",
    "TimeWindow",
    "TimeWindows",
    "WireMark",
]

if not TYPE_CHECKING:  # a type checker that saw this would let any name pass
    __getattr__ = names_from(
        __name__,
        {
            "AsyncConnection": "strandline.protocol.transport",
            "AsyncGroupReader": "reader_client.groups",
            "AsyncReaderGroup": "reader_client.groups",
            "AsyncTimeWindows": "reader_client.windows",
            "Connection": "strandline.protocol.transport",
            "FromHead": "strandline.protocol.group_wire",
            "FromPositions": "strandline.protocol.group_wire",
            "FromTime": "strandline.protocol.group_wire",
            "GroupReader": "reader_client.groups",
            "GroupWindow": "strandline.protocol.group_wire",
            "MarksAt": "strandline.protocol.wire",
            "MarksPage": "strandline.protocol.wire",
            "Patience": "strandline.protocol.attempts",
            "ReaderGroup": "reader_client.groups",
            "StreamWindow": "strandline.protocol.group_wire",
            "TimeWindow": "strandline.window",
            "TimeWindows": "reader_client.windows",
            "WireMark": "strandline.protocol.wire",
        },
    )
