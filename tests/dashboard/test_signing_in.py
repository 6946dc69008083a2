from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from controller.dashboard import actions
from controller.dashboard.visitors import Visitor
from controller.storage.tokens import add_token, digest_of, open_tokens, revoke_token
from strandline.access import Grant, Role
from strandline.errors import Forbidden
from strandline.redaction import TOKEN_PREFIX
from tests.served import NOON, InProcess, ManualClock, OwnProcess

PATTERNS = {"anna": (Role.ADMIN, "*"), "ben": (Role.READER, "orders*"), "carl": (Role.READER, "*")}


@dataclass(frozen=True)
class Guarded:
    """A controller with tokens; `orders` has a writer, and there is a stream `secret`."""

    process: OwnProcess
    database: str
    tokens: dict[str, str]

    def revoke(self, name: str) -> None:
        with open_tokens(self.database) as connection:
            revoke_token(connection, name, NOON)

    def sign_in(self, page: Page, token: str, path: str = "/") -> None:
        page.goto(self.process.url + path)
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    database = str(tmp_path_factory.mktemp("guarded") / "store.db")
    tokens = {name: TOKEN_PREFIX + secrets.token_urlsafe(32) for name in PATTERNS}
    with open_tokens(database, make=True) as connection:
        for name, (role, pattern) in PATTERNS.items():
            add_token(connection, Grant(name=name, role=role, pattern=pattern), digest_of(tokens[name].encode()), NOON)
    process = OwnProcess(database)
    process.client.headers["Authorization"] = f"Bearer {tokens['anna']}"
    for stream in ("orders", "secret"):
        assert process.client.put(f"/v1/streams/{stream}", json={"segments": 1, "max_ahead_ms": None}).is_success
    note = {"writer": "w1", "time": 42, "position": {"0": 1}}
    assert process.client.post("/v1/streams/orders/notes", json=note).is_success
    yield Guarded(process, database, tokens)
    process.stop()


def test_a_reader_sees_permitted_streams_without_actions_and_signs_out(
    guarded: Guarded, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    guarded.sign_in(page, guarded.tokens["ben"], "/streams/orders")
    expect(page.get_by_role("link", name="w1").first).to_be_visible()
    expect(page.get_by_role("button", name="Evaluate now")).to_have_count(0)
    expect(page.get_by_role("button", name="Configure")).to_have_count(0)
    page.goto(f"{guarded.process.url}/streams/orders/writers/w1")
    expect(page.get_by_role("heading", level=1)).to_have_text("w1")
    expect(page.get_by_role("button", name="Exclude")).to_have_count(0)
    page.goto(f"{guarded.process.url}/streams/secret")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not here")
    page.goto(guarded.process.url)
    expect(page.get_by_role("cell", name="orders")).to_be_visible()
    expect(page.get_by_role("cell", name="secret")).to_have_count(0)
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Token")).to_be_visible()
    page.goto(guarded.process.url)
    expect(page.get_by_label("Token")).to_be_visible()


def test_a_wrong_token_is_refused_and_administrators_actions_are_named(
    guarded: Guarded, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    guarded.sign_in(page, "slt_of-nobody", "/streams/orders/writers/w1")
    expect(page.get_by_role("alert")).to_contain_text("not known here")
    page.get_by_label("Token").fill(guarded.tokens["anna"])
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Exclude").click()
    page.get_by_role("dialog").get_by_role("button", name="Exclude").click()
    expect(page.get_by_text("excluded by anna: writer w1")).to_be_visible()


def test_a_page_whose_token_is_revoked_leads_to_the_sign_in_and_back(
    guarded: Guarded, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    guarded.sign_in(page, guarded.tokens["carl"], "/streams/orders?x=1")
    expect(page.get_by_role("link", name="w1").first).to_be_visible()
    assert page.request.get(f"{guarded.process.url}/signed-in").status == 204
    guarded.revoke("carl")
    expect(page.get_by_role("alert")).to_contain_text("revoked, or has expired")
    assert page.request.get(f"{guarded.process.url}/signed-in").status == 401
    page.get_by_label("Token").fill(guarded.tokens["anna"])
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{guarded.process.url}/streams/orders?x=1")
    expect(page.get_by_role("link", name="w1").first).to_be_visible()


def test_a_readers_act_is_refused_whatever_a_page_shows(tmp_path: Path) -> None:
    with InProcess(tmp_path / "store.db", ManualClock()) as served:
        served.call("PUT", "/v1/streams/orders", {"segments": 1, "max_ahead_ms": None})
        served.note("w1", 1, {"0": 1}, "orders")
        grant = Grant(name="ben", role=Role.READER, pattern="*")
        ben = Visitor("ben", False, grant)
        controller = served.app.state.controller
        bens = actions.Acts(controller, controller.status, ben)
        acts: list[Callable[[], Awaitable[object]]] = [
            lambda: bens.exclude("orders", "w1"),
            lambda: bens.include("orders", "w1"),
            lambda: bens.evaluate("orders", ""),
            lambda: bens.config("orders"),
            lambda: bens.configure("orders", {"min_writers": 9}),
        ]
        for act in acts:
            with pytest.raises(Forbidden):
                served.portal.call(act)
        assert served.call("GET", "/v1/streams/orders")["min_writers"] == 1


def sign_in_by_form(guarded: Guarded, **headers: str) -> httpx.Response:
    form = {"token": guarded.tokens["anna"], "next": "/streams/orders"}
    return guarded.process.client.post("/sign-in", data=form, headers=headers)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", ["/sign-in", "/sign-out"])
def test_a_form_of_another_origin_is_refused(guarded: Guarded, path: str, headers: dict[str, str]) -> None:
    answer = guarded.process.client.post(path, data={"token": guarded.tokens["anna"]}, headers=headers)
    assert answer.status_code == 403 and "set-cookie" not in answer.headers


def test_behind_a_proxy_that_ends_tls_the_cookie_is_for_tls_alone(guarded: Guarded) -> None:
    plain = sign_in_by_form(guarded, Origin=guarded.process.url)
    behind = sign_in_by_form(guarded, Origin="https://board.example", **{"X-Forwarded-Host": "board.example"})

    assert (plain.status_code, plain.headers["location"]) == (303, "/streams/orders")
    for answer, secure in ((plain, False), (behind, True)):
        attributes = {each.strip().lower() for each in answer.headers["set-cookie"].split(";")[1:]}
        assert {"httponly", "samesite=strict"} <= attributes and ("secure" in attributes) is secure


def test_a_form_that_is_too_large_is_refused_before_it_is_read(guarded: Guarded) -> None:
    answer = guarded.process.client.post("/sign-in", data={"token": "x" * 5_000})
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")


def test_what_the_form_is_given_is_not_run_in_the_page(guarded: Guarded) -> None:
    answer = guarded.process.client.get("/sign-in", params={"next": '/"><script>alert(1)</script>'})
    assert "<script" not in answer.text and "&lt;script&gt;" in answer.text
    away = guarded.process.client.post(
        "/sign-in", data={"token": guarded.tokens["anna"], "next": "//elsewhere.example"}
    )
    assert away.headers["location"] == "/"
