"""`strandline serve --name`: controllers in processes of their own, which callers reach over HTTP."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import httpx
import pytest

from controller.http.browser_gate import BrowserGate
from controller.server import check_name
from controller.settings import Settings
from controller.terminal import TAKEN_OVER_STATUS, Failure
from strandline.errors import WrongHost
from tests.ports import free_port
from tests.postgres import Postgres
from tests.served import OwnProcess

pytestmark = pytest.mark.full

STREAMS = [f"s{number}" for number in range(8)]
STREAM = {"segments": 1, "max_ahead_ms": None, "mark_interval_ms": 0}
PATIENCE_S = 30

Start = Callable[[str, str], OwnProcess]


@pytest.fixture
def start() -> Iterator[Start]:
    with ExitStack() as ended:

        def started(url: str, name: str) -> OwnProcess:
            port = free_port()
            address = f"http://127.0.0.1:{port}"
            process = OwnProcess(url, "--name", name, "--address", address, "--client-address", address, port=port)
            ended.callback(end, process)
            return process

        yield started


def end(process: OwnProcess) -> None:
    if process.process.poll() is None:
        process.kill()


def until(ask: Callable[[], httpx.Response], fits: Callable[[httpx.Response], bool]) -> httpx.Response:
    """Asks until the answer fits, as a client does that repeats its calls."""
    deadline, said = time.monotonic() + PATIENCE_S, "nothing"
    while time.monotonic() < deadline:
        try:
            answer = ask()
        except httpx.TransportError as error:
            said = repr(error)
            continue
        if fits(answer):
            return answer
        said = f"{answer.status_code} {answer.text}"
    raise AssertionError(f"for {PATIENCE_S} s the answer was not what it has to be, the last one: {said}")


def done(process: OwnProcess, method: str, path: str, body: Any = None) -> httpx.Response:
    return until(lambda: process.client.request(method, path, json=body), lambda answer: answer.is_success)


def create_all(process: OwnProcess) -> None:
    for stream in STREAMS:
        done(process, "PUT", f"/v1/streams/{stream}", STREAM)


def note_all(process: OwnProcess, moment: int) -> None:
    """Notes in every stream; a note that was taken before may be refused when it is sent again."""
    note = {"writer": "w", "time": moment, "position": {"0": moment}}
    for stream in STREAMS:
        until(
            partial(process.client.post, f"/v1/streams/{stream}/notes", json=note),
            lambda answer: answer.is_success or answer.json()["code"] == "time_went_back",
        )


def gapless(processes: Sequence[OwnProcess], last: int) -> None:
    """Every controller tells the marks of every stream, each once."""
    for process in processes:
        for stream in STREAMS:
            marks = done(process, "GET", f"/v1/streams/{stream}/marks").json()["marks"]
            assert [(mark["seq"], mark["time"]) for mark in marks] == [(at, at) for at in range(1, last + 1)]


def test_every_controller_takes_calls_for_every_stream(postgres_url: str, start: Start) -> None:
    one, two = start(postgres_url, "one"), start(postgres_url, "two")
    create_all(one)
    for moment, process in enumerate((one, two, one), 1):
        note_all(process, moment)
    gapless([one, two], 3)
    owners = {done(one, "GET", f"/v1/streams/{stream}").headers.get("strandline-owner") for stream in STREAMS}
    assert owners <= {one.url, two.url}


def test_the_others_serve_all_streams_after_a_kill(postgres_url: str, start: Start) -> None:
    one, two = start(postgres_url, "one"), start(postgres_url, "two")
    create_all(one)
    note_all(one, 1)
    one.kill()
    note_all(two, 2)
    gapless([two], 2)


def test_a_controller_that_is_told_to_end_hands_over(postgres_url: str, start: Start) -> None:
    one, two = start(postgres_url, "one"), start(postgres_url, "two")
    create_all(one)
    note_all(one, 1)
    assert one.stop() == 0 and one.errors == ""
    note_all(two, 2)
    gapless([two], 2)


def test_who_waits_is_answered_at_a_hand_over_and_goes_on_by_seq(postgres_url: str, start: Start) -> None:
    one = start(postgres_url, "one")
    create_all(one)
    note_all(one, 1)  # it has every stream
    with ThreadPoolExecutor(len(STREAMS)) as threads:
        waits = [threads.submit(live, one.url, stream) for stream in STREAMS[:4]]
        waits += [threads.submit(long_poll, one.url, stream) for stream in STREAMS[4:]]
        two = start(postgres_url, "two")
        assert one.stop() == 0 and one.errors == ""
        for wait in waits:
            assert wait.result() in ("moved", "[]")
    note_all(two, 2)
    for stream in STREAMS:
        marks = done(two, "GET", f"/v1/streams/{stream}/marks?after=1").json()["marks"]
        assert [mark["seq"] for mark in marks] == [2]


def live(url: str, stream: str) -> str:
    """How a stream of events ends."""
    with httpx.stream("GET", f"{url}/v1/streams/{stream}/marks/live?after=1", timeout=PATIENCE_S) as answer:
        ended = [line for line in answer.iter_lines() if "reason" in line]
    return str(json.loads(ended[-1].removeprefix("data: "))["reason"])


def long_poll(url: str, stream: str) -> str:
    answer = httpx.get(f"{url}/v1/streams/{stream}/marks?after=1&wait_ms=25000", timeout=PATIENCE_S)
    return str(answer.raise_for_status().json()["marks"])


def test_a_controller_alone_ends_and_comes_back_with_everything(postgres_url: str, start: Start) -> None:
    first = start(postgres_url, "one")
    create_all(first)
    note_all(first, 1)
    assert first.stop() == 0 and first.errors == ""
    again = start(postgres_url, "one")
    note_all(again, 2)
    gapless([again], 2)


def test_a_later_controller_of_the_same_name_ends_the_earlier(postgres_url: str, start: Start) -> None:
    first = start(postgres_url, "one")
    create_all(first)
    note_all(first, 1)
    second = start(postgres_url, "one")
    note_all(second, 2)
    first.process.wait(PATIENCE_S)
    assert first.stop() == TAKEN_OVER_STATUS
    assert f"another controller named 'one' began to serve, at {second.url}" in first.errors
    gapless([second], 2)
    assert second.stop() == 0
    assert "WARNING former_ended controller=one name=one" in second.errors


def test_two_controllers_with_one_address_both_say_so_and_lose_nothing(postgres_url: str, start: Start) -> None:
    one = start(postgres_url, "one")
    create_all(one)
    note_all(one, 1)
    twin = OwnProcess(postgres_url, "--name", "twin", "--address", one.url)
    try:
        note_all(twin, 2)
        until(lambda: one.client.get("/v1/controllers"), lambda answer: "twin" in answer.text)
        assert twin.stop() == 0
    finally:
        end(twin)
    note_all(one, 3)
    gapless([one], 3)
    assert one.stop() == 0
    assert "WARNING same_address controller=twin name=one" in twin.errors
    assert "WARNING same_address controller=one name=twin" in one.errors


def test_a_controller_without_a_lease_is_not_ready(new_postgres: Callable[..., Postgres], start: Start) -> None:
    postgres = new_postgres()
    one = start(postgres.new_database(), "one")
    create_all(one)
    postgres.stop(signal.SIGQUIT)
    until(
        lambda: one.client.get("/readyz"),
        lambda answer: answer.status_code == 503 and "holds no lease" in answer.json()["detail"],
    )
    refused = one.client.get(f"/v1/streams/{STREAMS[0]}")
    assert (refused.status_code, refused.json()["code"]) == (503, "store_unavailable")
    postgres.start()
    done(one, "GET", "/readyz")
    note_all(one, 1)


def test_other_controllers_may_call_by_the_address_that_they_know() -> None:
    call = {
        "type": "http",
        "method": "GET",
        "path": "/v1/streams",
        "server": ("10.0.0.1", 8433),
        "headers": [(b"host", b"one.internal:8433")],
    }
    headers = {b"host": b"one.internal:8433"}
    BrowserGate((), "0.0.0.0", "one.internal", insecure=True).check(call, headers, tokens_required=False)
    with pytest.raises(WrongHost):
        BrowserGate((), "0.0.0.0", insecure=True).check(call, headers, tokens_required=False)


def test_sqlite_takes_no_second_controller(tmp_path: Any, start: Start) -> None:
    with pytest.raises(AssertionError, match="one controller serves alone: several need PostgreSQL"):
        start(str(tmp_path / "store.db"), "one")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"address": "http://10.0.0.1:8433"}, "--address is for a controller that serves together with others"),
        ({"client_address": "http://10.0.0.1:8433"}, "--client-address is for a controller that serves together"),
        ({"name": "a"}, "--name needs the --address"),
        ({"name": "a b", "address": "http://10.0.0.1:8433"}, "--name: .*'a b'"),
        ({"name": "a", "address": "10.0.0.1:8433"}, "--address is no address of a controller"),
        ({"name": "a", "address": "http://10.0.0.1:8433/path"}, "--address is no address of a controller"),
        ({"name": "a", "address": "http://a,http://b"}, "--address is no address of a controller"),
        ({"name": "a", "address": "http://a", "client_address": "ftp://a"}, "--client-address is no address"),
    ],
)
def test_a_name_without_a_usable_address_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(Failure, match=said) as refused:
        check_name(Settings(**given))
    assert refused.value.status == 2
