"""A call that was let in, and whose body comes when its token is revoked: nothing is done."""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from controller.storage.tokens import add_token, digest_of, list_tokens, open_tokens, revoke_token
from strandline.access import Grant, Role
from strandline.redaction import TOKEN_PREFIX
from tests.served import OwnProcess

pytestmark = pytest.mark.full

WITHIN_S = 10
NOTE = json.dumps({"writer": "late", "time": 1, "position": {}}).encode()
NEW_TOKEN = json.dumps({"name": "left-behind", "role": "admin"}).encode()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[OwnProcess]:
    started = OwnProcess(tmp_path / "store.db")
    yield started
    started.kill()


def create(process: OwnProcess, name: str, role: Role = Role.ADMIN, pattern: str = "*") -> str:
    token = TOKEN_PREFIX + secrets.token_urlsafe(32)
    with open_tokens(str(process.database)) as connection:
        add_token(connection, Grant(name=name, role=role, pattern=pattern), digest_of(token.encode()), 1)
    until(process, None, 401)
    until(process, token, 200)
    return token


def until(process: OwnProcess, token: str | None, status: int) -> None:
    deadline = time.monotonic() + WITHIN_S
    while streams(process, token).status_code != status:
        assert time.monotonic() < deadline


def streams(process: OwnProcess, token: str | None, path: str = "") -> httpx.Response:
    shown = {} if token is None else {"Authorization": f"Bearer {token}"}
    return process.client.get(f"/v1/streams{path}", headers=shown)


def begin(process: OwnProcess, path: str, body: bytes, *headers: str, method: str = "POST") -> socket.socket:
    """A call, all but its body."""
    opened = socket.create_connection(("127.0.0.1", port_of(process)), timeout=WITHIN_S)
    named = (f"Host: localhost:{port_of(process)}", f"Content-Length: {len(body)}", "Content-Type: application/json")
    head = (f"{method} {path} HTTP/1.1", *named, "Connection: close", *headers, "", "")
    opened.sendall("\r\n".join(head).encode())
    time.sleep(0.2)  # it is let in
    return opened


def port_of(process: OwnProcess) -> int:
    return httpx.URL(process.url).port or 0


def end(opened: socket.socket, body: bytes) -> bytes:
    with opened:
        opened.sendall(body)
        return b"".join(iter(lambda: opened.recv(65_536), b""))


def names(process: OwnProcess) -> list[str]:
    with open_tokens(str(process.database)) as connection:
        return [each.grant.name for each in list_tokens(connection)]


def test_a_token_that_is_made_or_revoked_before_the_body_comes_changes_nothing(process: OwnProcess) -> None:
    process.client.put("/v1/streams/s", json={"segments": 1})
    note = begin(process, "/v1/streams/s/notes", NOTE)
    anna, ben = create(process, "anna"), create(process, "ben")
    assert b" 401 " in end(note, NOTE).partition(b"\r\n")[0]  # the first token was made meanwhile

    note = begin(process, "/v1/streams/s/notes", NOTE, f"Authorization: Bearer {anna}")
    cookie = f"Cookie: strandline_token={anna}"
    minted = begin(process, "/tokens", NEW_TOKEN, cookie, f"Origin: http://localhost:{port_of(process)}")
    with open_tokens(str(process.database)) as connection:
        revoke_token(connection, "anna", 2)
    until(process, anna, 401)

    assert b" 401 " in end(note, NOTE).partition(b"\r\n")[0]
    assert b" 201 " not in end(minted, NEW_TOKEN).partition(b"\r\n")[0]

    assert streams(process, ben, "/s/writers").json()["writers"] == []
    assert "left-behind" not in names(process)


def test_a_group_that_is_made_while_a_body_comes_is_checked_for_its_streams(process: OwnProcess) -> None:
    admin, reader = create(process, "admin"), create(process, "reader", Role.READER, "orders")
    shown = {"Authorization": f"Bearer {admin}"}
    assert process.client.put("/v1/streams/secret", json={"segments": 1}, headers=shown).is_success
    body = json.dumps({"positions": {}}).encode()
    path = "/v1/reader-groups/g/readers/r"
    register = begin(process, path, body, f"Authorization: Bearer {reader}", method="PUT")

    group = process.client.put("/v1/reader-groups/g", json={"streams": ["secret"]}, headers=shown)

    assert group.is_success
    assert b" 403 " in end(register, body).partition(b"\r\n")[0]
    assert process.client.get("/v1/reader-groups/g", headers=shown).json()["readers"] == []
