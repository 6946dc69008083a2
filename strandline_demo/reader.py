"""The process of the reader: the windows of the stream, each sent once it is closed."""

import json
import sys
import time

from reader_client import EventReader, ReaderGroup, Tumbling
from strandline.logs import StoredEvent
from strandline.logs.sqlite_reader import SqliteLogReader
from strandline_demo.processes import send
from strandline_demo.world import WINDOW_MS

GROUP = "counting"


def time_of(event: StoredEvent) -> int:
    """The event's time, which is in its value."""
    found: int = json.loads(event.value or b"")["time"]
    return found


def read(controller: str, stream: str, path: str) -> None:
    """Sends each window when it closes, and all of them when the stream is sealed and read to its end."""
    with ReaderGroup(controller, GROUP) as group:
        group.create([stream])
    closed = []
    with (
        SqliteLogReader(path) as log,
        EventReader(controller, GROUP, "reader", {stream: log}, time_domain="event", event_time=time_of) as reader,
    ):
        for window in reader.windows(Tumbling(WINDOW_MS), state="windows.state"):
            closed.append({"start": window.start, "events": len(window.events), "at": time.time_ns() // 1_000_000})
            send("window", **closed[-1])
    send("result", windows=closed)


if __name__ == "__main__":
    read(**json.loads(sys.argv[1]))
