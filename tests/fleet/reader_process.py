"""One reader of a group, in a process of its own: writes a line for each item before it asks for the next.

python reader_process.py CONTROLLER GROUP NAME STREAM LOG OUTPUT

1234 E segment offset time     an event was handed out, at so many ns of the clock that all processes share
1235 W watermark               a watermark item
1236 L lower                   the lower bound of the group's window changed
1237 END fenced                the streams have ended; how often it was fenced
"""

from __future__ import annotations

import os
import sys
import time

from reader_client import EventItem, EventReader
from strandline.logs.sqlite_reader import SqliteLogReader


def main(controller: str, group: str, name: str, stream: str, log: str, output: str) -> None:
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def tell(*words: object) -> None:
        os.write(file, f"{time.monotonic_ns()} {' '.join(map(str, words))}\n".encode())

    lower = None
    logs = {stream: SqliteLogReader(log)}
    with EventReader(controller, group, name, logs, time_domain="event", report_ms=30) as reader:
        for item in reader:
            if isinstance(item, EventItem):
                event = item.event
                tell("E", event.segment, event.offset, int(event.value or b""))
            else:
                tell("W", item.watermark)
            now = reader.window.watermarks.get("") if reader.window is not None else None
            if now is not None and now != lower:
                tell("L", now)
            lower = now
        tell("END", reader.fenced)


if __name__ == "__main__":
    main(*sys.argv[1:])
