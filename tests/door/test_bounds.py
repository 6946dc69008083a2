"""Nothing that a caller sends is without a bound, before any token is looked at. Over real sockets, and over TLS."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from controller.limits import DEFAULT_LIMITS
from tests.door.raw import Answer, Raw, memory_mib
from tests.served import OwnProcess
from tests.tokens.test_serving import Certificate, certificate

__all__ = ["certificate"]

GET = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/streams/s/notes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
NOTE = b'{"writer":"w","time":1,"position":{}}'
HEAD_BYTES, PIPELINED_REQUESTS = DEFAULT_LIMITS.head_bytes, DEFAULT_LIMITS.pipelined_requests
MIB = 1024 * 1024
FLOOD_BYTES = 48 * MIB  # more than any of it may take


def headers(count: int, value: bytes = b"y") -> bytes:
    return b"".join(b"X-%d: %b\r\n" % (number, value) for number in range(count))


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, certificate: Certificate
) -> Iterator[tuple[OwnProcess, ssl.SSLContext]]:
    trusted = ssl.create_default_context(cafile=certificate.certificate)
    options = ("--ssl-certfile", certificate.certificate, "--ssl-keyfile", certificate.key)
    process = OwnProcess(tmp_path_factory.mktemp("tls") / "store.db", *options, trusted=trusted)
    yield process, trusted
    assert process.stop() == 0 and "Traceback" not in process.log


# -- what is within the bounds, and just past them -----------------------------------------------------------------


@pytest.mark.parametrize(
    "head",
    [
        GET + headers(4_000) + b"\r\n",
        GET + b"X: " + b"y" * 60_000 + b"\r\n\r\n",
        GET.replace(b" HTTP", b"?" + b"q" * 60_000 + b" HTTP") + b"\r\n",
    ],
)
@pytest.mark.parametrize("split", [1 << 20, 1_000])
def test_a_head_within_the_bound_is_taken_in_any_pieces(served: OwnProcess, head: bytes, split: int) -> None:
    assert len(head) < HEAD_BYTES
    with Raw(served) as raw:
        for start in range(0, len(head), split):
            raw.send(head[start : start + split])
        assert raw.answer().status == 200
        assert raw.send(GET + b"\r\n").answer().status == 200  # and the connection goes on


def test_bounded_chunks_and_trailers_pass_and_set_no_headers(served: OwnProcess) -> None:
    chunks = b"".join(b"1;extension=%d\r\n%b\r\n" % (at, NOTE[at : at + 1]) for at in range(len(NOTE)))
    trailers = b"Host: evil.example\r\nOrigin: http://evil.example\r\nContent-Type: text/plain\r\n"
    with Raw(served) as raw:
        for _ in range(2):
            assert raw.send(CHUNKED + chunks + b"0\r\n" + trailers + b"\r\n").answer().status == 200
        assert raw.send(GET + b"\r\n").answer().status == 200  # to which nothing of the trailers came over


def test_so_many_requests_may_wait_on_a_connection_and_no_more(served: OwnProcess) -> None:
    poll = b"GET /v1/streams/s/marks?after=999&wait_ms=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with Raw(served) as raw:
        raw.send(poll + (GET + b"\r\n") * PIPELINED_REQUESTS)
        assert [raw.answer().status for _ in range(PIPELINED_REQUESTS + 1)][1:] == [200] * PIPELINED_REQUESTS
    with Raw(served) as raw:
        assert raw.send(poll + (GET + b"\r\n") * (PIPELINED_REQUESTS + 9)).is_closed()


# -- what has no end -----------------------------------------------------------------------------------------------


def repeated(piece: bytes) -> Iterator[bytes]:
    many = piece * (65_536 // len(piece))
    return (many for _ in range(FLOOD_BYTES // len(many)))


def numbered() -> Iterator[bytes]:
    return (b"".join(b"X-%d-%d: y\r\n" % (at, each) for each in range(4_000)) for at in range(FLOOD_BYTES // 50_000))


FLOODS: dict[str, tuple[bytes, Callable[[], Iterator[bytes]], int]] = {
    "headers": (GET, numbered, 0),
    "the name of a header": (GET, lambda: repeated(b"a"), 0),
    "the value of a header": (GET + b"X: ", lambda: repeated(b"a"), 0),
    "a URL": (b"GET /healthz?", lambda: repeated(b"a"), 0),
    "trailers": (CHUNKED + b"0\r\n", numbered, 0),
    "the value of a trailer": (CHUNKED + b"0\r\nX: ", lambda: repeated(b"a"), 0),
    "a chunk's extension": (CHUNKED + b"5;x=", lambda: repeated(b"a"), 0),
    "a chunk's size": (CHUNKED, lambda: repeated(b"0"), 0),
    "a body in chunks": (CHUNKED, lambda: repeated(b"1000\r\n" + b" " * 4_096 + b"\r\n"), 413),
    "a body of a length": (POST + b"Content-Length: 999999999\r\n\r\n", lambda: repeated(b" "), 413),
    "a form": (
        b"POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
        b"Content-Length: 999999999\r\n\r\ntoken=",
        lambda: repeated(b"a"),
        413,
    ),
    "requests": (
        b"",
        lambda: repeated(b"GET /v1/streams/s/marks?after=999&wait_ms=30000 HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        0,
    ),
}


def flood(process: OwnProcess, what: str, trusted: ssl.SSLContext | None = None) -> tuple[Answer | None, int]:
    """The answer to something without end, and what is sent of it until nobody takes it any more."""
    first, rest, status = FLOODS[what]
    with Raw(process, trusted) as raw:
        raw.socket.settimeout(3)  # one that is not read any more, and not closed either, is bounded as well
        raw.send(first)
        sent = raw.send_until_refused(rest())
        raw.socket.settimeout(60)
        try:
            return (raw.answer() if status else None), sent
        except OSError:
            return None, sent  # it was closed while this was still sending: the answer is lost


OVER_TLS = ("headers", "the value of a header", "a URL", "trailers", "a body in chunks")


@pytest.mark.parametrize(
    ("what", "tls"), [*((each, False) for each in FLOODS), *((each, True) for each in OVER_TLS)], ids=str
)
def test_what_has_no_end_is_refused_and_takes_no_memory(
    served: OwnProcess, secured: tuple[OwnProcess, ssl.SSLContext], what: str, tls: bool
) -> None:
    process, trusted = secured if tls else (served, None)
    before = memory_mib(process.process.pid)

    # OpenSSL keeps a thread's errors: with 3.5, the next read of another connection in this thread failed with that of
    # a flood that was refused.
    with ThreadPoolExecutor(1) as thread:
        answer, sent = thread.submit(flood, process, what, trusted).result()

    assert sent < FLOOD_BYTES
    assert memory_mib(process.process.pid) - before < 16
    assert answer is None or answer.status == FLOODS[what][2]
    assert process.client.get("/healthz").status_code == 200


def test_who_stops_sending_reads_why_it_was_turned_away(served: OwnProcess) -> None:
    for what, (first, rest, status) in FLOODS.items():
        if not status:
            continue
        pieces = rest()
        with Raw(served) as raw:
            raw.send(first)
            for _ in range(24):  # enough to be turned away, and less than what the kernel keeps of it
                raw.send(next(pieces))
            assert raw.answer().status == status, what
