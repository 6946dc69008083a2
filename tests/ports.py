"""Ports for servers that cannot be told to take any, and for those that come back where they were."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress

# Linux hands out ports from 32768 up to whoever connects anywhere: one of those could be gone before its server starts.
LOWEST, HIGHEST = 20_000, 32_000


def free_port() -> int:
    """A port of the loopback interface that nobody listens on."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """So many that differ."""
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < count:
            port = random.SystemRandom().randint(LOWEST, HIGHEST)  # as other processes of tests draw theirs
            with suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
                found.append(port)
    return found
