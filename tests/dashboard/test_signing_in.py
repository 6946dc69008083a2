from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from controller.dashboard.actions import Acts
from controller.dashboard.visitors import Visitor
from controller.status.status_view import Viewer
from controller.storage.tokens import add_token, digest_of, open_tokens, revoke_token
from strandline.access import Grant, Role
from strandline.core.config import StreamConfig
from strandline.errors import Forbidden
from strandline.redaction import TOKEN_PREFIX
from strandline.wire.streams import settings_by_name
from tests.dashboard.conftest import dim_in_dialog, found_on
from tests.served import NOON, InProcess, ManualClock, OwnProcess

pytestmark = pytest.mark.full

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


def test_a_token_is_created_shown_once_and_revoked_from_the_page(
    guarded: Guarded, open_page: Callable[..., Page]
) -> None:
    page = open_page()
    dialog = page.get_by_role("dialog")
    guarded.sign_in(page, guarded.tokens["anna"], "/tokens")
    page.get_by_role("button", name="Create a token").click()
    expect(dialog).to_be_visible()
    assert found_on(page, dialog=True) == []
    dialog.get_by_label("name", exact=True).fill("dora")
    dialog.get_by_label("streams", exact=True).fill("orders*")
    dialog.get_by_label("lasts", exact=True).fill("2 h")
    dialog.get_by_role("button", name="Continue").click()
    expect(dialog.get_by_text("dora: reader of orders*, until")).to_be_visible()
    dialog.get_by_role("button", name="Create").click()
    made = dialog.get_by_text(TOKEN_PREFIX).inner_text()
    assert found_on(page, dialog=True) == []
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()
    expect(page.get_by_text(made)).to_have_count(0)
    asked = {"Authorization": f"Bearer {made}"}
    assert guarded.process.client.get("/v1/streams/orders", headers=asked).status_code == 200
    assert guarded.process.client.get("/v1/streams/secret", headers=asked).status_code == 403
    row = page.get_by_role("row").filter(has_text="dora")
    assert found_on(page) == []
    page.get_by_role("button", name="Revoke dora").click()
    expect(dialog).to_be_visible()
    assert found_on(page, dialog=True) + dim_in_dialog(page) == []
    dialog.get_by_role("button", name="Revoke").click()
    expect(row).to_contain_text("revoked")
    assert guarded.process.client.get("/v1/streams/orders", headers=asked).status_code == 401


def test_who_may_not_manage_tokens_sees_none(guarded: Guarded, open_page: Callable[..., Page]) -> None:
    page = open_page()
    guarded.sign_in(page, guarded.tokens["ben"], "/tokens")
    expect(page.get_by_role("heading", level=1)).to_have_text("Not for this token")
    expect(page.get_by_role("link", name="Tokens")).to_have_count(0)


def test_an_act_is_refused_to_a_token_that_may_not_call(tmp_path: Path) -> None:
    database = str(tmp_path / "store.db")
    grants = (
        Grant(name="ben", role=Role.READER),
        Grant(name="eva", role=Role.ADMIN, pattern="other*"),
        Grant(name="anna", role=Role.ADMIN),
    )
    with open_tokens(database, make=True) as connection:
        for grant in grants:
            add_token(connection, grant, digest_of(grant.name.encode()), NOON)
    with InProcess(database, ManualClock()) as served:
        controller = served.app.state.controller
        ben, eva, anna = (
            Acts(
                served.app,
                Visitor(
                    each.name,
                    may_act=each.role is Role.ADMIN,
                    grant=each,
                    tokens=controller.tokens,
                    viewer=Viewer(b"Bearer " + each.name.encode()),
                ),
            )
            for each in grants
        )
        values = {"name": "orders", "segments": 1, **settings_by_name(StreamConfig())}
        assert served.portal.call(anna.create_stream().do, values) == "orders is created"
        for acts in (ben, eva):
            for act in (acts.exclude("orders", "w"), acts.seal("orders"), acts.delete_stream("orders")):
                with pytest.raises(Forbidden):
                    served.portal.call(act.do, {"final offsets": {}})
            with pytest.raises(Forbidden):
                served.portal.call(acts.revoke_token(controller.tokens, "anna").do, {})
        assert served.portal.call(anna.delete_stream("orders").do, {}) == "orders is deleted"


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
