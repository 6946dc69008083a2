"""`journal`, against a controller in a process of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from controller.cli import journal

NOON = 1_700_000_000_000


@pytest.fixture
def eventful(served: Any) -> str:
    """A stream with an entry or more on most topics."""
    stream: str = served.stream()
    served.note(stream, "a", NOON, s0=5)
    served.note(stream, "b", NOON + 900, s1=5)
    bad = [{"writer": "a", "time": 1, "position": {}}, {"writer": "a"}]
    served.call("POST", f"/v1/streams/{stream}/notes", {"notes": bad})
    served.call("POST", f"/v1/streams/{stream}/writers/a/exclude")
    return stream


def test_the_journal_tells_in_words_what_happened(eventful: str, strandline: Callable[..., Any]) -> None:
    done = strandline("journal", eventful)
    lines = [line.split(maxsplit=5) for line in done.out.splitlines()]
    assert done.code == 0 and lines[0] == ["SEQ", "AT", "TOPIC", "BY", "WHAT"]
    told = [(line[3], line[5]) for line in lines[1:]]
    assert [topic for topic, _ in told] == [
        "action",
        "state",
        "pause",
        "state",
        "refusal",
        "refusal",
        "action",
        "state",
        "incomplete",
    ]
    texts = [text for _, text in told]
    assert texts[0].startswith("created: time_domain event, ") and texts[1] == "a became active"
    assert texts[2] == "the first mark was made"
    assert texts[4].startswith("refused (a) as time_went_back: ")
    assert texts[5].startswith("refused (position) as invalid")
    assert texts[6:8] == ["excluded: writer a", "a went from active to excluded"]
    assert texts[8].startswith("marks leave out a from ")


def test_json_is_as_the_api_has_it_and_a_topic_narrows_it(
    served: Any, eventful: str, strandline: Callable[..., Any]
) -> None:
    everything = served.call("GET", f"/v1/streams/{eventful}/journal?limit=1000")
    assert json.loads(strandline("journal", eventful, "--json").out) == everything
    refusals = [each for each in everything["entries"] if each["topic"] == "refusal"]
    assert json.loads(strandline("journal", eventful, "--json", "--topic", "refusal").out)["entries"] == refusals


def test_the_newest_are_shown_or_those_after_a_seq(eventful: str, strandline: Callable[..., Any]) -> None:
    def seqs(*words: str) -> list[int]:
        return [each["seq"] for each in json.loads(strandline("journal", eventful, "--json", *words).out)["entries"]]

    assert seqs("--limit", "2") == [8, 9]
    assert seqs("--limit", "2", "--after", "3") == [4, 5]
    assert strandline("journal", eventful, "--after", "9").out == "there is no such entry\n"


def test_a_reader_groups_journal_is_shown_by_its_name(
    served: Any, eventful: str, strandline: Callable[..., Any]
) -> None:
    group = f"group-of-{eventful}"
    served.call("PUT", f"/v1/reader-groups/{group}", {"streams": [eventful]})
    served.call("PUT", f"/v1/reader-groups/{group}/readers/r", {"positions": {eventful: {"0": 1}}})
    out = strandline("journal", "--group", group).out
    assert "reader registered: reader r\n" in out and f"r took {eventful}/0, and has 1 segments now\n" in out
    failed = strandline("journal", "--group", f"{group}s")
    assert failed.code == 1 and "`strandline groups` lists them" in failed.err


def test_following_prints_each_entry_as_it_comes(
    served: Any, eventful: str, start: Callable[..., subprocess.Popen[str]]
) -> None:
    process = start("journal", eventful, "--follow", "--json", "--topic", "action", "--after", "0", "--limit", "1")
    assert process.stdout is not None
    assert [json.loads(process.stdout.readline())["kind"] for _ in range(2)] == ["created", "excluded"]
    served.call("DELETE", f"/v1/streams/{eventful}/writers/a/exclude")
    assert json.loads(process.stdout.readline())["kind"] == "included"


@pytest.mark.parametrize("what", ["stream", "group"])
def test_following_goes_on_with_the_journal_of_what_is_created_again(
    served: Any, eventful: str, strandline: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    path, body, words = {
        "stream": (f"/v1/streams/{eventful}", {"segments": 1}, (eventful,)),
        "group": ("/v1/reader-groups/again", {"streams": [eventful]}, ("--group", "again")),
    }[what]
    if what == "group":
        served.call("PUT", path, body)
    shown = iter(range(2))

    def create_again_or_end(_seconds: float) -> None:
        """In place of the pause between two calls."""
        if next(shown, None) is None:
            raise KeyboardInterrupt
        served.call("DELETE", path)
        served.call("PUT", path, body)

    monkeypatch.setattr(journal, "time", SimpleNamespace(sleep=create_again_or_end))
    out = strandline("journal", *words, "--follow", "--json", "--topic", "action", "--limit", "1").out
    kinds = [json.loads(line)["kind"] for line in out.splitlines()]
    assert kinds[-2:] == ["created", "created"] and len(kinds) == 3
