"""The page of the controllers that serve a store, and who may drain one from there."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from playwright.sync_api import Page, expect

from controller.storage.tokens import add_token, digest_of, open_tokens
from strandline.access import Grant, Role
from strandline.redaction import TOKEN_PREFIX
from tests.dashboard.conftest import dim_in_dialog, found_on
from tests.ports import free_port
from tests.postgres import Postgres
from tests.served import NOON, OwnProcess

pytestmark = pytest.mark.full

PATTERNS = {"anna": (Role.ADMIN, "*"), "ben": (Role.READER, "orders*"), "carl": (Role.READER, "*")}
PATIENCE_S = 30


@dataclass(frozen=True)
class Pair:
    """Two controllers, `a` and `b`, of one store with tokens."""

    a: OwnProcess
    b: OwnProcess
    tokens: dict[str, str]

    def sign_in(self, page: Page, name: str) -> None:
        page.goto(f"{self.a.url}/controllers")
        page.get_by_label("Token").fill(self.tokens[name])
        page.get_by_role("button", name="Sign in").click()


@pytest.fixture(scope="module")
def pair(postgres: Postgres) -> Iterator[Pair]:
    url = postgres.new_database()
    tokens = {name: TOKEN_PREFIX + secrets.token_urlsafe(32) for name in PATTERNS}
    with open_tokens(url, make=True) as connection:
        for name, (role, pattern) in PATTERNS.items():
            add_token(connection, Grant(name=name, role=role, pattern=pattern), digest_of(tokens[name].encode()), NOON)
    ports = {name: free_port() for name in ("a", "b")}
    a, b = (
        OwnProcess(url, "--name", name, "--address", f"http://127.0.0.1:{port}", port=port)
        for name, port in ports.items()
    )
    yield Pair(a, b, tokens)
    for process in (a, b):
        if process.process.poll() is None:
            process.kill()
    postgres.give_back(url)


def test_a_reader_of_every_stream_sees_all_and_drains_none(pair: Pair, open_page: Callable[..., Page]) -> None:
    page = open_page()
    pair.sign_in(page, "carl")
    for name in ("a", "b"):
        row = page.get_by_role("row").filter(has=page.get_by_role("cell", name=name, exact=True))
        expect(row).to_contain_text("live")
    expect(page.get_by_text("As a sees them")).to_be_visible()
    expect(page.get_by_role("button", name="Drain")).to_have_count(0)


def test_a_reader_of_some_streams_does_not_see_the_controllers(pair: Pair, open_page: Callable[..., Page]) -> None:
    page = open_page()
    pair.sign_in(page, "ben")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not for this token")
    expect(page.get_by_role("link", name="Controllers")).to_have_count(0)


def test_an_administrator_drains_another_controller_once_confirmed(pair: Pair, open_page: Callable[..., Page]) -> None:
    page = open_page()
    pair.sign_in(page, "anna")
    page.get_by_role("button", name="Drain b").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert found_on(page, dialog=True) + dim_in_dialog(page) == []
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_be_hidden()
    assert pair.b.process.poll() is None
    page.get_by_role("button", name="Drain b").click()
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    expect(page.get_by_text("b hands everything over, and then ends")).to_be_visible()
    assert pair.b.process.wait(PATIENCE_S) == 0
    row = page.get_by_role("row").filter(has=page.get_by_role("cell", name="b", exact=True))
    expect(row).to_contain_text("ended")


def test_the_last_controller_is_not_drained_from_the_page(pair: Pair, open_page: Callable[..., Page]) -> None:
    page = open_page()
    pair.sign_in(page, "anna")
    page.get_by_role("button", name="Drain a").click()
    page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    expect(page.get_by_text("is the last one that serves the store")).to_be_visible()
    assert pair.a.process.poll() is None
