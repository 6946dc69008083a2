"""A controller with several addresses, over real sockets: which of them gets a request, sync and async alike."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from reader_client import (
    AsyncEventReader,
    AsyncReaderGroup,
    AsyncTimeWindows,
    EventReader,
    ReaderGroup,
    TimeWindows,
)
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

pytestmark = pytest.mark.full


def call(*, repeatable: bool = True) -> Call[object]:
    return ask("POST", "/v1/x", json.loads, {"a": 1}, repeatable=repeatable)


def once() -> Call[object]:
    return call(repeatable=False)


# -- who gets a request ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [call, once])
def test_an_address_where_nobody_listens_is_passed_over_without_a_pause(
    flavour: Flavour, scripted: Any, closed_port: str, made: Callable[[], Call[object]]
) -> None:
    scripted.then(scripted.answer(200, b'"there"'))
    found = flavour.run([closed_port, scripted.url], made, made, seams=no_pause(), patience=Patience(attempts=1))
    assert found == ["there", "there"]


@pytest.mark.parametrize("fault", ["hang_up", "cut_short", "babble", "stay_silent", 502, 503, 504])
def test_an_address_that_breaks_off_or_cannot_serve_is_left_for_the_next_attempt(
    flavour: Flavour, scripted: Any, other: Any, fault: str | int
) -> None:
    scripted.then(scripted.answer(fault) if isinstance(fault, int) else getattr(scripted, fault))
    other.then(other.answer(200, b'"there"'))
    assert flavour.run([scripted.url, other.url], call, call, patience=QUICK) == ["there", "there"]
    assert (len(scripted.received), len(other.received)) == (1, 2)
    assert other.received[0].body == scripted.received[0].body


@pytest.mark.parametrize("fault", ["hang_up", "cut_short", "stay_silent", 502, 503, 504])
def test_what_is_not_known_is_not_sent_elsewhere_unless_that_is_harmless(
    flavour: Flavour, scripted: Any, other: Any, fault: str | int
) -> None:
    scripted.then(scripted.answer(fault) if isinstance(fault, int) else getattr(scripted, fault))
    other.then(other.answer())
    with pytest.raises(OutcomeUnknown):
        flavour.run([scripted.url, other.url], once, patience=QUICK)
    assert (len(scripted.received), len(other.received)) == (1, 0)


def test_calls_stay_where_the_last_answer_came_from(flavour: Flavour, scripted: Any, other: Any) -> None:
    """A refusal is an answer too."""
    refused = json.dumps(to_problem(UnknownStream(stream="s"))).encode()
    scripted.then(scripted.answer(503), scripted.answer(200, b'"first"'))
    other.then(other.answer(404, refused), other.answer(200, b'"second"'), other.answer(502))

    def refusal() -> Call[object]:
        with pytest.raises(UnknownStream):
            yield from call()
        return "refused"

    found = flavour.run([scripted.url, other.url], refusal, call, call, call, patience=QUICK)
    assert found == ["refused", "second", "first", "first"]


def test_one_attempt_asks_no_second_address_that_cannot_serve(flavour: Flavour, scripted: Any, other: Any) -> None:
    scripted.then(scripted.answer(503))
    other.then(other.answer(503))
    with pytest.raises(OutcomeUnknown):
        flavour.run([scripted.url, other.url], call, patience=Patience(attempts=1))
    assert (len(scripted.received), len(other.received)) == (1, 0)


def test_what_went_wrong_is_said_of_each_address(flavour: Flavour, scripted: Any, closed_port: str) -> None:
    assert isinstance(alone := flavour.send(closed_port), NotReached)
    second = closed_port + "/base"
    assert flavour.send([closed_port, second]) == NotReached(f"{closed_port}: {alone.reason}; {second}: {alone.reason}")
    scripted.then(scripted.hang_up)
    assert isinstance(alone_lost := flavour.send(scripted.url), AnswerLost)
    assert flavour.send([closed_port, scripted.url]) == AnswerLost(f"{scripted.url}: {alone_lost.reason}")


def test_a_controller_that_is_nowhere_is_away_under_all_its_addresses(flavour: Flavour, closed_port: str) -> None:
    addresses = [closed_port, closed_port + "/base"]
    with pytest.raises(ControllerAway) as raised:
        flavour.run(addresses, call, patience=Patience(attempts=2, first_pause_ms=1))
    assert raised.value.controller == ",".join(addresses)


def test_a_shared_connection_with_other_patience_goes_on_at_the_same_address(scripted: Any, other: Any) -> None:
    scripted.then(scripted.answer(503))
    other.then(other.answer(200, b'"there"'))
    with Connection([scripted.url, other.url], patience=QUICK) as connection:
        assert connection.run(call()) == "there"
        assert connection.with_patience(Patience(attempts=1)).run(call()) == "there"
    assert (len(scripted.received), len(other.received)) == (1, 2)


def transport_over(flavour: Flavour, answer: Callable[[httpx.Request], httpx.Response]) -> Any:
    kind: Any = HttpTransport if flavour.runner is None else AsyncHttpxTransport
    return kind(["http://first", "http://second"], client=flavour.mocked(answer))


def test_a_skipped_address_does_not_shorten_the_answers_timeout(flavour: Flavour) -> None:
    timeouts: list[dict[str, float]] = []

    def first_is_away(request: httpx.Request) -> httpx.Response:
        timeouts.append(request.extensions["timeout"])
        if request.url.host == "first":
            raise httpx.ConnectTimeout("timed out")
        return httpx.Response(200)

    client = flavour.mocked(first_is_away)
    assert isinstance(flavour.send("http://first,http://second", timeout_ms=31_000, client=client), Response)
    assert [(each["connect"], each["read"]) for each in timeouts] == [(2.0, 31.0)] * 2


def test_later_calls_begin_where_an_address_was_reached(flavour: Flavour) -> None:
    asked: list[str] = []

    def first_is_away(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        if request.url.host == "first":
            raise httpx.ConnectError("refused")
        return httpx.Response(200, content=b'"there"')

    transport = transport_over(flavour, first_is_away)
    flavour.run(["http://first", "http://second"], call, call, transport=transport)
    assert asked == ["first", "second", "second"]


def test_an_address_is_not_left_because_all_connections_are_in_use(flavour: Flavour) -> None:
    asked: list[str] = []

    def busy(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        raise httpx.PoolTimeout("all connections are in use")

    patience = Patience(attempts=2, first_pause_ms=1)
    options: dict[str, Any] = {"patience": patience, "transport": transport_over(flavour, busy)}
    with pytest.raises(ControllerAway):
        flavour.run(["http://first", "http://second"], once, **options)
    assert asked == ["first", "first"]


def test_an_attempt_whose_time_is_over_passes_over_no_more(flavour: Flavour) -> None:
    asked: list[str] = []

    def away(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        time.sleep(0.02)  # for longer than the attempt may take; what is measured is time, so time has to pass
        raise httpx.ConnectTimeout("timed out")

    outcome = flavour.send("http://first,http://second", timeout_ms=1, client=flavour.mocked(away))
    assert outcome == NotReached("http://first: timed out")
    assert asked == ["first"]


# -- a real controller ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    with served(tmp_path_factory.mktemp("controller") / "strandline.db") as connection:
        yield Outside(connection)


def as_list(addresses: Sequence[str]) -> Sequence[str]:
    return addresses


def as_text(addresses: Sequence[str]) -> str:
    return ", ".join(addresses)


@pytest.mark.parametrize("given", [as_list, as_text])
def test_every_client_takes_several_addresses(
    controller: Outside, closed_port: str, tmp_path: Path, given: Callable[[Sequence[str]], str | Sequence[str]]
) -> None:
    addresses = given([closed_port, controller.url])
    stream = controller.stream()
    SqliteLog.create(tmp_path / "events.log", segments=2).close()
    logs = {stream: SqliteLogReader(tmp_path / "events.log")}
    with Writer(addresses, stream, "waiting", leaving="close") as writer:
        writer.note_time(1, {"0": 1})
    with BackgroundWriter(addresses, stream, "background", leaving="close") as background_writer:
        background_writer.note_time(2, {"0": 1})
    with Background(addresses) as background, BackgroundWriter(background, stream, "shared", leaving="close") as shared:
        shared.note_time(2, {"0": 1})
    with TimeWindows(addresses, stream) as windows:
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


def test_commands_take_several_addresses_from_the_environment(controller: Outside, closed_port: str) -> None:
    stream = controller.stream()
    environment = {**os.environ, "STRANDLINE_CONTROLLER": f"{closed_port},{controller.url}"}
    done = run_command("streams", "--json", environment=environment)
    assert done.returncode == 0, done.stderr
    assert f'"{stream}"' in done.stdout
