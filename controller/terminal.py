"""Terminal output of commands, and their failures."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from strandline.redaction import redact

PROGRESS_S: Final = 3.0  # between two lines that say how far long work is
WRONG_COMMAND_LINE_STATUS: Final = 2  # as click has it
NOT_THERE_STATUS: Final = 3  # the exit status of `wait` if its time ran out: the command may be run again

FAILED_CODE: Final = "command_failed"  # with --json, of an error that is none of the HTTP API's


class Failure(Exception):
    """A command cannot continue, for a reason that its user can remove. `status` is its exit status, `problem` the
    error behind it as HTTP carries it, if there is one."""

    def __init__(self, reason: str, status: int = 1, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.problem = problem or {"code": FAILED_CODE}


def open_closed_streams() -> None:
    """Lets a command write where its standard output or error is closed: what it writes is dropped."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 # open as long as the process


def printable(text: str) -> str:
    """The text with escapes for characters that the encoding of standard output lacks, as Python has them on standard
    error."""
    encoding = sys.stdout.encoding or "utf-8"  # text in memory has none
    return text.encode(encoding, "backslashreplace").decode(encoding)


def say(*lines: str) -> None:
    """Writes lines to standard output and flushes them; raises Failure if that fails, as on a full disk."""
    try:
        sys.stdout.write(printable("".join(f"{line}\n" for line in lines)))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the pipe has ended
        raise
    except OSError as error:
        # Python would flush it again at exit, and report an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Failure(f"cannot write to standard output ({error.strerror})") from None


def remark(text: str) -> None:
    """Writes one line to standard error, beside the data, and no secret in it."""
    sys.stderr.write(f"{redact(text)}\n")
    sys.stderr.flush()


@contextmanager
def progress(says: Callable[[], str], every_s: float = PROGRESS_S) -> Iterator[None]:
    """Says how far long work is while its body runs, on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()

    def say_now_and_then() -> None:
        while not ended.wait(every_s):
            remark(says())

    thread = threading.Thread(target=say_now_and_then, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
