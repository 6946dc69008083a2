"""The end of a process: writers send waiting notes for a bounded time, and report the rest on standard error, with the
refusals that no call has raised.

    the interpreter ends (its last line, an exception, Ctrl-C, sys.exit)    atexit
    a process of multiprocessing ends                                       multiprocessing's own finalizers

What an exit function notes after that is sent in its call. The module installs no signal handler. SIGTERM without a
handler, SIGKILL and os._exit end a process without either of the two, and waiting notes are lost. The events are in the
log, and the next process of the writer's name covers them.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

EXIT_DRAIN_MS: Final = 5_000  # how long notes are still sent when the process ends, or a block raises
UNSENT_WRITERS_NAMED: Final = 20  # how many writers with unsent notes are listed then


@dataclass(frozen=True, slots=True)
class Unsent:
    """Notes of one writer that were not sent, and the reason."""

    stream: str
    writer: str
    count: int
    reason: str

    @property
    def line(self) -> str:
        notes = "1 note" if self.count == 1 else f"{self.count} notes"
        return (
            f"strandline: {notes} of writer {self.writer!r} of stream {self.stream!r} could not be sent "
            f"({self.reason}): marks leave out what it wrote until a writer of that name registers and notes again"
        )


@dataclass(frozen=True, slots=True)
class UnraisedRefusal:
    """A note of one writer that was refused after its last call, which so could not raise it."""

    stream: str
    writer: str
    reason: str

    @property
    def line(self) -> str:
        return (
            f"strandline: a note of writer {self.writer!r} of stream {self.stream!r} was refused, and no later call "
            f"could raise that: {self.reason}"
        )


Left: TypeAlias = Unsent | UnraisedRefusal


class Sender(Protocol):
    """An object with notes to send."""

    def send_all(self, deadline: float) -> list[Left]:
        """Sends waiting notes until the deadline (`time.monotonic`); returns what is left to report."""
        ...


_senders: dict[Sender, None] = {}  # in order of `watch`
_hooked = False
ended = False  # whether `leave` has been called


def watch(sender: Sender) -> None:
    """Registers a sender, whose notes are sent when the process ends."""
    global _hooked
    _senders[sender] = None
    if _hooked:
        return
    _hooked = True
    atexit.register(leave)
    processes = sys.modules.get("multiprocessing.process")
    if processes is not None and processes.parent_process() is not None:  # it ends without atexit
        from multiprocessing.util import Finalize

        Finalize(None, leave, exitpriority=0)


def forget(sender: Sender) -> None:
    _senders.pop(sender, None)


def leave() -> None:
    """Sends all waiting notes."""
    global ended
    try:
        send(list(_senders))
    finally:
        _senders.clear()  # a second call does nothing
        ended = True


def send(senders: Iterable[Sender]) -> None:
    """Sends waiting notes for at most EXIT_DRAIN_MS, or until Ctrl-C, and reports the rest."""
    try:
        report(_sent_until(time.monotonic() + EXIT_DRAIN_MS / 1000, senders))
    except KeyboardInterrupt:
        report(_sent_until(time.monotonic(), senders))


def _sent_until(deadline: float, senders: Iterable[Sender]) -> list[Left]:
    return [left for sender in senders for left in sender.send_all(deadline)]


def report(left: Iterable[Left]) -> None:
    """Reports on standard error what was not sent, and what was refused."""
    lines = [each.line for each in left]
    more = len(lines) - UNSENT_WRITERS_NAMED
    if more > 0:
        lines = [*lines[:UNSENT_WRITERS_NAMED], f"strandline: the same holds for {more} more writers"]
    if lines and sys.stderr is not None:
        with suppress(OSError, ValueError):  # it may be closed
            sys.stderr.write("".join(f"{line}\n" for line in lines))
            sys.stderr.flush()


def _forked() -> None:
    """In a forked child: its parent sends the waiting notes."""
    global _hooked, ended
    _senders.clear()
    _hooked = ended = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
