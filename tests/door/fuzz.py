"""Raw bytes for a real controller: requests that are wrong in some way, and bytes that are no requests at all.

    python -m tests.door.fuzz --requests 200000 --seed 7

Whatever comes in, no answer may be a 500, the log has no traceback, memory stays bounded, the controller goes on
answering, and what callers without a token sent has changed nothing in the store. A second half shows the right token,
so that it gets further in. A failure says its seed; with the same seed the same bytes are made.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import secrets
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from controller.http.routes import ROUTES as OF_THE_API
from controller.storage.tokens import add_token, digest_of, open_tokens
from strandline.access import Grant, Role
from strandline.redaction import TOKEN_PREFIX
from tests.served import NOON, OwnProcess

AT_ONCE: Final = 64  # connections
ANSWER_S: Final = 0.3  # after that a connection is given up: it may wait for the rest of a body
GROWTH_MIB: Final = 300  # of the controller's memory
BATCH: Final = 2_000  # cases, after which the controller is looked at

COUNTS: Final = (*(1, 1, 1, 1, 2, 3, 5) * 20, 80)  # requests on a connection
METHODS: Final = ("GET", "GET", "POST", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
ODD_METHODS: Final = ("TRACE", "CONNECT", "PRI", "get", "GE\0T", "BREW", "M-SEARCH", "", "\xff")
NAMES: Final = (
    "s", "s", "s", "w", "g", "none", "%00", "%ff", "%1b[2J", "%2e%2e", "a" * 249, "a" * 300, "..", "{stream}",
)  # fmt: skip
ODD_NAMES: Final = ("ä", "\x1b[2J", "", "%", "\r", " ", "#", "?")
ROUTES: Final = (
    *(re.sub(r"{\w+}", "{}", each.call) for each in OF_THE_API if each.permission is not None),
    *("POST /v1/streams/{}/notes", "POST /v1/streams/{}/time-window") * 5,  # the calls that come most
)
PATHS: Final = (
    "/v1/streams/{}/marks/at?time={}", "/v1/streams/{}/segments/{}/time-index?token={}",
    "/v1/streams/{}/journal?after={}&limit={}", "/healthz", "/readyz", "/metrics", "/docs", "/openapi.json", "/",
    "/sign-in", "/sign-out", "/streams/{}", "/streams/{}/writers/{}", "/reader-groups/{}", "/{}",
    "/acts/{}?stream={}&writer={}", "/static/{}", "/lag", "/journal?search={}", "/tokens",
)  # fmt: skip
TARGETS: Final = (
    "*",
    "",
    "//",
    "http://127.0.0.1/healthz",
    "http://evil.example/v1/streams",
    "http://",
    "a:80",
    "?",
    "#",
    "\\",
    "/\r",
    "/ /",
)
ODD_VERSIONS: Final = ("HTTP/1.0", "HTTP/0.9", "HTTP/2.0", "HTTP/1.2", "HTTP/11", "http/1.1", "", "HTTP/1.1 ")
HEADERS: Final = (
    "Origin: http://127.0.0.1", "Origin: null", "Origin: http://evil.example", "Sec-Fetch-Site: cross-site",
    "Sec-Fetch-Site: same-origin", "X-Forwarded-Host: evil.example, b", "X-Forwarded-Prefix: /<script>",
    "Content-Type: text/plain", "Content-Type: application/json", "Content-Type: application/x-www-form-urlencoded",
    "Content-Type: multipart/form-data; boundary=x", "Expect: 100-continue", "Expect: 200", "Connection: close",
    "Connection: keep-alive, Upgrade", "Connection: ,,,", "Upgrade: websocket", "Upgrade: h2c", "Upgrade: \x80",
    "Sec-WebSocket-Version: 13", "Sec-WebSocket-Version: 8", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Key: x", "HTTP2-Settings: AAMAAABkAAQAAP__", "Authorization: Bearer slt_x",
    "Authorization: Bearer", "Authorization: \xff", "Cookie: strandline_token=\xff; a=b", "Cookie: a;;=",
    "X-Request-Id: a\tb", "X-Request-Id: " + "a" * 200, "Last-Event-ID: \x80", "Accept-Encoding: gzip",
    "Range: bytes=0-", "X: " + "y" * 20_000, "If-None-Match: *", "Accept: text/markdown", "Trailer: Host",
)  # fmt: skip
ODD_HEADERS: Final = (
    "Host:", "Host: a b", "Origin: \x00", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: chunked, chunked",
    "Transfer-Encoding : x", "Content-Length: -1", "Content-Length: 5, 5", "Content-Length: 99999999999999999999",
    "\x00: a", "a b: c", ": d", "no colon", " folded", "X-A: \x0b\x0c", "Host: [::1]:1", "Host: 127.0.0.1:99999999",
    "Host: 127.0.0.1", "Host: evil.example", "Content-Length: 0", "Content-Length: 5", "Transfer-Encoding: chunked",
)  # fmt: skip
BODIES: Final = (
    b"", b"{}", b"[]", b"null", b'{"writer":"w","time":1,"position":{"0":1}}', b'{"segments":1}',
    b'{"notes":[{"writer":"w"}]}', b'{"position":{}}', b'{"position":{"0":1}}', b"token=slt_x&next=//evil.example",
    b"--x\r\nContent-Disposition: form-data; name=token\r\n\r\ny\r\n--x--", b'{"streams":["s"]}', b"\xff\xfe",
    b"[" * 5_000, b'{"a":' * 40, b"1e999", b'{"writer":"\\ud800","time":NaN}', b"0" * 70_000, b'42["event",{"id":1}]',
    b"GET /v1/streams HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
)  # fmt: skip
SCRAPS: Final = (
    b"\r\n", b"\n", b"\r", b"\x00", b" ", b":", b"\xff", b"\r\n\r\n", b"0\r\n\r\n", b"%", b"HTTP/1.1", b"chunked",
    b"A" * 9_000,
)  # fmt: skip
PASSING: Final = ('INSERT INTO "service"', 'INSERT INTO "controller"', 'INSERT INTO "token"')
STATUS: Final = 'INSERT INTO "stream_status"'  # stored up to a second after what it shows
LASTING: Final = {"max_ahead_ms": None, "writer_timeout_ms": None}
LAST: Final = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Case:
    """What is sent on one connection, in which pieces, how many requests it was made of, and how it ends."""

    pieces: list[bytes]
    requests: int
    ending: str


class Maker:
    """Makes cases from a seed."""

    def __init__(self, seed: int, token: str | None = None) -> None:
        self._random = random.Random(seed)
        self._token = token

    def case(self) -> Case:
        draw = self._random
        count = draw.choice(COUNTS)
        if draw.random() < 0.05:
            sent = draw.randbytes(draw.randrange(1, 3_000))
        else:
            sent = b"".join(self._request() for _ in range(count))
        if draw.random() < 0.4:
            for _ in range(draw.randrange(1, 4)):
                sent = self._damage(sent)
        if draw.random() < 0.7:
            sent += LAST
        cuts = sorted(draw.randrange(len(sent) + 1) for _ in range(draw.choice((0, 0, 1, 3))))
        pieces = [sent[first:last] for first, last in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
        return Case(pieces, count, draw.choice(("read",) * 8 + ("abort", "half")))

    def _request(self) -> bytes:
        draw = self._random
        method, target = draw.choice(ROUTES).split(" ")
        if draw.random() < 0.3:
            method, target = draw.choice(METHODS), draw.choice(PATHS if draw.random() < 0.9 else TARGETS)
        names = NAMES if draw.random() < 0.97 else ODD_NAMES
        target = target.format(*(draw.choice(names) for _ in range(target.count("{}")))) if "{}" in target else target
        if draw.random() < 0.02:
            target += "?" + "q" * draw.choice((100, 8_000, 9_000, 70_000))
        headers = draw.sample(HEADERS, draw.choice((0, 0, 0, 1, 1, 2, 6)))
        if draw.random() < 0.05:
            headers.append(draw.choice(ODD_HEADERS))
        if draw.random() < 0.97:
            headers.append("Host: 127.0.0.1")
        if self._token is not None and draw.random() < 0.9:
            headers.append(f"Authorization: Bearer {self._token}")
        if draw.random() < 0.02:
            headers += [f"X-{number}: y" for number in range(draw.choice((90, 150, 3_000)))]
        framing, body = self._body()
        headers += framing
        draw.shuffle(headers)
        end = draw.choice(("\r\n",) * 40 + ("\n",))
        if draw.random() < 0.05:
            method = draw.choice(METHODS if draw.random() < 0.5 else ODD_METHODS)
        version = "HTTP/1.1" if draw.random() < 0.95 else draw.choice(ODD_VERSIONS)
        head = end.join([f"{method} {target} {version}", *headers, "", ""])
        return head.encode("latin-1", "replace") + body

    def _body(self) -> tuple[list[str], bytes]:
        draw = self._random
        body = draw.choice(BODIES)
        match draw.choice(("none", "none", "length", "length", "wrong length", "chunks", "chunks", "bad chunks")):
            case "none":
                return [], b""
            case "length":
                return [f"Content-Length: {len(body)}"], body
            case "wrong length":
                return [f"Content-Length: {max(0, len(body) + draw.choice((-3, -1, 1, 40)))}"], body
            case kind:
                return ["Transfer-Encoding: chunked"], self._chunks(body, bad=kind == "bad chunks")

    def _chunks(self, body: bytes, *, bad: bool) -> bytes:
        draw, parts = self._random, []
        size = draw.choice((1, 7, 100_000)) if len(body) < 1_000 else 100_000
        for start in range(0, len(body), size):
            chunk = body[start : start + size]
            extension = draw.choice((b"",) * 5 + (b";a=b", b';a="b;c"', b";" + b"e" * 500, b"; "))
            length = len(chunk) + (draw.choice((-1, 1, 9)) if bad and draw.random() < 0.3 else 0)
            parts.append(b"%x%b\r\n%b\r\n" % (max(0, length), extension, chunk))
        trailers = draw.choice(
            (b"",) * 5 + (b"A: b\r\n", b"Host: evil.example\r\n", b"Authorization: Bearer x\r\n" * 50)
        )
        return (
            b"".join(parts)
            + draw.choice((b"0", b"000", b"0;x") if not bad else (b"0", b"-1", b"g"))
            + b"\r\n"
            + trailers
            + b"\r\n"
        )

    def _damage(self, sent: bytes) -> bytes:
        draw = self._random
        first = draw.randrange(len(sent) + 1)
        last = min(len(sent), first + draw.choice((0, 1, 1, 5, 200)))
        match draw.choice(("cut", "put", "replace", "flip", "twice", "end")):
            case "cut":
                return sent[:first] + sent[last:]
            case "put":
                return sent[:first] + draw.choice(SCRAPS) + sent[first:]
            case "replace":
                return sent[:first] + draw.choice(SCRAPS) + sent[last:]
            case "flip" if first < len(sent):
                return sent[:first] + bytes([sent[first] ^ (1 << draw.randrange(8))]) + sent[first + 1 :]
            case "twice":
                return sent[:last] + sent[first:]
            case _:
                return sent[:first]


async def send(port: int, case: Case) -> bytes:
    """What comes back on a connection of its own."""
    got = b""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return got
    try:
        for piece in case.pieces:
            writer.write(piece)
            await asyncio.sleep(0)
        if case.ending == "half":
            writer.write_eof()
        if case.ending != "abort":
            async with asyncio.timeout(ANSWER_S):
                while more := await reader.read(1 << 16):
                    got += more
    except (OSError, TimeoutError):
        pass
    finally:
        writer.transport.abort()
    return got


def statuses(got: bytes) -> list[str]:
    """Those of the answers. Within a body no line can end like this, since JSON and HTML have it escaped."""
    return [line[9:12].decode() for line in got.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]


async def attack(port: int, cases: list[Case]) -> Counter[str]:
    """Sends all cases, some at once; how often each status came. Raises AssertionError for a 500."""
    found: Counter[str] = Counter()
    left = iter(cases)

    async def one_after_another() -> None:
        for case in left:
            got = await send(port, case)
            for status in statuses(got):
                found[status] += 1
                assert status != "500", f"answered with {got!r}: {case.pieces!r}"

    await asyncio.gather(*(one_after_another() for _ in range(AT_ONCE)))
    return found


def memory_mib(process_id: int) -> int:
    lines = Path(f"/proc/{process_id}/status").read_text().splitlines()
    return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmRSS"))


def content(database: Path) -> list[str]:
    """All that the store holds, but for what changes with time alone: how long it was served, which tokens were used,
    and when a segment was last noted, which it hears of a minute later."""
    with sqlite3.connect(database) as connection:
        lines = [line for line in connection.iterdump() if not line.startswith(PASSING)]
    return [line.rpartition(",")[0] if line.startswith('INSERT INTO "segment"') else line for line in lines]


class Target:
    """A controller with tokens, a stream, a writer and a reader group."""

    def __init__(self, database: Path) -> None:
        self.database = database
        self.token = TOKEN_PREFIX + secrets.token_urlsafe(32)
        with open_tokens(str(database), make=True) as connection:
            grant = Grant(name="admin", role=Role.ADMIN, pattern="*")
            add_token(connection, grant, digest_of(self.token.encode()), NOON)
        self.process = OwnProcess(database, "--access-log")
        self.port = self.process.client.base_url.port or 0
        self.process.client.headers["Authorization"] = f"Bearer {self.token}"
        self.fill()

    def fill(self) -> None:
        client = self.process.client
        client.put("/v1/streams/s", json={"segments": 1, **LASTING})
        client.post("/v1/streams/s/notes", json={"writer": "w", "time": 1, "position": {"0": 1}})
        client.put("/v1/reader-groups/g", json={"streams": ["s"]})
        while not any(STATUS in line and '"notes":1' in line for line in content(self.database)):
            time.sleep(0.05)

    def check_alive(self) -> None:
        assert self.process.client.get("/healthz").json() == {"status": "ok"}
        assert self.process.client.get("/readyz").json()["status"] == "ready"

    def stop(self) -> None:
        """Ends it, and looks at its log."""
        assert self.process.stop() == 0
        lines = self.process.log.splitlines()
        wrong = [number for number, line in enumerate(lines) if "Traceback" in line or "request_failed" in line]
        assert wrong == [], "\n".join(lines[wrong[0] : wrong[0] + 140])


def run(target: Target, seed: int, requests: int, *, inside: bool, tell: bool = False) -> Counter[str]:
    """Attacks with at least so many requests, as a stranger or with the right token."""
    maker = Maker(seed, target.token if inside else None)
    asyncio.run(attack(target.port, [maker.case() for _ in range(200)]))  # what is made once is there now
    before_mib, before, found, sent, began = (
        memory_mib(target.process.process.pid),
        content(target.database),
        Counter[str](),
        0,
        time.monotonic(),
    )
    while sent < requests:
        cases = [maker.case() for _ in range(min(BATCH, requests - sent))]
        sent += sum(case.requests for case in cases)
        found += asyncio.run(attack(target.port, cases))
        target.check_alive()
        grown = memory_mib(target.process.process.pid) - before_mib
        assert grown < GROWTH_MIB, f"it took {grown} MiB more"
        if tell:
            took = time.monotonic() - began
            sys.stdout.write(
                f"{sent} requests in {took:.0f} s, {grown} MiB more, {json.dumps(dict(sorted(found.items())))}\n"
            )
            sys.stdout.flush()
    if not inside:
        changed = sorted(set(before) ^ set(content(target.database)))
        assert changed == [], f"strangers changed the store: {changed[:4]}"
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.door.fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1_000_000))
    options = parser.parse_args()
    sys.stdout.write(f"seed {options.seed}\n")
    with tempfile.TemporaryDirectory() as folder:
        target = Target(Path(folder, "store.db"))
        try:
            for inside in (False, True):
                run(target, options.seed, options.requests // 2, inside=inside, tell=True)
        finally:
            target.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
