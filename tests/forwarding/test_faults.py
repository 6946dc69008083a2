"""Owners that are gone, hang, or break off: 'nothing was done' and 'it is not known' stay apart."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import httpx
import pytest

from controller.http.forwarding.peers import PassOutcome
from controller.limits import Limits
from strandline.client import calls
from strandline.client.http import Connection
from strandline.client.retry import Patience
from strandline.errors import NotOwner, OutcomeUnknown
from tests.forwarding.conftest import STREAM, Cluster, Make, note

pytestmark = pytest.mark.full

Talk = Callable[[socket.socket], None]


class FalseOwner:
    """A server that takes connections and does with each what the test says; it counts what it was sent."""

    def __init__(self, talk: Talk) -> None:
        self.requests = 0
        self.last = b""  # of what it was sent
        self.left = threading.Event()  # a caller closed its connection
        self._talk = talk
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                taken, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(taken,), daemon=True).start()

    def _serve(self, taken: socket.socket) -> None:
        with taken, suppress(OSError):
            if sent := taken.recv(65_536):
                self.last = sent
                self.requests += 1
                self._talk(taken)
                while taken.recv(65_536):
                    pass
                self.left.set()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # else a thread in accept takes one more connection
        self._listener.close()


@pytest.fixture
def owner(cluster: Cluster) -> Iterator[Callable[[Talk], FalseOwner]]:
    """Makes a server that is no controller the owner of `s`."""
    made: list[FalseOwner] = []

    def start(talk: Talk) -> FalseOwner:
        made.append(FalseOwner(talk))
        cluster.add(9, made[-1].url)
        cluster.give("s", 9)
        return made[-1]

    yield start
    for each in made:
        each.close()


def closes(taken: socket.socket) -> None:
    taken.shutdown(socket.SHUT_RDWR)


def breaks_off(taken: socket.socket) -> None:
    head = b"HTTP/1.1 200 OK\r\nstrandline-time: 1\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n"
    taken.sendall(head + b"{")
    taken.shutdown(socket.SHUT_RDWR)


def says_nothing(taken: socket.socket) -> None:
    """It keeps the connection open."""


def answers_something_else(taken: socket.socket) -> None:
    taken.sendall(b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n{"streams": 3}')


CALLS = [("GET", "/v1/streams/s", None), ("POST", "/v1/streams/s/notes", note(1)), ("POST", "/v1/streams/s/seal", None)]


@pytest.mark.parametrize(("method", "path", "body"), CALLS)
def test_an_owner_that_refuses_connections_has_done_nothing(
    make: Make, owner: Callable[[Talk], FalseOwner], method: str, path: str, body: object
) -> None:
    first = make(1)
    owner(closes).close()
    refused = first.ask(method, path, body)
    assert (refused.status_code, refused.json()["code"], refused.headers["retry-after"]) == (503, "not_owner", "1")
    assert first.directory.looked > 1


@pytest.mark.parametrize(("method", "path", "body"), CALLS)
def test_a_lost_answer_is_not_known_and_never_repeated(
    make: Make, owner: Callable[[Talk], FalseOwner], method: str, path: str, body: object
) -> None:
    first, away = make(1), owner(closes)
    lost = first.ask(method, path, body)
    assert (lost.status_code, lost.json()["code"]) == (504, "owner_undecided")
    assert lost.json()["stream"] == "s"
    assert away.requests == 1


def test_what_is_no_controller_is_not_believed_and_the_log_says_so(
    make: Make, owner: Callable[[Talk], FalseOwner], caplog: pytest.LogCaptureFixture
) -> None:
    first = make(1)
    owner(answers_something_else)
    for method, path, body in CALLS:
        found = first.ask(method, path, body)
        assert (found.status_code, found.json()["code"]) == (504, "owner_undecided")
    (told,) = (record for record in caplog.records if record.message == "peer_not_reached")
    assert "is no controller" in vars(told)["fields"]["reason"]


def test_what_came_of_calls_to_other_controllers_is_counted(make: Make, owner: Callable[[Talk], FalseOwner]) -> None:
    first = make(1)
    away = owner(closes)
    forwarding = first.app.state.forwarding
    first.ask("GET", "/v1/streams/s")
    assert forwarding.peers.outcomes == {PassOutcome.UNDECIDED: 1}
    away.close()
    first.ask("GET", "/v1/streams/s")
    assert forwarding.peers.outcomes[PassOutcome.NOT_TAKEN] > 1
    assert first.ask("GET", "/v1/streams/mine", Strandline_Hop="1", Strandline_For="99").status_code == 503
    assert first.ask("GET", "/v1/streams/s", Strandline_Hop="1", Strandline_For="1").status_code == 503
    assert forwarding.not_owned == 2


def test_an_answer_that_breaks_off_has_no_end(make: Make, owner: Callable[[Talk], FalseOwner]) -> None:
    first = make(1)
    owner(breaks_off)
    with pytest.raises(httpx.RemoteProtocolError):
        first.ask("GET", "/v1/streams/s")
    assert first.ask("GET", "/healthz").is_success


def test_a_note_whose_answer_breaks_off_is_not_known(make: Make, owner: Callable[[Talk], FalseOwner]) -> None:
    first = make(1)
    owner(breaks_off)
    lost = first.ask("POST", "/v1/streams/s/notes", note(1))
    assert (lost.status_code, lost.json()["code"]) == (504, "owner_undecided")


@pytest.mark.parametrize("talk", [closes, breaks_off, answers_something_else])
def test_a_stream_whose_owner_gives_no_status_is_named(
    make: Make, owner: Callable[[Talk], FalseOwner], talk: Talk
) -> None:
    first = make(1)
    owner(talk)
    found = first.ask("GET", "/v1/status?stream=s").json()
    assert (found["streams"], found["unread"]) == ([], {"s": "owner_undecided"})


def test_the_owner_of_a_page_gets_no_cookies_of_other_programs(make: Make, owner: Callable[[Talk], FalseOwner]) -> None:
    first, away = make(1, dashboard=True), owner(closes)
    first.ask("GET", "/streams/s", Cookie="theirs=secret; strandline_theme=dark;strandline_zone=utc; theirs2=secret")
    assert b"strandline_theme=dark; strandline_zone=utc\r\n" in away.last and b"secret" not in away.last


def test_who_is_asked_for_its_part_asks_nobody(make: Make, owner: Callable[[Talk], FalseOwner]) -> None:
    first, away = make(1), owner(says_nothing)
    found = first.ask("GET", "/v1/status?stream=s&group=g", Strandline_Hop="1", Strandline_For="1").json()
    assert (found["streams"], found["unread"], found["unread_groups"], away.requests) == ([], {}, {}, 0)


def test_only_notes_of_the_lost_answer_are_unknown(make: Make, owner: Callable[[Talk], FalseOwner]) -> None:
    first = make(1)
    owner(closes)
    first.ask("PUT", "/v1/streams/own", STREAM)
    answer = first.ask("POST", "/v1/notes", {"notes": [note(1, stream="s"), note(1, stream="own")]})
    assert [each.get("code") for each in answer.json()["results"]] == ["owner_undecided", None]
    alone = first.ask("POST", "/v1/notes", {"notes": [note(1, stream="s"), note(2, stream="s")]})
    assert (alone.status_code, alone.json()["code"]) == (504, "owner_undecided")


def test_a_client_that_leaves_ends_the_call_to_the_owner(make: Make, owner: Callable[[Talk], FalseOwner]) -> None:
    first, hanging = make(1), owner(says_nothing)
    with pytest.raises(httpx.ReadTimeout):
        first.client.get("/v1/streams/s", timeout=1)
    assert hanging.left.wait(30)


@pytest.mark.parametrize("path", ["/v1/streams/s/notes?epoch=1", "/v1/notes?epoch=1"])
def test_a_note_with_a_parameter_is_refused_by_any_controller(make: Make, cluster: Cluster, path: str) -> None:
    first, second = make(1), make(2)
    cluster.give("s", 2)
    assert first.ask("PUT", "/v1/streams/s", STREAM).status_code == 201
    body = note(1) if "streams" in path else {"notes": [note(1, stream="s")]}
    for each in (first, second):
        refused = each.ask("POST", path, body)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid_parameter")


def test_notes_that_wait_when_a_controller_stops_are_unknown(make: Make, owner: Callable[[Talk], FalseOwner]) -> None:
    asked = threading.Event()
    first, _ = make(1), owner(lambda _: asked.set())
    heard: list[int] = []

    def ask() -> None:
        with suppress(httpx.TransportError):  # the connection may end before the answer
            heard.append(first.ask("POST", "/v1/streams/s/notes", note(1)).status_code)

    asking = threading.Thread(target=ask)
    asking.start()
    assert asked.wait(30)
    first.server.force_exit = True
    first.stop()
    asking.join(30)
    assert not asking.is_alive()
    assert heard in ([], [504])


def test_calls_whose_owner_says_nothing_are_answered_when_a_controller_stops(
    make: Make, owner: Callable[[Talk], FalseOwner]
) -> None:
    asked = threading.Semaphore(0)
    first, _ = make(1, limits=Limits(drain_s=3, stop_s=1, cut_grace_s=1)), owner(lambda _: asked.release())
    heard: list[tuple[int, str]] = []

    def ask(method: str, path: str, body: object) -> None:
        answer = httpx.request(method, f"{first.url}{path}", json=body, timeout=30, trust_env=False)
        heard.append((answer.status_code, answer.json()["code"]))

    asking = [threading.Thread(target=ask, args=call) for call in CALLS]
    for each in asking:
        each.start()
    assert all(asked.acquire(timeout=30) for _ in CALLS)
    first.stop()
    for each in asking:
        each.join(30)
    assert heard == [(504, "owner_undecided")] * len(CALLS)


def test_our_clients_tell_nothing_done_from_not_known(make: Make, owner: Callable[[Talk], FalseOwner]) -> None:
    first, gone = make(1), owner(closes)
    with Connection(first.url, patience=Patience(attempts=1)) as connection:
        with pytest.raises(OutcomeUnknown):
            connection.run(calls.scale("s", {"0": 1}, []))
        gone.close()
        with pytest.raises(NotOwner):
            connection.run(calls.scale("s", {"0": 1}, []))


def test_an_owner_with_an_invalid_address_is_away(cluster: Cluster, make: Make) -> None:
    first = make(1)
    for address in ("nonsense", "ftp://127.0.0.1", "http://[", "http://127.0.0.1:1"):
        cluster.add(9, address)
        cluster.give("s", 9)
        refused = first.ask("GET", "/v1/streams/s")
        assert (refused.status_code, refused.json()["code"]) == (503, "not_owner"), address
