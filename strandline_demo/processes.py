"""Starts the processes of the demo, hears what they say, and leaves none behind."""

from __future__ import annotations

import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType
from typing import Final, Self, TypeAlias

import spark_integration
from strandline_demo.errors import PartFailed, PartSilent
from strandline_demo.messages import Message, from_line

LEASH: Final = Path(__file__).with_name("leash.py")
PACKAGES: Final = Path(spark_integration.__file__).parents[1]  # where the packages of the project lie
HOST: Final = "127.0.0.1"
PROC: Final = Path("/proc")
STOPPING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

END_POLITELY_S: Final = 6.0
END_KILLED_S: Final = 5.0
LOOK_AGAIN_S: Final = 0.02
LAST_WORDS_CHARACTERS: Final = 2_000


class Interrupted(Exception):
    """A signal came: someone wants the demo to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(frozen=True, slots=True)
class Stopped:
    """A signal came."""

    number: int


@dataclass(frozen=True, slots=True)
class Said:
    """A line of a part that is no message of the demo."""

    part: str
    line: str


@dataclass(frozen=True, slots=True)
class Ended:
    """A part has ended, and said all that it had to say."""

    part: str
    status: int


Heard: TypeAlias = Message | Said | Ended
Inbox: TypeAlias = "queue.SimpleQueue[Heard | Stopped]"  # its put may be called in a signal handler


class Part:
    """A process of the demo. It leads its own session, so a Ctrl-C in the terminal does not reach it."""

    def __init__(self, name: str, process: subprocess.Popen[str], log: Path) -> None:
        self.name = name
        self.process = process
        self.log = log
        self._gone = False

    def last_words(self) -> str:
        """The end of what it wrote to its standard error."""
        try:
            return self.log.read_text(errors="replace").strip()[-LAST_WORDS_CHARACTERS:]
        except OSError:
            return ""

    def there(self) -> list[int]:
        """What of the part, and of all that it started, has not ended: numbers that `os.kill` takes."""
        ended = self.process.poll() is not None  # which also takes note of its end
        if not self._gone:  # else its number may be another's by now
            found = _session(self.process.pid)
            self._gone = ended and not found
            return found
        return []

    def signal(self, number: int) -> None:
        """Sends a signal to the part and to all that it started."""
        for pid in self.there():
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def _session(leader: int) -> list[int]:
    """The processes of a session that have not ended; where there is no /proc, the group of its leader."""
    if not PROC.is_dir():
        try:
            os.killpg(leader, 0)
        except (ProcessLookupError, PermissionError):  # macOS says the latter of a group that has ended
            return []
        return [-leader]
    found = []
    for name in os.listdir(PROC):
        if name.isdecimal():
            with suppress(OSError):  # it ended meanwhile
                state, _, _, session, *_ = (PROC / name / "stat").read_text().rpartition(")")[2].split()
                if int(session) == leader and state not in "ZX":
                    found.append(int(name))
    return found


class Parts:
    """All processes of a run. Leaving the `with` block ends them, with whatever they started."""

    def __init__(
        self,
        folder: Path,
        inbox: Inbox,
        *,
        environment: Mapping[str, str] = os.environ,
        patience_s: float = END_POLITELY_S,
    ) -> None:
        """`folder` takes the parts' standard error, and is their working directory; what they say goes to `inbox`.

        What `environment` sets for the user's own controller and jobs, the parts do not see. `patience_s`: how long
        they have to end when they are asked to.
        """
        self._folder = folder
        search = [str(PACKAGES), *filter(None, [environment.get("PYTHONPATH")])]
        self._environment = {name: value for name, value in environment.items() if not name.startswith("STRANDLINE_")}
        self._environment["PYTHONPATH"] = os.pathsep.join(search)
        self._patience_s = patience_s
        self._parts: dict[str, Part] = {}
        self._inbox = inbox
        self._stopped: Stopped | None = None

    def start(self, name: str, module: str, *arguments: str) -> Part:
        """Runs `python -m module arguments` on a leash."""
        log = self._folder / f"{name}.log"
        with log.open("ab") as error:
            process = subprocess.Popen(
                [sys.executable, "-P", str(LEASH), module, *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=error, text=True, cwd=self._folder,
                env=self._environment, start_new_session=True,
            )  # fmt: skip
        part = self._parts[name] = Part(name, process, log)
        threading.Thread(target=self._listen, args=(part,), name=f"listen-{name}", daemon=True).start()
        return part

    def hear(self, timeout_s: float) -> Heard | None:
        """What was said next, by whichever part; None where nothing was said in time.

        Raises Interrupted once a signal has come (see `signals_to`), and PartFailed where a part ended badly.
        """
        if self._stopped is not None:
            raise Interrupted(self._stopped.number)
        try:
            heard = self._inbox.get(timeout=max(0.0, timeout_s))
        except queue.Empty:
            return None
        match heard:
            case Stopped(number):
                self._stopped = heard
                raise Interrupted(number)
            case Ended(name, status):
                if status != 0:
                    raise self.failed(name, status)
                self._parts[name].there()
                return heard
            case _:
                return heard

    def failed(self, name: str, status: int) -> PartFailed:
        """The error for a part that has ended."""
        return PartFailed(part=name, exit_status=status, words=self._parts[name].last_words())

    def silent(self, name: str, awaited: str, waited_s: float) -> PartSilent:
        """The error for a part that did not do in time what was awaited."""
        words = self._parts[name].last_words()
        return PartSilent(part=name, awaited=awaited, waited_s=round(waited_s), words=words)

    def end(self) -> None:
        """Ends every part: politely at first. Returns when none of their processes is left."""
        for number, patience_s in ((signal.SIGTERM, self._patience_s), (signal.SIGKILL, END_KILLED_S)):
            for part in self._parts.values():
                part.signal(number)
            until = time.monotonic() + patience_s
            while self._anyone() and time.monotonic() < until:
                time.sleep(LOOK_AGAIN_S)
        for part in self._parts.values():
            if part.process.stdin is not None:
                part.process.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def _anyone(self) -> bool:
        return any(part.there() for part in self._parts.values())

    def _listen(self, part: Part) -> None:
        """Reads a part's lines to the end."""
        lines = part.process.stdout
        if lines is None:
            raise TypeError("a part is started with a pipe")
        for line in lines:
            try:
                self._inbox.put(from_line(line))
            except ValueError:
                self._inbox.put(Said(part.name, line.rstrip()))
        self._inbox.put(Ended(part.name, part.process.wait()))


@contextmanager
def signals_to(inbox: Inbox) -> Iterator[None]:
    """While this lasts, Ctrl-C and its like only put a message in the inbox, so that the run ends in good order.

    Once one came they stay without effect, since the process is about to end.
    """
    came = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        inbox.put(Stopped(number))

    before = {number: signal.signal(number, stop) for number in STOPPING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if came else handler)


def is_free(port: int) -> bool:
    """Whether a server could listen on a port of this machine now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # one that was given up a moment ago is free
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
