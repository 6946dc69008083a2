"""Who may see and do what, what names can do in a page, and what pages may load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from msgspec import structs

from controller.operators.overview import GroupsFound
from controller.storage.tokens import open_tokens, revoke_token
from strandline.access import Grant, Role
from tests.dashboard.conftest import ORIGIN, PART, Keys, Served
from tests.dashboard.html_tree import read
from tests.served import NOON, ManualClock

HOSTILE = """<img src=x onerror=alert(1)>'"&amp;</script><script>alert(2)</script>{{ 7*7 }}"""
GRANTS = {
    "anna": Grant(name="anna", role=Role.ADMIN),
    "ben": Grant(name="ben", role=Role.READER, pattern="orders*"),
    "carl": Grant(name="carl", role=Role.READER),
    "eva": Grant(name="eva", role=Role.ADMIN, pattern="orders*"),
    "wim": Grant(name="wim", role=Role.WRITER),
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)


class Guarded(Served):
    """A controller with tokens; `orders` has a writer, and there is a stream `secret` with a reader group."""

    keys: Keys


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    database = tmp_path_factory.mktemp("guarded") / "store.db"
    keys = Keys(str(database), GRANTS)
    with Guarded(database, ManualClock()) as served:
        served.keys = keys
        for stream in ("orders", "secret"):
            made = served.request(
                "PUT", f"/v1/streams/{stream}", json={"segments": 1, "max_ahead_ms": None}, headers=keys.bearer("anna")
            )
            assert made.is_success
            note = {"writer": "w1", "time": NOON, "position": {"0": 1}}
            served.request("POST", f"/v1/streams/{stream}/notes", json=note, headers=keys.bearer("anna"))
        served.request(
            "PUT", "/v1/reader-groups/hidden", json={"streams": ["secret", "orders"]}, headers=keys.bearer("anna")
        )
        yield served


def acts(page: Any) -> list[str]:
    return [each["data-act"] for each in page.all("button") if "data-act" in each.attributes]


# -- who sees what -----------------------------------------------------------------------------------------------------


PATHS = ("/", "/streams/orders", "/streams/secret", "/streams/secret/writers/w1", "/reader-groups/hidden", "/tokens")


@pytest.mark.parametrize("path", PATHS)
def test_nobody_gets_a_page_without_a_token(guarded: Guarded, path: str) -> None:
    answer = guarded.get(path + "?x=1")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/sign-in?next={path}%3Fx%3D1")
    assert guarded.get(path, PART).status_code == 401
    for token in ("slt_" + "x" * 43, guarded.keys.tokens["wim"]):
        assert guarded.get(path, cookies={"strandline_token": token}).status_code == 303


def test_a_reader_sees_permitted_streams_alone_and_no_buttons(guarded: Guarded) -> None:
    found = {path: guarded.get(path, cookies=guarded.keys.cookie("ben")) for path in PATHS}
    assert [each.status_code for each in found.values()] == [200, 200, 403, 403, 403, 403]
    for path in PATHS[2:]:
        assert read(found[path].text).one("h1").text == "Not for this token"
    for path in ("/", "/streams/orders", "/streams/orders/writers/w1"):
        page = guarded.page(path, cookies=guarded.keys.cookie("ben"))
        assert acts(page) == [], path
        assert "secret" not in page.text and "hidden" not in page.text, path
    links = [each.text for each in read(found["/"].text).one("nav").all("a")]
    assert links == ["Strandline"]
    assert guarded.get("/controllers", cookies=guarded.keys.cookie("ben")).status_code == 403
    assert all(guarded.keys.tokens["ben"] not in each.text for each in found.values())


def test_an_administrator_of_some_streams_sees_no_tokens(guarded: Guarded) -> None:
    cookie = guarded.keys.cookie("eva")
    assert "/acts/configure?stream=orders" in acts(guarded.page("/streams/orders", cookies=cookie))
    assert guarded.get("/tokens", cookies=cookie).status_code == 403
    page = guarded.page("/tokens", cookies=guarded.keys.cookie("anna"))
    row = next(each for each in page.rows("tokens") if each["Name"] == "ben")
    assert (row["State"], row["Role"], row["Streams"]) == ("valid", "reader", "orders*")
    assert "strandline token create NAME" in page.one("pre").text


def cookie_header(cookies: dict[str, str]) -> dict[str, str]:
    return {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}


# -- calls with the cookie ---------------------------------------------------------------------------------------------


def exclude(guarded: Guarded, name: str, **headers: str) -> httpx.Response:
    path = "/v1/streams/orders/writers/w1/exclude"
    return guarded.request("POST", path, headers={**cookie_header(guarded.keys.cookie(name)), **headers})


def test_the_cookie_is_good_for_calls_of_our_own_pages_and_names_who_acted(guarded: Guarded) -> None:
    assert exclude(guarded, "ben", **ORIGIN).status_code == 403
    assert exclude(guarded, "anna", **ORIGIN).status_code == 200
    included = guarded.request(
        "DELETE",
        "/v1/streams/orders/writers/w1/exclude",
        headers={**cookie_header(guarded.keys.cookie("anna")), **ORIGIN},
    )
    assert included.status_code == 200
    page = guarded.page("/streams/orders", cookies=guarded.keys.cookie("anna"))
    assert "excluded by anna: writer w1" in page.section("Journal").text


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),  # no browser says that it is a page's call
        ({"Sec-Fetch-Site": "same-origin"}, 401),
        ({"Origin": "https://elsewhere.example"}, 403),
        ({"Origin": "null"}, 403),
        ({**ORIGIN, "Sec-Fetch-Site": "same-site"}, 403),
    ],
)
def test_the_cookie_is_good_for_no_other_call(guarded: Guarded, headers: dict[str, str], status: int) -> None:
    assert exclude(guarded, "anna", **headers).status_code == status
    form = guarded.request("POST", "/sign-in", data={"token": guarded.keys.tokens["anna"]}, headers=headers)
    assert form.status_code == (303 if status == 401 else 403)


def test_the_cookie_reads_nothing_of_the_api(guarded: Guarded) -> None:
    headers = {**cookie_header(guarded.keys.cookie("anna")), **ORIGIN}
    assert guarded.request("GET", "/v1/streams", headers=headers).status_code == 401


# -- signing in --------------------------------------------------------------------------------------------------------


def sign_in(guarded: Guarded, next: str = "/", name: str = "anna", **headers: str) -> httpx.Response:
    form = {"token": guarded.keys.tokens[name], "next": next}
    return guarded.request("POST", "/sign-in", data=form, headers=headers)


def test_a_token_becomes_a_cookie_that_scripts_cannot_read(guarded: Guarded) -> None:
    behind = {"Origin": "https://board.example", "X-Forwarded-Host": "board.example"}
    for headers, secure in ((ORIGIN, False), (behind, True)):
        answer = sign_in(guarded, "/streams/orders", **headers)
        attributes = {each.strip().lower() for each in answer.headers["set-cookie"].split(";")[1:]}
        assert {"httponly", "samesite=strict", "path=/"} <= attributes and ("secure" in attributes) is secure
        assert answer.headers["location"] == "/streams/orders"
    out = guarded.request("POST", "/sign-out", headers=ORIGIN)
    assert out.headers["location"] == "/sign-in" and "max-age=0" in out.headers["set-cookie"].lower()


@pytest.mark.parametrize("target", ["//elsewhere.example", "/\\elsewhere.example", "https://elsewhere.example"])
def test_signing_in_leads_to_no_other_site(guarded: Guarded, target: str) -> None:
    assert sign_in(guarded, target).headers["location"] == "/"


def test_a_wrong_token_is_refused_and_what_the_form_is_given_is_text(guarded: Guarded) -> None:
    for name in ("wim",):
        assert "wrong=1" in sign_in(guarded, name=name).headers["location"]
    page = guarded.page(f"/sign-in?wrong=1&next={httpx.QueryParams({'n': HOSTILE})!s}")
    assert "not known here" in page.one("p", role="alert").text
    page = guarded.page("/sign-in?" + str(httpx.QueryParams({"next": HOSTILE})))
    assert page.one("input", name="next")["value"] == HOSTILE
    assert guarded.request("POST", "/sign-in", data={"token": "x" * 5_000}).status_code == 413


def test_a_revoked_token_ends_the_pages_next_update(guarded: Guarded) -> None:
    cookie = guarded.keys.cookie("carl")
    assert guarded.get("/streams/orders", PART, cookie).status_code == 200
    with open_tokens(guarded.keys.database) as connection:
        revoke_token(connection, "carl", NOON)
    guarded.portal.call(guarded.app.state.controller.tokens.refresh)
    assert guarded.get("/streams/orders", PART, cookie).status_code == 401
    assert "revoked, or has expired" in guarded.page("/sign-in?ended=1").text


def test_without_tokens_there_is_no_page_of_them(tmp_path: Path) -> None:
    with Served(tmp_path / "store.db", ManualClock()) as served:
        assert served.get("/tokens").status_code in (401, 303)
        assert "Tokens" not in served.page("/").one("nav").text


# -- what pages may load, and names ------------------------------------------------------------------------------------


def test_every_page_has_the_policy_and_nothing_is_kept(guarded: Guarded) -> None:
    act = "/acts/evaluate?stream=orders"
    for path in ("/", "/streams/orders", "/streams/none", "/none", "/sign-in", act, "/tokens"):
        answer = guarded.get(path, cookies=guarded.keys.cookie("anna"))
        assert answer.headers["content-security-policy"] == POLICY, path
        assert answer.headers["cache-control"] == "no-store", path
    for name in ("dashboard.js", "dashboard.css", "icon.svg", "icon-bad.svg"):
        answer = guarded.get(f"/static/{name}")
        assert answer.status_code == 200 and answer.headers["x-content-type-options"] == "nosniff"
        assert guarded.get(f"/static/{name}", {"If-None-Match": answer.headers["etag"]}).status_code == 304
    assert guarded.get("/static/..%2froutes.py").status_code in (303, 404)


class Hostile:
    """The status with other names, as a store could have them that somebody else has written to."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def overview(self, **_: Any) -> Any:
        found = await self._inner.overview()
        groups = [structs.replace(each, group=HOSTILE) for each in found.groups.groups]
        streams = tuple(self._stream(each) for each in found.streams)
        return replace(
            found, streams=streams, groups=GroupsFound(groups=tuple(groups)), unread={HOSTILE + "2": HOSTILE},
        )  # fmt: skip

    def _stream(self, found: Any) -> Any:
        holder = found.worst.held_by
        key = structs.replace(found.worst, held_by=holder and structs.replace(holder, writer=HOSTILE))
        return structs.replace(found, stream=HOSTILE, keys={"": key}, refusals={HOSTILE: 3})

    async def of_stream(self, name: str) -> Any:
        found = await self._inner.of_stream(name)
        writers = [each._replace(name=HOSTILE) for each in found.writers[""]]
        return replace(found, stream=self._stream(found.stream), writers={"": writers})


@pytest.mark.parametrize("path", ["/", "/streams/s"])
def test_names_are_text_wherever_they_stand(tmp_path: Path, path: str) -> None:
    with Served(tmp_path / "store.db", ManualClock()) as served:
        served.stream("s", writer_timeout_ms=None)
        served.note("w", NOON, {"0": 1})
        served.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
        served.pass_time(600_000)
        served.app.state.controller.status = Hostile(served.app.state.controller.status)
        page = served.page(path)  # the tree takes no script, no handler and nothing that is not well made
        assert HOSTILE in page.one("main").text.replace("  ", " ")
        assert not page.all("img") and len(page.all("script")) == 1
        assert "49" not in str(page.one("head").one("title").children[0])
        for each in page.all("a"):
            assert each["href"].startswith(("/", "?")), each


@pytest.mark.parametrize("path", ["/", "/streams/s"])
def test_what_an_address_says_is_text_too(served: Served, path: str) -> None:
    served.stream("s")
    served.note("w", NOON, {"0": 1})
    names = ("streams.filter", "writers.filter", "search", "from", "key", "range", HOSTILE)
    page = served.page(f"{path}?{httpx.QueryParams(dict.fromkeys(names, HOSTILE))}")
    assert not page.all("img") and len(page.all("script")) == 1
    dialog = served.get("/acts/evaluate?" + str(httpx.QueryParams({"stream": HOSTILE, "key": HOSTILE})))
    assert not read(dialog.text).all("img")
    asked = served.get("/acts/include?" + str(httpx.QueryParams({"stream": HOSTILE, "writer": HOSTILE})))
    assert asked.headers["content-type"] == "application/problem+json"  # it asks first, and is refused
