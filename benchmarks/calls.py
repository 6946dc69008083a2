"""How many calls of functions of ours one warm note makes, from its first byte to its answer, with its commit, and how
often one of them goes on after it has waited.

    python -m benchmarks.calls [--notes 20]

Every call is counted, in the event loop and in the store's thread, and those of a window. This is no time, and the same
on every machine: it says how many steps somebody has to follow who wants to know what a note does.
"""

from __future__ import annotations

import argparse
import socket
import sys
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final

import httpx
import uvicorn

from benchmarks.figures import Figure, Report, arguments, run
from benchmarks.servers import ROOT, scratch
from controller.app import create_app
from controller.http.connection import Connections, HttpConnection
from controller.limits import DEFAULT_LIMITS
from controller.settings import Settings

OURS: Final = tuple(f"{ROOT / name}/" for name in ("controller", "strandline"))
END_DEADLINE_S: Final = 20


class Calls:
    """Counts calls in all threads that begin after it was made."""

    def __init__(self) -> None:
        self.found: Counter[tuple[str, str]] = Counter()  # by file and function
        self.resumed = 0  # coroutines that went on: the profiler reports these as calls, too
        self.counting = False
        self._begun: set[FrameType] = set()
        threading.setprofile(self._see)

    def _see(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and self.counting and code.co_filename.startswith(OURS):
            if frame in self._begun:
                self.resumed += 1
            else:
                self._begun.add(frame)
                self.found[code.co_filename, code.co_qualname] += 1

    def of(self, ask: partial[httpx.Response], times: int) -> tuple[float, int, int]:
        """How many calls a request makes, of how many functions, in how many files."""
        self.found.clear()
        self.resumed = 0
        for _ in range(times):
            self._begun.clear()
            self.counting = True
            ask().raise_for_status()
            self.counting = False
        usual = {place: count for place, count in self.found.items() if count >= times}  # not what a timer did
        return sum(usual.values()) / times, len(usual), len({file for file, _ in usual})


def measure(options: argparse.Namespace) -> Report:
    report, calls = Report(), Calls()
    with scratch() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        app = create_app(Settings(database=str(Path(folder, "store.db"))))
        connect = partial(HttpConnection, Connections(DEFAULT_LIMITS, DEFAULT_LIMITS.connections))
        server = uvicorn.Server(uvicorn.Config(app, http=connect, ws="none", log_config=None))  # type: ignore[arg-type]  # as in server.py
        serving = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        serving.start()
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            with httpx.Client(base_url=url, trust_env=False) as client:
                settings = {"segments": 4, "max_ahead_ms": None, "mark_interval_ms": 60_000}
                client.put("/v1/streams/s", json=settings).raise_for_status()
                times = iter(range(1, sys.maxsize))

                def note() -> httpx.Response:
                    time = next(times)
                    body = {"writer": "w", "time": time, "position": {"0": time, "1": time}}
                    return client.post("/v1/streams/s/notes", json=body)

                window = partial(client.post, "/v1/streams/s/time-window", json={"position": {"0": 1}})
                for ask, what in ((partial(note), "a warm note with its commit"), (window, "a warm window")):
                    for _ in range(options.notes):
                        ask()
                    counted, functions, files = calls.of(ask, options.notes)
                    resumed = f"gone on after a wait: {calls.resumed / options.notes:.0f}"
                    within = f"functions: {functions}, files: {files}; {resumed}"
                    what = f"calls of our functions, {what}"
                    report.figures.append(Figure(what, f"{counted:.0f}", within, "", "≤ 150"))
                    for (file, name), count in calls.found.most_common() if options.each else ():
                        print(f"{count / options.notes:6.1f} {Path(file).relative_to(ROOT)} {name}")
        finally:
            server.should_exit = True
            serving.join(END_DEADLINE_S)
    return report


def main() -> None:
    parser = arguments(__doc__, notes=20, each=0)
    run(measure, parser.parse_args())


if __name__ == "__main__":
    main()
