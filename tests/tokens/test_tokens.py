"""What tokens change while a controller serves: from the first one on, and until each is revoked or has expired."""

from __future__ import annotations

import logging
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from controller.operators.denied_calls import DENIALS_BURST_LINES, DENIALS_REFILL_MS
from controller.storage.tokens import list_tokens, open_tokens
from controller.streams.cadence import NEW_STILL_MS
from tests.served import NOON

STREAMS = ("orders-eu", "orders-us", "payments")


@pytest.fixture
def streams(keyed: Any) -> str:
    """Three streams; returns the administrator's token."""
    admin: str = keyed.make("admin")
    for stream in STREAMS:
        keyed.call(admin, "PUT", f"/v1/streams/{stream}", {"segments": 1, "max_ahead_ms": None})
    return admin


def note(stream: str | None = None, writer: str = "w") -> dict[str, Any]:
    return {"writer": writer, "time": 1, "position": {}, **({} if stream is None else {"stream": stream})}


# -- from when until when ----------------------------------------------------------------------------------------


def test_a_token_made_or_revoked_beside_a_controller_counts_within_a_second(keyed: Any, strandline: Any) -> None:
    def seconds_until(token: str, status: int) -> float:
        before = time.monotonic()
        while keyed.ask(token, "GET", "/v1/streams").status_code != status:
            assert time.monotonic() < before + 20, "it never counts"
        return time.monotonic() - before

    keyed.make("admin")
    took: list[float] = []
    while not took or (min(took) >= 1 and len(took) < 20):  # a busy machine is given twenty attempts
        name = f"w-{len(took)}"
        token = strandline("token", "create", name, "--role", "reader")[1].strip()
        made = seconds_until(token, 200)
        strandline("token", "revoke", name)
        took.append(max(made, seconds_until(token, 401)))
    assert min(took) < 1


def test_a_token_is_good_until_its_last_millisecond_over_restarts_and_when_none_is_nobody_is_let_in(keyed: Any) -> None:
    token, unused = keyed.make("reader", expires_at=NOON + 1_000), keyed.make("reader")
    keyed.call(token, "GET", "/v1/streams")
    keyed.controller.clock.now = NOON + 5
    keyed.controller.portal.call(keyed.controller.app.state.controller.tokens.note_use)
    with open_tokens(keyed.database) as connection:
        last = {each.grant.name: each.last_used_at for each in list_tokens(connection)}
    assert last == {keyed.names[token]: NOON + 5, keyed.names[unused]: None}
    files = [file for file in Path(keyed.database).parent.iterdir() if file.is_file()]
    assert files and all(token.encode() not in file.read_bytes() for file in files)  # the store has no token

    keyed.controller.restart()
    shown = {"Authorization": f"bearer {token}"}
    keyed.controller.clock.now = NOON + 999
    assert keyed.ask(None, "GET", "/v1/streams").status_code == 401
    assert keyed.controller.request("GET", "/v1/streams", headers=shown).status_code == 200
    keyed.controller.clock.now = NOON + 1_000
    refused = keyed.ask(token, "GET", "/v1/streams")
    assert refused.status_code == 401 and f"{keyed.names[token]!r} has expired" in refused.json()["detail"]
    keyed.revoke(unused)
    assert keyed.ask(None, "GET", "/v1/streams").status_code == 401
    keyed.controller.call("GET", "/healthz")


def test_tokens_are_those_of_the_store_where_it_lost_one_change_and_got_another(keyed: Any) -> None:
    def at(moment: sqlite3.Connection, *, goes_back: bool) -> None:
        with closing(sqlite3.connect(keyed.database)) as store:
            moment.backup(store) if goes_back else store.backup(moment)

    def admitted() -> list[str]:
        return [name for token, name in keyed.names.items() if keyed.ask(token, "GET", "/v1/streams").is_success]

    with closing(sqlite3.connect(":memory:")) as empty, closing(sqlite3.connect(":memory:")) as moment:
        at(empty, goes_back=False)
        _, first, second = (keyed.make() for _ in range(3))
        at(moment, goes_back=False)
        keyed.revoke(first)
        assert admitted() == ["admin-1", "admin-3"]
        at(moment, goes_back=True)  # as where a standby is promoted that lacks the revocation
        keyed.revoke(second)
        assert admitted() == ["admin-1", "admin-2"]

        at(empty, goes_back=True)
        keyed.look()
        assert admitted() == [] and keyed.ask(None, "GET", "/v1/streams").status_code == 401


# -- patterns within a call --------------------------------------------------------------------------------------


def test_a_list_of_streams_shows_permitted_ones_over_all_pages(keyed: Any, streams: str) -> None:
    orders, admin = keyed.make("reader", "orders-*"), streams
    pages, after = [], ""
    while after is not None:
        page = keyed.call(orders, "GET", f"/v1/streams?limit=1&after={after}")
        pages.append(page["streams"])
        after = page["next"]

    assert pages == [["orders-eu"], ["orders-us"]]
    assert keyed.call(admin, "GET", "/v1/streams")["streams"] == sorted(STREAMS)
    assert keyed.call(keyed.make("reader", "x"), "GET", "/v1/streams") == {"streams": [], "next": None}


def test_a_status_is_of_the_streams_that_the_pattern_fits(keyed: Any, streams: str) -> None:
    for stream in STREAMS:
        for writer, noted in (("a", 1), ("b", 2)):
            keyed.call(streams, "POST", f"/v1/streams/{stream}/notes", {**note(writer=writer), "time": noted})
    for group, read in (("own", ["orders-eu"]), ("mixed", ["orders-eu", "payments"])):
        keyed.call(streams, "PUT", f"/v1/reader-groups/{group}", {"streams": read})
    keyed.controller.pass_time(NEW_STILL_MS)
    reader = keyed.make("reader", "orders-*")

    for query in ("", "?trouble=true", "?stream=orders-eu&stream=orders-us"):
        told = keyed.call(reader, "GET", f"/v1/status{query}")
        assert {each["stream"] for each in told["streams"]} == {"orders-eu", "orders-us"}, query
        assert told["trouble"]["stalled"] == told["counts"]["streams"] == 2
        assert [each["group"] for each in told["groups"]] == ["own"] and told["counts"]["reader_groups"] == 1
    assert keyed.call(streams, "GET", "/v1/status")["trouble"]["stalled"] == 3
    refused = keyed.ask(reader, "GET", "/v1/status?stream=payments")
    assert (refused.status_code, refused.json()["code"], refused.json()["stream"]) == (403, "forbidden", "payments")


def test_a_group_needs_a_pattern_for_all_its_streams_also_to_be_listed(keyed: Any, streams: str) -> None:
    orders = keyed.make("reader", "orders-*")
    keyed.call(orders, "PUT", "/v1/reader-groups/own", {"streams": STREAMS[:2]})
    for group, reads in (("eu", STREAMS[:1]), ("mixed", STREAMS)):
        keyed.call(streams, "PUT", f"/v1/reader-groups/{group}", {"streams": reads})

    assert keyed.call(orders, "GET", "/v1/reader-groups")["groups"] == ["eu", "own"]
    assert keyed.call(streams, "GET", "/v1/reader-groups?limit=2") == {"groups": ["eu", "mixed"], "next": "mixed"}
    too_wide = keyed.ask(orders, "PUT", "/v1/reader-groups/wide", {"streams": STREAMS})
    assert too_wide.status_code == 403 and too_wide.json()["stream"] == "payments"
    assert keyed.ask(orders, "GET", "/v1/reader-groups/mixed").status_code == 403
    assert keyed.ask(orders, "PUT", "/v1/reader-groups/mixed", {"streams": STREAMS[:2]}).status_code == 403
    assert keyed.ask(orders, "PUT", "/v1/reader-groups/own/readers/r", {}).status_code == 200
    assert keyed.ask(orders, "GET", "/v1/reader-groups/none").status_code == 404


def test_of_many_notes_each_is_judged_by_its_stream_and_a_malformed_one_leaves_nothing_in_another(
    keyed: Any, streams: str
) -> None:
    writer = keyed.make("writer", "orders-*")
    before = keyed.call(streams, "GET", "/v1/streams/payments/journal")
    malformed = [{"stream": stream, "writer": "w", "time": 1} for stream in ("orders-eu", "payments")]
    body = {"notes": [note("orders-eu"), note("payments"), {"writer": "w"}, note("orders-us"), *malformed]}

    first, refused, broken, last, *others = keyed.call(writer, "POST", "/v1/notes", body)["results"]

    assert "marks" in first and "marks" in last and broken["code"] == "invalid_note"
    assert (refused["code"], refused["stream"], refused["needs"]) == ("forbidden", "payments", "writer")
    assert [each["code"] for each in others] == ["invalid_note", "forbidden"]
    assert keyed.call(streams, "GET", "/v1/streams/payments/writers")["writers"] == []
    assert keyed.call(streams, "GET", "/v1/streams/payments/journal") == before


# -- answers that take a while -----------------------------------------------------------------------------------


@pytest.mark.parametrize("ended", ["revoked", "expired"])
def test_a_waiter_is_refused_when_its_token_is_no_longer_good(keyed: Any, streams: str, ended: str) -> None:
    reader = keyed.make("reader", expires_at=NOON + 1_000)
    shown = {"Authorization": f"Bearer {reader}"}
    path = "/v1/streams/payments/marks?wait_ms=30000"
    waiting = keyed.controller.request_soon("GET", path, headers=shown)
    keyed.call(reader, "GET", "/v1/streams")  # asked after the other was let in

    if ended == "revoked":
        keyed.revoke(reader)
    else:
        keyed.controller.clock.now = NOON + 1_000
    keyed.call(streams, "POST", "/v1/streams/payments/notes", note())
    keyed.call(streams, "POST", "/v1/streams/payments/marks")

    assert waiting.result(timeout=60).status_code == 401


def test_marks_as_they_are_made_end_when_the_token_is_revoked(keyed: Any, streams: str) -> None:
    reader = keyed.make("reader")
    keyed.call(streams, "PATCH", "/v1/streams/payments", {"mark_interval_ms": 0})
    keyed.call(streams, "POST", "/v1/streams/payments/notes", {**note(), "time": 5})
    shown = {"Authorization": f"Bearer {reader}"}
    live = keyed.controller.request_soon("GET", "/v1/streams/payments/marks/live", headers=shown)
    keyed.call(reader, "GET", "/v1/streams")

    keyed.revoke(reader)
    keyed.call(streams, "POST", "/v1/streams/payments/notes", {**note(), "time": 77})

    told = live.result(timeout=60).text
    assert '"time":77' not in told and told.endswith('event: end\ndata: {"reason":"unauthenticated"}\n\n')


# -- what operators are told of who is turned away --------------------------------------------------------------------

CONFIG = {"segments": 1, "mark_interval_ms": 0}


def denied(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The fields of the lines so far."""
    found: list[dict[str, Any]] = [vars(each)["fields"] for each in caplog.records if each.msg == "denied"]
    assert all(each.levelno == logging.WARNING for each in caplog.records if each.msg == "denied")
    return found


def test_a_denial_names_the_caller_the_call_and_the_need(keyed: Any, caplog: pytest.LogCaptureFixture) -> None:
    reader = keyed.make("reader", "a*")
    with caplog.at_level(logging.INFO):
        assert keyed.ask(None, "GET", "/v1/streams/s?x=hidden").status_code == 401
        assert keyed.ask("wrong-word", "PUT", "/v1/streams/s", CONFIG).status_code == 401
        assert keyed.ask(reader, "PUT", "/v1/streams/s", CONFIG).status_code == 403
        assert keyed.ask(reader, "GET", "/v1/streams/b").status_code == 403
        assert keyed.ask(reader, "GET", "/v1/streams/a").status_code == 404

    lines = denied(caplog)
    assert [(line["code"], line["method"], line["path"], line.get("by")) for line in lines] == [
        ("unauthenticated", "GET", "/v1/streams/s", None),
        ("unauthenticated", "PUT", "/v1/streams/s", None),
        ("forbidden", "PUT", "/v1/streams/s", "reader-1"),
        ("forbidden", "GET", "/v1/streams/b", "reader-1"),
    ]
    assert "the role 'admin'" in lines[2]["detail"] and "a pattern that allows 'b'" in lines[3]["detail"]
    assert all(line["client"] for line in lines)
    assert not any(secret in str(lines) for secret in ("wrong-word", reader, "hidden"))


def test_a_flood_is_left_out_and_counted_and_hides_no_other_kind(keyed: Any, caplog: pytest.LogCaptureFixture) -> None:
    reader = keyed.make("reader")
    with caplog.at_level(logging.INFO):
        for _ in range(DENIALS_BURST_LINES + 7):
            assert keyed.ask("wrong", "GET", "/v1/streams").status_code == 401
        assert len(denied(caplog)) == DENIALS_BURST_LINES
        keyed.ask(reader, "PUT", "/v1/streams/s", CONFIG)
        assert denied(caplog)[-1]["code"] == "forbidden"
        keyed.controller.clock.now += DENIALS_REFILL_MS
        for _ in range(3):
            keyed.ask("wrong", "GET", "/v1/streams")

    lines = [line for line in denied(caplog) if line["code"] == "unauthenticated"]
    assert [line.get("omitted") for line in lines[DENIALS_BURST_LINES - 1 :]] == [None, 7]
