"""The process of one writer: takes the steps that the world plans for it, each at its moment.

A writer that is delayed does the same a little later: its notes follow from what it has written, never from the clock,
so they stay true on a busy machine.
"""

import json
import sys
import time
from collections.abc import Iterable

from strandline.logs.sqlite import SqliteLog
from strandline_demo.processes import send
from strandline_demo.world import DemoSettings, PlannedStep, steps
from writer_client import Event, Writer


def take_steps(writer: Writer, todo: Iterable[PlannedStep], start_ms: int) -> None:
    """Takes steps, one after the other, and reports them."""
    written = skipped = 0
    away = False
    for step in todo:
        time.sleep(max(0.0, (start_ms + step.at_ms) / 1000 - time.time()))
        match step.does:
            case "register":
                writer.register()
                if step.at_ms:
                    send("news", text="registers again, before it writes")
            case "write":
                if away:
                    send("news", text=f"is back, writes a backlog of {len(step.events)} events, then notes its time")
                # A writer that registered late must not write events from before its floor: they would be late.
                floor = start_ms if writer.floor is None else writer.floor
                due = [event for event in step.events if start_ms + event.time_ms >= floor]
                writer.write(Event(event.value(start_ms), key=event.device.encode()) for event in due)
                writer.note_time(max(start_ms + step.noted_ms, floor))
                written += len(due)
                skipped += len(step.events) - len(due)
                send("wrote", total=written)
            case "rest":
                writer.idle()
                send("news", text="goes idle; time goes on without it")
            case "vanish":
                send("news", text="loses its network without going idle, and collects its events")
            case "leave":
                writer.close()
                left_out = f"; {skipped} events from before it registered were left out" if skipped else ""
                send("news", text=f"closes{left_out}")
        away = step.does == "vanish"


if __name__ == "__main__":
    settings = json.loads(sys.argv[1])
    with SqliteLog(settings["path"]) as log:
        writer = Writer(settings["controller"], settings["stream"], settings["name"], log=log)
        take_steps(writer, steps(DemoSettings(**settings["settings"]), settings["name"]), settings["start_ms"])
