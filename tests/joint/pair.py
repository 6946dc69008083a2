"""Two controllers in processes of their own on one PostgreSQL, `one` and `two`, each with streams that it serves."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count, islice
from typing import Any

import httpx

from controller.cluster.member import HANDED_OVER_SHARDS
from controller.cluster.records import SHARDS, Kind
from controller.cluster.shards import shard_of
from controller.storage.tokens import add_token, digest_of, open_tokens
from strandline.access import Grant, Role
from strandline.redaction import TOKEN_PREFIX
from tests.mute import MuteWire
from tests.ports import free_port
from tests.served import OwnProcess

PATIENCE_S = 30


def names_in(kind: Kind, shards: range, number: int, before: str) -> list[str]:
    """So many names whose shards are among these."""
    names = (f"{before}{each}" for each in count())
    return list(islice((name for name in names if shard_of(kind, name, SHARDS) in shards), number))


# A second controller gets these shards first, and the earlier ones never.
OF_TWO = range(SHARDS // 2, SHARDS // 2 + HANDED_OVER_SHARDS)
OF_ONE = range(SHARDS // 2)


class Pair:
    """Both controllers. All calls need a token."""

    def __init__(self, url: str) -> None:
        self.url = url
        port = free_port()
        self.processes: list[OwnProcess] = []
        self.one = self._start("one", port, port)
        self.two: OwnProcess
        self.way_to_two: MuteWire  # on which the first controller reaches the second
        self.admin = self._token("anna", Role.ADMIN, "*")

    def begin_two(self, streams_of_two: Sequence[str]) -> None:
        """Starts the second controller; returns when it serves these streams."""
        port = free_port()
        self.way_to_two = MuteWire(port)
        self.two = self._start("two", port, self.way_to_two.port)
        for stream in streams_of_two:
            self.until(self.one, f"/v1/streams/{stream}", lambda answer: self.is_of_two(answer))

    def is_of_two(self, answer: httpx.Response) -> bool:
        return answer.is_success and answer.headers.get("strandline-owner") == self.two.url

    def reader(self, pattern: str) -> str:
        """The token of a reader of some streams."""
        return self._token(f"reader-{secrets.token_hex(4)}", Role.READER, pattern)

    def ask(
        self, process: OwnProcess, path: str, body: Any = None, *, method: str = "GET", token: str | None = None
    ) -> httpx.Response:
        shown = {"Authorization": f"Bearer {token or self.admin}"}
        return process.client.request(method, path, json=body, headers=shown)

    def done(self, process: OwnProcess, method: str, path: str, body: Any = None) -> Any:
        """The answer to a call that is made until it succeeds."""
        return self._until(lambda: self.ask(process, path, body, method=method), lambda each: each.is_success).json()

    def until(
        self, process: OwnProcess, path: str, fits: Callable[[httpx.Response], bool], token: str | None = None
    ) -> Any:
        """Asks until the answer fits."""
        return self._until(lambda: self.ask(process, path, token=token), fits).json()

    def stuck(self, stream: str, slow: int, fast: int) -> None:
        """A stream that `slow` holds back, and the times of both its writers, which are silent from then on."""
        settings = {"segments": 1, "max_ahead_ms": None, "mark_interval_ms": 0, "writer_timeout_ms": 3_600_000}
        self.done(self.one, "PUT", f"/v1/streams/{stream}", settings)
        # A stream that has made marks fast is in trouble soon.
        for writer, moment in (("slow", slow - 2), ("slow", slow - 1), ("slow", slow), ("fast", fast)):
            note = {"writer": writer, "time": moment, "position": {"0": 1}}
            self.done(self.one, "POST", f"/v1/streams/{stream}/notes", note)

    def end(self) -> None:
        for process in self.processes:
            if process.process.poll() is None:
                process.kill()
        if len(self.processes) == 2:
            self.way_to_two.close()

    def _until(self, ask: Callable[[], httpx.Response], fits: Callable[[httpx.Response], bool]) -> httpx.Response:
        deadline, said = time.monotonic() + PATIENCE_S, "nothing"
        while time.monotonic() < deadline:
            with suppress(httpx.TransportError):
                answer = ask()
                if fits(answer):
                    return answer
                said = f"{answer.status_code} {answer.text}"
        raise AssertionError(f"for {PATIENCE_S} s the answer was not what it has to be, the last one: {said}")

    def _start(self, name: str, port: int, port_for_others: int) -> OwnProcess:
        own, others = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port_for_others}"
        made = OwnProcess(self.url, "--name", name, "--address", others, "--client-address", own, port=port)
        self.processes.append(made)
        return made

    def _token(self, name: str, role: Role, pattern: str) -> str:
        token = TOKEN_PREFIX + secrets.token_urlsafe(32)
        with open_tokens(self.url) as connection:
            now = time.time_ns() // 1_000_000
            add_token(connection, Grant(name=name, role=role, pattern=pattern), digest_of(token.encode()), now)
        for process in self.processes:
            self._until(partial(self.ask, process, "/v1/streams", token=token), _is_known)
        return token


def _is_known(answer: httpx.Response) -> bool:
    return answer.status_code != httpx.codes.UNAUTHORIZED


@contextmanager
def pair(url: str) -> Iterator[Pair]:
    both = Pair(url)
    try:
        yield both
    finally:
        both.end()
