"""The pages that one of two controllers draws, of streams that the other one serves."""

from __future__ import annotations

import re
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import Page, expect

from controller.cli import main
from controller.cluster.records import Kind
from tests.joint.pair import OF_ONE, OF_TWO, names_in, pair

pytestmark = pytest.mark.full

HERE = names_in(Kind.STREAM, OF_ONE, 1, "orders-")[0]
THERE = names_in(Kind.STREAM, OF_TWO, 1, "clicks-")[0]
GROUP = names_in(Kind.GROUP, OF_TWO, 1, "billing-")[0]


def some_is_missing(answer: httpx.Response) -> bool:
    """Whether a stream and a group have no status."""
    told = answer.json()
    return bool(told["unread"] and told["unread_groups"])


def test_a_page_shows_streams_of_both_controllers_until_one_is_killed(
    postgres_url: str, open_page: Callable[..., Page], capsys: pytest.CaptureFixture[str]
) -> None:
    with pair(postgres_url) as both:
        for name in (HERE, THERE):
            both.stuck(name, 1_000, 2_000)
        both.done(both.one, "PUT", f"/v1/reader-groups/{GROUP}", {"streams": [THERE]})
        both.begin_two([THERE])
        overview, stream = open_page(), open_page()
        overview.goto(both.one.url)
        overview.get_by_label("Token").fill(both.admin)
        overview.get_by_role("button", name="Sign in").click()
        row_here = overview.get_by_role("row").filter(has=overview.get_by_role("link", name=HERE))
        row_there = overview.get_by_role("row").filter(has=overview.get_by_role("link", name=THERE))
        expect(row_here).to_contain_text("served by one")
        expect(row_there).to_contain_text("served by two")
        expect(row_there).to_contain_text("stalled")
        expect(overview.get_by_role("row").filter(has_text=GROUP)).to_be_visible()

        # The owner tells all of its stream, and does what the visitor wants.
        stream.goto(f"{both.one.url}/streams/{THERE}")
        expect(stream.get_by_text("served by two")).to_be_visible()
        expect(stream.get_by_text("Furthest behind is")).to_be_visible()
        expect(stream.get_by_role("cell", name="slow", exact=True)).to_be_visible()
        stream.get_by_role("button", name="Exclude it").click()
        stream.get_by_role("dialog").get_by_role("button", name="Exclude").click()
        expect(stream.get_by_text("excluded by anna: writer slow")).to_be_visible()
        stream.get_by_role("button", name="Configure").click()
        stream.get_by_label("min_writers").fill("2")
        stream.get_by_role("button", name="Continue").click()
        stream.get_by_role("dialog").get_by_role("button", name="Change").click()
        expect(stream.get_by_text("the configuration is changed")).to_be_visible()
        assert both.ask(both.two, f"/v1/streams/{THERE}").json()["min_writers"] == 2
        page = stream.context.new_page()
        page.goto(f"{both.one.url}/reader-groups/{GROUP}")
        expect(page.get_by_text("served by two")).to_be_visible()
        page.goto(f"{both.one.url}/streams/{THERE}/writers/slow")
        expect(page.get_by_role("cell", name="excluded", exact=True)).to_be_visible()
        page.get_by_role("button", name="Include").click()
        page.get_by_role("dialog").get_by_role("button", name="Include").click()
        expect(page.get_by_text("included by anna: writer slow")).to_be_visible()

        # It cannot be reached any more: nothing of it is shown as if it were known.
        both.way_to_two.muted.set()
        told = both.until(both.one, "/v1/status", some_is_missing)
        assert told["unread"].keys() == {THERE} and [each["stream"] for each in told["streams"]] == [HERE]
        assert told["unread_groups"].keys() == {GROUP}
        assert both.ask(both.one, "/v1/status?trouble=true").json()["unread"].keys() == {THERE}
        assert main(["watch", "--once", "--controller", both.one.url, "--token", both.admin]) == 0
        assert re.search(rf"{THERE} .* not known: ", capsys.readouterr().out)
        unknown = overview.locator(".sl-card").filter(has=overview.get_by_role("heading", name="Not known"))
        expect(unknown.get_by_role("link", name=THERE)).to_be_visible()
        expect(unknown.get_by_role("link", name=GROUP)).to_be_visible()
        expect(row_there).not_to_contain_text("stalled")
        expect(stream.get_by_role("alert")).to_contain_text("from before")

        # It ends, and the other one serves everything: the pages go on by themselves.
        both.two.process.kill()
        expect(row_there).to_contain_text("served by one")
        expect(unknown).to_be_hidden()
        expect(stream.get_by_text("served by one")).to_be_visible()
        expect(stream.get_by_role("alert")).to_be_hidden()
        expect(stream.get_by_role("cell", name="slow", exact=True).first).to_be_visible()
