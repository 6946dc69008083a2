"""A run of the demo from end to end: starts its processes, shows its progress, and shows the outcome."""

import json
import math
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final

from controller.terminal import say
from strandline.client import calls
from strandline.client.http import Connection
from strandline.client.retry import Patience
from strandline.core.config import StreamConfig
from strandline.core.note import DEFAULT_KEY
from strandline.errors import Unavailable, Undecided
from strandline.logs.sqlite import SqliteLog
from strandline_demo.outcome import count_text
from strandline_demo.processes import Processes
from strandline_demo.world import WINDOW_MS, WRITERS, DemoSettings

STREAM: Final = "demo"
SEGMENTS: Final = 3
SETTLE_MS: Final = 2_500  # from the start of the writers' processes to the start of the world
PATIENCE_S: Final = 300  # beyond the duration
LINE_EVERY_S: Final = 2.0
HASTE: Final = Patience(deadline_ms=1_000, attempt_ms=1_000)  # the next line of progress asks again
SILENT_FROM_MS: Final = 1_500  # a shorter silence is not shown


@dataclass
class Run(ABC):
    """One run: its store and its logs are in `folder`. Each kind of run has its own process that counts windows."""

    counting: ClassVar[str]  # the name of that process

    settings: DemoSettings
    folder: Path
    processes: Processes
    messages: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # by part and kind: the last message
    start_ms: int = 0  # when the world began
    line_at_s: float = LINE_EVERY_S  # when the next line of progress is due, by `now_s`

    @abstractmethod
    def start_counting(self, connection: Connection, place: dict[str, str]) -> None:
        """Starts the process that counts windows of the stream at `place`, which sends `result` at the stream's end."""

    @abstractmethod
    def status(self) -> str:
        """How far the windows are, for the line of progress."""

    @abstractmethod
    def show(self, result: dict[str, Any]) -> None:
        """Shows the outcome. Raises Failure if it is not what Strandline promises."""

    @classmethod
    def play(cls, settings: DemoSettings, *, keep: bool, **more: Any) -> None:
        """Runs the demo. Raises KeyboardInterrupt and Failure; leaves nothing running."""
        folder = Path(tempfile.mkdtemp(prefix="strandline-demo-"))
        try:
            with Processes(folder) as processes:
                run = cls(settings, folder, processes, **more)
                address, result = run.to_end()
                run.show(result)
                if keep:
                    say(
                        f"the controller continues to run for you to explore: {address}/streams/{STREAM}; "
                        "Ctrl-C ends it"
                    )
                    with suppress(KeyboardInterrupt):
                        while True:
                            processes.receive(PATIENCE_S)
        except KeyboardInterrupt:
            say("ended early, as requested; nothing is left running")
            raise
        finally:
            if keep:
                say(f"kept: {folder}")
            else:
                shutil.rmtree(folder)

    @property
    def log(self) -> Path:
        return self.folder / f"{STREAM}.db"

    def to_end(self) -> tuple[str, dict[str, Any]]:
        """Runs everything; returns the controller's address, and the result of the process that counts windows."""
        options = ("--database", str(self.folder / "store.db"), "--host", "127.0.0.1", "--port", "0")
        self.processes.start("controller", "controller", "serve", *options)
        address = self.until("controller", "line")["text"].partition("ready at ")[2]
        place = {"controller": address, "stream": STREAM, "path": str(self.log)}
        with Connection(address) as connection, SqliteLog.create(self.log, SEGMENTS) as log:
            # Time waits for the offline writer: it never times out.
            config = StreamConfig(writer_timeout_ms=None, min_writers=len(WRITERS), mark_interval_ms=200)
            connection.run(calls.create_stream(STREAM, SEGMENTS, config))
            say(f"dashboard: {address}/streams/{STREAM}, until the demo ends; with --keep until Ctrl-C")
            self.start_counting(connection, place)
            # The world begins on the boundary of a window, so that no window is cut off.
            self.start_ms = math.ceil((time.time() * 1000 + SETTLE_MS) / WINDOW_MS) * WINDOW_MS
            for name in WRITERS:
                writer = place | {"name": name, "start_ms": self.start_ms, "settings": asdict(self.settings)}
                self.processes.start(name, "strandline_demo.writer", json.dumps(writer))
            say(f"writers: {', '.join(WRITERS)}, each a process; the first events come in {-self.now_s():.0f} s")
            for name in WRITERS:
                self.until(name, "ended", connection.with_patience(HASTE))
            connection.run(calls.seal(STREAM, log.seal()))
        say("all writers closed, and the stream is sealed: it is read to its end")
        return address, self.until(self.counting, "result")

    def until(self, part: str, kind: str, connection: Connection | None = None) -> dict[str, Any]:
        """Receives messages until one of this kind has come from `part`. With a connection, it shows progress."""
        patience_s = PATIENCE_S + self.settings.duration_ms // 1000
        until = time.monotonic() + patience_s
        while (part, kind) not in self.messages:
            if time.monotonic() > until:
                raise self.processes.failure(part, f"did not say {kind!r} within {patience_s} s")
            if (message := self.processes.receive(timeout_s=0.1)) is not None:
                self.messages[message["part"], message["kind"]] = message
                if message["kind"] == "news":
                    say(f"{self.now_s():5.1f} s   {message['part']}: {message['text']}")
            if connection is not None and self.now_s() >= self.line_at_s:
                self.line_at_s = self.now_s() + LINE_EVERY_S
                written = sum(message["total"] for (_, kind), message in self.messages.items() if kind == "wrote")
                say(f"{self.now_s():5.1f} s   {count_text(written):>7} events   {self.status()}   {holder(connection)}")
        return self.messages[part, kind]

    def now_s(self) -> float:
        return time.time() - self.start_ms / 1000


def holder(connection: Connection) -> str:
    """The writer that holds time back, as the controller names it."""
    try:
        holder = connection.run(calls.describe(STREAM)).held_by.get(DEFAULT_KEY)
    except (Unavailable, Undecided) as error:
        return f"the controller does not name the holder ({error.code})"
    if holder is None:
        return "nobody holds time back"
    silent_ms = holder.last_heard_ms_ago or 0
    silent = f" (silent for {silent_ms / 1000:.0f} s)" if silent_ms >= SILENT_FROM_MS else ""
    return f"{holder.writer or 'a writer that has not noted yet'} holds time back{silent}"
