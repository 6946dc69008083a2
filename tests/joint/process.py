"""A controller in a process of its own, for tests that kill and stop it. It takes a call a line, and answers by one.

note s0 5    ──►  done              the note is durable
                  away              nobody answers for that stream here: nothing may have been done
marks s0     ──►  1 2 3             the seqs of its marks, as this controller has them in memory
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Sequence

from strandline.errors import TimeWentBack
from tests.forks import Fork
from tests.joint.nodes import AWAY, CONFIG, Node

CALL_DEADLINE_S = 20


async def _answer(node: Node, call: str) -> str:
    words = call.split()
    try:
        match words:
            case ["create", stream]:
                await node.streams.create(stream, 1, CONFIG)
                return "done"
            case ["note", stream, moment]:
                await node.note(stream, int(moment))
                return "done"
            case ["marks", stream]:
                loaded = await node.streams.get(stream)
                chain = loaded.chains.get("")
                return " ".join(str(mark.seq) for mark in chain.after(0, 1_000)) if chain is not None else ""
            case _:
                raise ValueError(call)
    except AWAY:
        return "away"
    except TimeWentBack:
        return "done"  # a note whose answer was lost is repeated


async def _serve(url: str, name: str) -> None:
    node, loop = Node(url, name), asyncio.get_running_loop()
    await node.start()
    loop.add_signal_handler(signal.SIGTERM, node.driver.drain)
    calls = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(calls), sys.stdin)

    async def answer_all() -> None:
        while line := await calls.readline():
            _say(await _answer(node, line.decode()))

    answering = asyncio.create_task(answer_all())
    _say("ready")
    node.driver.stopped.add_done_callback(lambda _: answering.cancel())
    await asyncio.wait([answering])
    await node.crash()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Controller:
    """One such process, as a test sees it."""

    def __init__(self, url: str, name: str) -> None:
        self._process = Fork("tests.joint.process", [url, name])
        assert self._line() == "ready"

    def call(self, call: str) -> str:
        """The answer to a call; "away" if the process has ended."""
        try:
            print(call, file=self._process.stdin, flush=True)
        except BrokenPipeError:
            return "away"
        return self._line() or "away"

    def send(self, which: signal.Signals) -> None:
        self._process.send_signal(which)

    def end(self, which: signal.Signals = signal.SIGKILL) -> int:
        """Ends the process by a signal, and returns its exit status."""
        if self._process.poll() is None:
            self._process.send_signal(which)
        status = self.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        return status

    def wait(self) -> int:
        """Returns the exit status once the process has ended."""
        return self._process.wait(CALL_DEADLINE_S)

    def _line(self) -> str:
        return self._process.stdout.readline().strip()


def until_done(controllers: Sequence[Controller], call: str) -> Controller:
    """Makes a call at one controller after the other until it is done; returns by whom."""
    return until(controllers, call, lambda answer: answer == "done")


def until(controllers: Sequence[Controller], call: str, fits: Callable[[str], bool]) -> Controller:
    deadline = time.monotonic() + CALL_DEADLINE_S
    while time.monotonic() < deadline:
        for controller in controllers:
            if fits(controller.call(call)):
                return controller
    raise AssertionError(f"nobody has answered {call!r} for {CALL_DEADLINE_S} s")


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))
