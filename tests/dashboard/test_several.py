"""Pages that one of several controllers draws, of streams that another one serves."""

from __future__ import annotations

import signal
from typing import Any

import httpx
import pytest

from controller.cluster.records import Kind
from tests.dashboard.conftest import PART
from tests.dashboard.html_tree import Element, read
from tests.joint.pair import OF_ONE, OF_TWO, Pair, names_in, pair

pytestmark = pytest.mark.full

HERE = names_in(Kind.STREAM, OF_ONE, 1, "orders-")[0]
THERE = names_in(Kind.STREAM, OF_TWO, 1, "clicks-")[0]
GROUP = names_in(Kind.GROUP, OF_TWO, 1, "billing-")[0]


def cookie(both: Pair) -> dict[str, str]:
    return {"Cookie": f"strandline_token={both.admin}"}


def page(both: Pair, path: str, *, of: str = "one") -> Element:
    answer = getattr(both, of).client.get(path, headers=cookie(both))
    assert answer.status_code == 200, answer.text
    return read(answer.text)


def act(both: Pair, name: str, texts: dict[str, str] | None = None, **about: str) -> httpx.Response:
    """What a dialog of the first controller's page does."""
    headers = {**cookie(both), "Origin": both.one.url}
    address = f"/acts/{name}?{httpx.QueryParams(about)}"
    plan: dict[str, Any] = both.one.client.post(address, json=texts or {}, headers=headers).json()
    return both.one.client.request(plan["method"], plan["path"], json=plan["body"], headers=headers)


def states(both: Pair) -> dict[str, str]:
    return {each["Name"]: each["State"] for each in page(both, "/controllers").rows("controllers")}


def is_pair(answer: httpx.Response) -> bool:
    """Whether both controllers are live."""
    return answer.is_success and [each["state"] for each in answer.json()["controllers"]] == ["live", "live"]


def test_any_controller_draws_any_page_and_acts_until_one_is_killed(postgres_url: str) -> None:
    with pair(postgres_url) as both:
        for name in (HERE, THERE):
            both.stuck(name, 1_000, 2_000)
        both.done(both.one, "PUT", f"/v1/reader-groups/{GROUP}", {"streams": [THERE]})
        both.begin_two([THERE])
        for drawn_by in ("one", "two"):
            rows = {each["Stream"]: each for each in page(both, "/", of=drawn_by).rows("streams")}
            assert set(rows) == {f"{HERE} served by one", f"{THERE} served by two"}
            assert "served by two" in page(both, f"/streams/{THERE}", of=drawn_by).text
            assert "slow" in page(both, f"/streams/{THERE}", of=drawn_by).by_id("writers").text
            group = page(both, f"/reader-groups/{GROUP}", of=drawn_by)
            assert "served by two" in group.text and getattr(both, drawn_by).url in group.text  # of the visited one
            saved = getattr(both, drawn_by).client.get(f"/streams/{THERE}?export=writers.csv", headers=cookie(both))
            assert saved.headers["content-type"].startswith("text/csv") and "slow" in saved.text
            missing = getattr(both, drawn_by).client.get(f"/streams/{THERE}/writers/nobody", headers=cookie(both))
            assert missing.status_code == 404 and "Not here" in read(missing.text).one("h1").text

        # The owner tells all of its stream, and does what the visitor wants.
        assert act(both, "exclude", stream=THERE, writer="slow").is_success
        both.until(both.one, f"/v1/streams/{THERE}/writers", lambda answer: "excluded" in answer.text)
        writer = page(both, f"/streams/{THERE}/writers/slow")
        assert "excluded by anna: writer slow" in writer.section("Journal of this writer").text
        dialog = both.one.client.get(f"/acts/configure?stream={THERE}", headers=cookie(both))
        fields = {each["name"]: each["value"] for each in read(dialog.text).all("input") if "name" in each.attributes}
        fields |= {each["name"]: each.all("option")[0].text for each in read(dialog.text).all("select")}
        assert act(both, "configure", {**fields, "min_writers": "2"}, stream=THERE).is_success
        assert both.ask(both.two, f"/v1/streams/{THERE}").json()["min_writers"] == 2
        assert states(both) == {"one": "live", "two": "live"}

        # It cannot be reached any more: nothing of it is shown as if it were known, and the title says so (L17).
        both.way_to_two.muted.set()
        told = both.until(both.one, "/v1/status", lambda answer: bool(answer.json()["unread"]))
        assert told["unread"].keys() == {THERE}
        overview = page(both, "/")
        assert {each["Name"] for each in overview.rows("unknown")} == {THERE, GROUP}
        assert "1 not known" in overview.one("main")["data-title"]
        assert THERE not in overview.by_id("streams-table").text
        gone = both.one.client.get(f"/streams/{THERE}", headers=cookie(both))
        assert gone.status_code >= 500 and "Not known at this moment" in read(gone.text).one("h1").text
        assert "data-live" in read(gone.text).one("main").attributes  # it goes on by itself
        part = both.one.client.get(f"/streams/{THERE}", headers={**cookie(both), **PART})
        assert part.status_code >= 500 and part.json()["detail"]

        # It ends, and the other one serves everything; it was killed, and so it is lost (L16).
        both.two.process.kill()
        both.until(both.one, f"/v1/streams/{THERE}", lambda answer: answer.is_success)
        both.until(both.one, "/v1/status", lambda answer: not answer.json()["unread"])
        assert "served by one" in page(both, f"/streams/{THERE}").text
        assert states(both) == {"one": "live", "two": "lost"}


def test_a_controller_that_is_drained_or_stopped_has_ended(postgres_url: str) -> None:
    with pair(postgres_url) as both:
        both.begin_two([])
        both.until(both.one, "/v1/controllers", is_pair)
        both.until(both.one, "/v1/streams", lambda answer: answer.status_code == 401, token="none")  # tokens count now
        dialog = both.one.client.get("/acts/drain?controller=two", headers=cookie(both))
        assert "hands everything that it serves over" in read(dialog.text).text
        begun = act(both, "drain", controller="two")
        assert begun.status_code == 202, begun.text
        assert both.two.process.wait(30) == 0
        both.until(both.one, "/v1/controllers", lambda answer: '"ended"' in answer.text)
        assert states(both) == {"one": "live", "two": "ended"}
        last = act(both, "drain", controller="one")
        assert last.status_code == 409 and "is the last one that serves the store" in last.json()["detail"]
        both.processes.remove(both.two)
        both.begin_two([])
        both.until(both.one, "/v1/controllers", is_pair)
        both.two.process.send_signal(signal.SIGTERM)
        assert both.two.process.wait(30) == 0
        both.until(both.one, "/v1/controllers", lambda answer: '"ended"' in answer.text or '"lost"' in answer.text)
        assert states(both) == {"one": "live", "two": "ended"}
