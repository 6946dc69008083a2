"""What a command says on its terminal, and why it cannot go on."""

from __future__ import annotations

import os
import sys


class Failure(Exception):
    """A command cannot go on, for a reason that its user can do something about. `status` is what it exits with."""

    def __init__(self, reason: str, status: int = 1) -> None:
        super().__init__(reason)
        self.status = status


def say(text: str) -> None:
    """One line to standard output, at once; raises Failure where that takes no more, as a full disk."""
    try:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has gone
        raise
    except OSError as error:
        # Python would flush it once more at the end, and complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise Failure(f"what it has to say cannot be written to standard output ({error.strerror})") from None
