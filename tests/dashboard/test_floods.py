"""The dashboard keeps state for visitors who have signed in, in bounded numbers, and for nobody else."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import websockets
from websockets.exceptions import ConnectionClosed

from controller.dashboard.limits import CHANNEL_BYTES, PAGES
from controller.storage.tokens import add_token, digest_of, open_tokens
from strandline.access import Grant, Role
from strandline.redaction import TOKEN_PREFIX
from tests.served import NOON, OwnProcess

pytestmark = pytest.mark.full

CHANNEL = "/_nicegui_ws/socket.io/?EIO=4"
MIB = 1 << 20


class Flooded:
    """A served controller with one token, and how much memory it has."""

    def __init__(self, database: Path) -> None:
        self.token = TOKEN_PREFIX + secrets.token_urlsafe(32)
        with open_tokens(str(database), make=True) as connection:
            grant = Grant(name="anna", role=Role.READER)
            add_token(connection, grant, digest_of(self.token.encode()), NOON)
        self.process = OwnProcess(database)
        self.client = self.process.client
        self.cookie = f"strandline_token={self.token}"

    def memory(self) -> int:
        status = Path(f"/proc/{self.process.process.pid}/status").read_text()
        return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))

    def url(self, transport: str) -> str:
        scheme = "ws" if transport == "websocket" else "http"
        return f"{self.process.url.replace('http', scheme, 1)}{CHANNEL}&transport={transport}"


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flooded]:
    served = Flooded(tmp_path_factory.mktemp("flooded") / "store.db")
    yield served
    served.process.stop()


def test_pages_and_channels_of_nobody_take_no_memory(flooded: Flooded) -> None:
    paths = ("/sign-in", "/", "/streams/orders", f"{CHANNEL}&transport=polling")
    for path in paths:  # what is imported and cached at the first call is not what is counted
        flooded.client.get(path)
    before = flooded.memory()

    for path in paths:
        status = {"/sign-in": 200, "/": 303, "/streams/orders": 303}.get(path, 401)
        assert {flooded.client.get(path).status_code for _ in range(400)} == {status}, path

    assert flooded.memory() - before < 20 * MIB  # 400 pages of the library take 55 MiB


def test_a_channel_over_a_websocket_takes_a_visitor_who_has_signed_in(flooded: Flooded) -> None:
    async def opened(headers: dict[str, str]) -> bool:
        try:
            async with websockets.connect(flooded.url("websocket"), additional_headers=headers) as channel:
                return str(await channel.recv()).startswith("0{")
        except websockets.exceptions.InvalidStatus:
            return False

    assert not asyncio.run(opened({}))
    assert not asyncio.run(opened({"Cookie": "strandline_token=slt_of-nobody"}))
    assert asyncio.run(opened({"Cookie": flooded.cookie}))


def test_a_large_frame_ends_its_channel_and_takes_no_memory(flooded: Flooded) -> None:
    async def send_large() -> list[int | None]:
        closed = []
        for _ in range(10):
            async with websockets.connect(
                flooded.url("websocket"), additional_headers={"Cookie": flooded.cookie}, compression=None
            ) as channel:
                await channel.recv()
                try:
                    await channel.send('42["event","' + "a" * 15_000_000 + '"]')
                    await asyncio.wait_for(channel.recv(), 20)
                except (ConnectionClosed, OSError):
                    pass
                closed.append(channel.close_code)
        return closed

    before = flooded.memory()
    codes = asyncio.run(send_large())

    assert all(code in (1006, 1009) for code in codes)  # refused as too large, or cut while it was still being sent
    assert flooded.memory() - before < 30 * MIB  # ten such frames have 143 MiB
    assert flooded.client.get("/healthz").status_code == 200


def test_a_large_message_of_a_channel_that_polls_is_refused(flooded: Flooded) -> None:
    headers = {"Cookie": flooded.cookie}
    opening = flooded.client.get(flooded.url("polling"), headers=headers)
    sid = opening.text.split('"sid":"')[1].split('"')[0]

    answer = flooded.client.post(
        f"{flooded.url('polling')}&sid={sid}", content=b"4" + b"a" * CHANNEL_BYTES, headers=headers
    )

    assert answer.status_code == 413 and str(CHANNEL_BYTES) in answer.text


def test_no_more_pages_are_opened_than_there_can_be(flooded: Flooded) -> None:
    answers = [flooded.client.get("/", headers={"Cookie": flooded.cookie}) for _ in range(PAGES + 3)]

    full = [each for each in answers if each.status_code == 503]
    assert full and full[-1].headers["retry-after"] and str(PAGES) in full[-1].text
    assert {each.status_code for each in answers} == {200, 503}
    assert flooded.client.get("/sign-in").status_code == 200
