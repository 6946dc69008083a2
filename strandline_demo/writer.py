"""The process of one writer: does what the world has for it, at the moments that the world says.

A writer that is held up does the same a little later: what it notes follows from what it has written, never from the
clock, so its notes stay true on a machine that has too much to do.
"""

import json
import sys
import time
from collections.abc import Iterable

from strandline.logs.sqlite import SqliteLog
from strandline_demo.processes import tell
from strandline_demo.world import DemoSettings, PlannedStep, steps
from writer_client import Event, Writer


def take_steps(writer: Writer, todo: Iterable[PlannedStep], start_ms: int) -> None:
    """Takes steps, one after the other, and tells of them."""
    written = skipped = 0
    away = False
    for step in todo:
        time.sleep(max(0.0, (start_ms + step.at_ms) / 1000 - time.time()))
        match step.does:
            case "register":
                writer.register()
                if step.at_ms:
                    tell("news", text="registers again, and will write")
            case "write":
                if away:
                    tell("news", text=f"is back, writes a backlog of {len(step.events)} events, then notes its time")
                # A writer that registered late has promised nothing about what was before, and it is too late for that.
                floor = start_ms if writer.floor is None else writer.floor
                due = [event for event in step.events if start_ms + event.time_ms >= floor]
                writer.write(Event(event.value(start_ms), key=event.device.encode()) for event in due)
                writer.note_time(max(start_ms + step.noted_ms, floor))
                written += len(due)
                skipped += len(step.events) - len(due)
                tell("wrote", total=written)
            case "rest":
                writer.idle()
                tell("news", text="says that it is idle; time goes on without it")
            case "vanish":
                tell("news", text="is gone without a word, and collects its events where no one sees them")
            case "leave":
                writer.close()
                left_out = f"; {skipped} events from before it registered were left out" if skipped else ""
                tell("news", text=f"closes{left_out}")
        away = step.does == "vanish"


if __name__ == "__main__":
    told = json.loads(sys.argv[1])
    with SqliteLog(told["path"]) as log:
        writer = Writer(told["controller"], told["stream"], told["name"], log=log)
        take_steps(writer, steps(DemoSettings(**told["settings"]), told["name"]), told["start_ms"])
