"""Notes of several callers go to their owner together, each with its own answer; tokens are the owner's affair too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import httpx
import pytest

from controller.storage.tokens import add_token, digest_of, open_tokens
from strandline.access import Grant, Role
from strandline.redaction import TOKEN_PREFIX
from tests.forwarding.conftest import STREAM, Cluster, Make, RealController, note

Two = tuple[RealController, RealController]


async def ask_at_once(
    url: str, notes: list[dict[str, object]], tokens: list[str] | None = None
) -> list[httpx.Response]:
    """Sends all notes at the same time, each in a request of its own."""
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as client:
        headers = [
            {} if tokens is None else {"Authorization": f"Bearer {token}"} for token in tokens or [""] * len(notes)
        ]
        asked = (
            client.post("/v1/streams/s/notes", json=each, headers=shown)
            for each, shown in zip(notes, headers, strict=True)
        )
        return await asyncio.gather(*asked)


def requests_of(controller: RealController) -> int:
    return int(sum(controller.app.state.controller.counts.responses.values()))


def test_many_callers_notes_take_few_requests_to_their_owner(two: Two) -> None:
    first, second = two
    before = requests_of(second)
    answers = asyncio.run(ask_at_once(first.url, [note(5, writer=f"w{number}") for number in range(60)]))
    assert [answer.status_code for answer in answers] == [200] * 60
    assert requests_of(second) - before < 30
    assert second.ask("GET", "/v1/streams/s").json()["writers"]["active"] == 60


def test_each_caller_hears_of_its_own_note(two: Two) -> None:
    first, second = two
    second.ask("POST", "/v1/streams/s/notes", note(50, writer="w1"))
    notes = [note(60, writer="w0"), note(40, writer="w1"), note(60, writer="w2", epoch=9), {"writer": "w3"}]
    answers = asyncio.run(ask_at_once(first.url, notes))
    assert [answer.json().get("code") for answer in answers] == [None, "time_went_back", "fenced", "invalid_note"]
    assert [answer.status_code for answer in answers] == [200, 409, 409, 422]


def test_an_older_note_beside_a_repeated_one_is_refused(two: Two) -> None:
    first, _ = two
    first.ask("POST", "/v1/streams/s/notes", note(50))
    for _ in range(10):
        older, repeated = asyncio.run(ask_at_once(first.url, [note(40), note(50)]))
        assert (older.status_code, repeated.status_code) == (409, 200)


@pytest.fixture
def guarded(cluster: Cluster, make: Make) -> Iterator[tuple[RealController, RealController, dict[str, str]]]:
    """Two controllers with the same tokens, by role; that of `other` is for other streams."""
    first, second = make(1), make(2)
    cluster.give("s", 2)
    second.ask("PUT", "/v1/streams/s", STREAM)
    second.ask("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
    tokens = {"writer": ("writer", "*"), "reader": ("reader", "*"), "other": ("writer", "t*")}
    made = {}
    for name, (role, pattern) in tokens.items():
        made[name] = f"{TOKEN_PREFIX}{name:x<43}"
        for each in (first, second):
            with open_tokens(str(each.database)) as connection:
                add_token(
                    connection, Grant(name=name, role=Role(role), pattern=pattern), digest_of(made[name].encode()), 1
                )
    for each in (first, second):
        for shown in ({}, *({"Authorization": f"Bearer {token}"} for token in made.values())):
            while (each.client.get("/v1/status", headers=shown).status_code == 401) == bool(shown):
                assert each.client.get("/healthz").is_success
    yield first, second, made


def test_notes_with_different_tokens_are_judged_by_their_own(
    guarded: tuple[RealController, RealController, dict[str, str]],
) -> None:
    first, _, tokens = guarded
    notes = [note(5, writer=f"w{number}") for number in range(9)]
    shown = [tokens["writer"], tokens["other"], tokens["reader"]] * 3
    answers = asyncio.run(ask_at_once(first.url, notes, shown))
    assert [answer.status_code for answer in answers] == [200, 403, 403] * 3


def test_the_owner_checks_the_token_that_came_along(
    guarded: tuple[RealController, RealController, dict[str, str]],
) -> None:
    first, second, tokens = guarded
    assert first.ask("GET", "/v1/streams/s").status_code == 401
    assert first.ask("GET", "/v1/streams/s", Authorization=f"Bearer {tokens['reader']}").status_code == 200
    hop = {"Strandline_Hop": "1", "Strandline_For": "2"}
    assert second.ask("GET", "/v1/streams/s", **hop).status_code == 401
    body = {"notes": [note(1, stream="s"), note(1, stream="t1")]}
    judged = first.ask("POST", "/v1/notes", body, Authorization=f"Bearer {tokens['other']}").json()["results"]
    assert [each["code"] for each in judged] == ["forbidden", "unknown_stream"]
