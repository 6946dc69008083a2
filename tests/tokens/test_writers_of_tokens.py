"""A writer's token may be bound to writers: with it nobody speaks for another writer of the same stream."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from controller.storage.tokens import list_tokens, open_tokens
from tests.served import NOON

STREAM = "/v1/streams/orders"
NOTE = {"time": 1, "position": {}}


@pytest.fixture
def tills(keyed: Any) -> tuple[str, str]:
    """The tokens of an administrator, and of the tills of one shop; the stream has a writer of another shop."""
    admin, bound = keyed.make("admin"), keyed.make("writer", writers="till-7*")
    keyed.call(admin, "PUT", STREAM, {"segments": 1, "max_ahead_ms": None})
    keyed.call(admin, "PUT", f"{STREAM}/writers/till-8", {})
    return admin, bound


def refusals(keyed: Any, admin: str) -> list[Any]:
    """The refusals in the stream's journal, all of them durable: a call that waits for its commit comes first."""
    keyed.call(admin, "PUT", f"{STREAM}/writers/waits-for-a-commit", {})
    entries = keyed.call(admin, "GET", f"{STREAM}/journal")["entries"]
    return [each for each in entries if each["kind"] == "refused"]


def test_a_call_that_is_sent_again_is_let_in_only_while_its_token_holds(keyed: Any, tills: tuple[str, str]) -> None:
    """Its head is known by then."""
    expiring = keyed.make("writer", writers="till-7*", expires_at=keyed.controller.clock.now + 1_000)
    for token in (tills[1], expiring):
        for writer, status in (("till-71", 200), ("till-71", 200), ("till-81", 403), ("till-71", 200)):
            assert keyed.ask(token, "POST", f"{STREAM}/notes", {"writer": writer, **NOTE}).status_code == status
    used = keyed.names[tills[1]]

    keyed.revoke(tills[1])
    keyed.controller.clock.now += 1_000

    for token in (tills[1], expiring):
        assert keyed.ask(token, "POST", f"{STREAM}/notes", {"writer": "till-71", **NOTE}).status_code == 401
    keyed.controller.portal.call(keyed.controller.app.state.controller.tokens.note_use)
    with open_tokens(keyed.database) as connection:
        assert {each.grant.name: each.last_used_at for each in list_tokens(connection)}[used] is not None


OF_ANOTHER: tuple[tuple[str, str, object], ...] = (
    ("PUT", "/writers/till-8", {}),
    ("POST", "/writers/till-8/idle", None),
    ("DELETE", "/writers/till-8", None),
    ("POST", "/notes", {"writer": "till-8", **NOTE}),
)


def test_a_bound_token_does_not_speak_for_another_writer(keyed: Any, tills: tuple[str, str]) -> None:
    admin, bound = tills
    for count, (method, path, body) in enumerate(OF_ANOTHER, 1):
        before = keyed.call(admin, "GET", f"{STREAM}/writers")
        answer = keyed.ask(bound, method, STREAM + path, body)

        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), answer.text
        assert (answer.json()["writer"], answer.json()["writers"]) == ("till-8", "till-7*")
        assert "'till-8'" in answer.json()["detail"] and "--writer" in answer.json()["detail"]
        assert keyed.call(admin, "GET", f"{STREAM}/writers") == before
        told = refusals(keyed, admin)
        assert len(told) == count
        assert (told[-1]["by"], told[-1]["details"]["writer"]) == (keyed.names[bound], "till-8")


@pytest.mark.parametrize("path", [f"{STREAM}/notes", "/v1/notes"])
def test_of_many_notes_only_those_of_other_writers_are_refused(keyed: Any, tills: tuple[str, str], path: str) -> None:
    admin, bound = tills
    stream = {"stream": "orders"} if path == "/v1/notes" else {}
    notes = [{"writer": name, **NOTE, **stream} for name in ("till-71", "till-8", "till-72")]

    results = keyed.call(bound, "POST", path, {"notes": notes})["results"]

    assert [each.get("code") for each in results] == [None, "forbidden", None]
    assert results[1]["writer"] == "till-8"
    states = {each["writer"]: each["state"] for each in keyed.call(admin, "GET", f"{STREAM}/writers")["writers"]}
    assert states == {"till-71": "active", "till-72": "active", "till-8": "joined"}
    assert [each["details"]["writer"] for each in refusals(keyed, admin)] == ["till-8"]


def test_a_bound_token_reports_only_the_tails_of_its_own_reporters(keyed: Any) -> None:
    admin, bound = keyed.make("admin"), keyed.make("writer", writers="tail-a")
    keyed.call(admin, "PUT", STREAM, {"segments": 1, "time_domain": "ingestion"})
    report = {"time": NOON, "position": {"0": 1}}

    answer = keyed.ask(bound, "POST", f"{STREAM}/tail", {"reporter": "tail-b", **report})

    assert (answer.status_code, answer.json()["writer"]) == (403, "tail-b")
    keyed.call(bound, "POST", f"{STREAM}/tail", {"reporter": "tail-a", **report})


def test_the_command_binds_a_token_and_shows_to_whom(strandline: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = strandline("token", "create", "shop", "--role", "writer", "--writer", "till-7*")
    assert code == 0 and "bound to the writers till-7*" in err
    strandline("token", "create", "any", "--role", "writer")

    listed = json.loads(strandline("token", "list", "--json")[1])["tokens"]
    assert [(each["name"], each["writers"]) for each in listed] == [("any", "*"), ("shop", "till-7*")]
    header, any_line, shop_line = strandline("token", "list")[1].splitlines()
    assert header.split()[3] == "WRITERS"
    assert (any_line.split()[3], shop_line.split()[3]) == ("*", "till-7*")
    code, out, err = strandline("token", "create", "boss", "--role", "admin", "--writer", "till-7*")
    assert (code, out) == (1, "") and "only a token with the role 'writer'" in err
    code, _, err = strandline("token", "create", "odd", "--role", "writer", "--writer", "a?")
    assert code == 2 and "'a?'" in err
