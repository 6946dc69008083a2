"""A controller with several addresses: which of them gets a request, sync and async alike."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from reader_client import AsyncEventReader, AsyncReaderGroup, AsyncTimeWindows, EventReader, ReaderGroup, TimeWindows
from strandline.client.calls import Call, Response, ask
from strandline.client.http import AsyncHttpxTransport, Connection, HttpTransport
from strandline.client.retry import AnswerLost, NotReached, Patience
from strandline.errors import ControllerAway, OutcomeUnknown, UnknownStream
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from strandline.wire.problems import to_problem
from tests.client.conftest import QUICK, Flavour, no_pause
from tests.served import Outside, run_command, served
from writer_client import AsyncWriter, Background, BackgroundWriter, Writer

FIRST, SECOND = ADDRESSES = ["http://first", "http://second"]
ONCE = Patience(attempts=1)
REFUSED, TIMED_OUT = httpx.ConnectError("refused"), httpx.ConnectTimeout("timed out")
BROKEN, SILENT = httpx.RemoteProtocolError("broke off"), httpx.ReadTimeout("silent")
UNTRUSTED = httpx.ConnectError("wrong certificate")
UNTRUSTED.__cause__ = ssl.SSLCertVerificationError("wrong certificate")
IN_USE = httpx.PoolTimeout("all connections are in use")


def call(*, repeatable: bool = True) -> Call[object]:
    return ask("POST", "/v1/x", json.loads, {"a": 1}, repeatable=repeatable)


def once() -> Call[object]:
    return call(repeatable=False)


@dataclass
class Controllers:
    """What answers at each address: a status, or an error of httpx; the last of a list stays for all that follow."""

    flavour: Flavour
    first: list[int | httpx.RequestError]
    second: list[int | httpx.RequestError]
    asked: list[str] = field(default_factory=list)
    timeouts: list[tuple[float, float]] = field(default_factory=list)
    problem: bytes = b""
    takes_s: float = 0.0

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.host)
        self.timeouts.append((request.extensions["timeout"]["connect"], request.extensions["timeout"]["read"]))
        time.sleep(self.takes_s)
        answers = self.first if request.url.host == "first" else self.second
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(found, httpx.RequestError):
            raise found
        return httpx.Response(found, content=b'"there"' if found == 200 else self.problem)

    @property
    def transport(self) -> Any:
        kind: Any = HttpTransport if self.flavour.runner is None else AsyncHttpxTransport
        return kind(ADDRESSES, client=self.flavour.mocked(self.answer))

    def run(self, *made: Callable[[], Call[Any]], patience: Patience = QUICK, **options: Any) -> list[Any]:
        return self.flavour.run(ADDRESSES, *made, transport=self.transport, patience=patience, **options)


@pytest.fixture
def controllers(flavour: Flavour) -> Callable[..., Controllers]:
    return lambda first, second: Controllers(flavour, [*first], [*second])


@pytest.mark.parametrize("made", [call, once])
def test_an_address_that_is_not_reached_is_passed_over_without_a_pause(controllers: Any, made: Any) -> None:
    there = controllers([REFUSED], [200])
    assert there.run(made, made, patience=ONCE, seams=no_pause()) == ["there", "there"]
    assert there.asked == ["first", "second", "second"]


@pytest.mark.parametrize("fault", [BROKEN, SILENT, 502, 503, 504])
def test_an_address_that_breaks_off_or_cannot_serve_is_left_for_the_next_attempt(controllers: Any, fault: Any) -> None:
    there = controllers([fault], [200])
    assert there.run(call, call) == ["there", "there"]
    assert there.asked == ["first", "second", "second"]


@pytest.mark.parametrize("fault", [BROKEN, SILENT, 502, 503, 504])
@pytest.mark.parametrize(("made", "patience"), [(once, QUICK), (call, ONCE)])
def test_what_is_not_known_is_not_sent_elsewhere_unless_that_is_harmless_and_another_attempt(
    controllers: Any, fault: Any, made: Any, patience: Patience
) -> None:
    there = controllers([fault], [200])
    with pytest.raises(OutcomeUnknown):
        there.run(made, patience=patience)
    assert there.asked == ["first"]


def test_calls_stay_where_the_last_answer_came_from(controllers: Any) -> None:
    """A refusal is an answer too."""
    there = controllers([503, 200], [404, 200, 502])
    there.problem = json.dumps(to_problem(UnknownStream(stream="s"))).encode()

    def refusal() -> Call[object]:
        with pytest.raises(UnknownStream):
            yield from call()
        return "refused"

    assert there.run(refusal, call, call, call) == ["refused", *["there"] * 3]
    assert there.asked == ["first", "second", "second", "second", "first", "first"]


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        (REFUSED, TIMED_OUT, NotReached(f"{FIRST}: refused; {SECOND}: timed out")),
        (REFUSED, BROKEN, AnswerLost(f"{SECOND}: broke off")),
        (UNTRUSTED, REFUSED, NotReached(f"{FIRST}: wrong certificate; {SECOND}: refused")),
        (UNTRUSTED, UNTRUSTED, NotReached("; ".join(f"{each}: wrong certificate" for each in ADDRESSES), lasting=True)),
        (IN_USE, 200, NotReached("all connections are in use")),
    ],
)
def test_what_went_wrong_is_said_of_each_address(
    flavour: Flavour, controllers: Any, first: Any, second: Any, outcome: object
) -> None:
    client = flavour.mocked(controllers([first], [second]).answer)
    assert flavour.send(ADDRESSES, client=client) == outcome


@pytest.mark.parametrize(("fault", "asked"), [(REFUSED, ADDRESSES), (IN_USE, [FIRST])])
def test_a_controller_that_is_nowhere_is_away_under_all_its_addresses(
    controllers: Any, fault: Any, asked: list[str]
) -> None:
    there = controllers([fault], [fault])
    with pytest.raises(ControllerAway) as raised:
        there.run(once, patience=Patience(attempts=2, first_pause_ms=1))
    assert raised.value.controller == ",".join(ADDRESSES)
    assert [f"http://{each}" for each in there.asked] == asked * 2


def test_a_shared_connection_with_other_patience_goes_on_at_the_same_address(controllers: Any) -> None:
    there = controllers([503], [200])
    there.flavour.runner = None
    with Connection(ADDRESSES, transport=HttpTransport(ADDRESSES, client=there.flavour.mocked(there.answer))) as shared:
        assert shared.with_patience(QUICK).run(call()) == "there"
        assert shared.with_patience(ONCE).run(call()) == "there"
    assert there.asked == ["first", "second", "second"]


def test_a_skipped_address_does_not_shorten_the_answers_timeout(flavour: Flavour, controllers: Any) -> None:
    there = controllers([TIMED_OUT], [200])
    outcome = flavour.send(ADDRESSES, timeout_ms=31_000, client=flavour.mocked(there.answer))
    assert isinstance(outcome, Response)
    assert there.timeouts == [(2.0, 31.0)] * 2


def test_an_attempt_whose_time_is_over_passes_over_no_more(flavour: Flavour, controllers: Any) -> None:
    there = controllers([TIMED_OUT], [200])
    there.takes_s = 0.02  # longer than the attempt may take; what is measured is time, so time has to pass
    outcome = flavour.send(ADDRESSES, timeout_ms=1, client=flavour.mocked(there.answer))
    assert outcome == NotReached(f"{FIRST}: timed out")


# -- a real controller ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    with served(tmp_path_factory.mktemp("controller") / "strandline.db") as connection:
        yield Outside(connection)


def test_every_client_and_command_takes_several_addresses(
    controller: Outside, closed_port: str, tmp_path: Path
) -> None:
    addresses = [closed_port, controller.url]
    stream = controller.stream()
    SqliteLog.create(tmp_path / "events.log", segments=2).close()
    logs = {stream: SqliteLogReader(tmp_path / "events.log")}
    with Writer(addresses, stream, "waiting", leaving="close") as writer:
        writer.note_time(1, {"0": 1})
    with BackgroundWriter(addresses, stream, "background", leaving="close") as background_writer:
        background_writer.note_time(2, {"0": 1})
    with Background(addresses) as background, BackgroundWriter(background, stream, "shared", leaving="close") as shared:
        shared.note_time(2, {"0": 1})
    with TimeWindows(", ".join(addresses), stream) as windows:
        assert windows.get_time_window({"0": 1}).lower == 2
    group = f"group-of-{stream}"
    with ReaderGroup(addresses, group) as readers:
        assert readers.create([stream])
    with EventReader(addresses, group, "r1", logs) as reader:
        assert reader.get_time_window() is not None

    async def awaiting() -> None:
        async with AsyncWriter(addresses, stream, "awaiting") as writer:
            await writer.note_time(3, {"0": 1})
        async with AsyncTimeWindows(addresses, stream) as windows:
            assert (await windows.get_time_window({"0": 1})).lower == 3
        async with AsyncReaderGroup(addresses, group) as readers:
            assert not await readers.create([stream])
        async with AsyncEventReader(addresses, group, "r2", logs) as reader:
            assert await reader.get_time_window() is not None

    asyncio.run(awaiting())
    environment = {**os.environ, "STRANDLINE_CONTROLLER": ",".join(addresses)}
    done = run_command("streams", "--json", environment=environment)
    assert done.returncode == 0, done.stderr
    assert f'"{stream}"' in done.stdout
