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
