"""`groups`, `evaluate`, `configure`, `scale`, `truncate`, `seal` and `delete`: what they change, and that they ask."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

NOON = 1_700_000_000_000


def group_of(served: Any, stream: str) -> str:
    """A group that reads the stream, with a reader that owns both of its segments."""
    group = f"bills-{stream.removeprefix('orders-')}"
    served.call("PUT", f"/v1/reader-groups/{group}", {"streams": [stream]})
    epoch = served.call("PUT", f"/v1/reader-groups/{group}/readers/r1")["epoch"]
    served.call("POST", f"/v1/reader-groups/{group}/readers/r1/acquire", {"epoch": epoch, "max": 2})
    return group


def test_groups_lists_each_with_its_streams_its_readers_and_its_watermark_also_one_made_just_now(
    serve: Callable[..., Any], strandline: Callable[..., Any]
) -> None:
    own = serve()  # the shared controller has more groups by then than are shown
    one, gone = own.stream(), own.stream()
    own.note(one, "w1", NOON, s0=5)
    first = group_of(own, one)
    (line,) = strandline("groups", "--controller", own.url).out.splitlines()[1:]
    assert line.split()[:3] == [first, one, "1"]
    second = group_of(own, gone)
    own.call("DELETE", f"/v1/streams/{gone}")
    lines = strandline("groups", "--controller", own.url).out.splitlines()[1:]
    assert [each.split()[0] for each in lines] == [first, second]
    assert lines[0].split()[1] == one and lines[1].endswith("one of its streams was deleted")
    names = json.loads(strandline("groups", "--controller", own.url, "--json").out)["groups"]
    assert names == [first, second]


def test_a_group_is_described_with_its_window_its_readers_and_what_they_own(
    served: Any, strandline: Callable[..., Any]
) -> None:
    stream = served.stream()
    group = group_of(served, stream)
    page = strandline("groups", group).out
    assert ["on_all_idle", "hold"] in [line.split() for line in page.splitlines()]
    (streams, readers) = page.partition("\nStreams\n")[2].split("\n\nReaders\n")
    assert streams.splitlines()[1].split()[0] == stream
    assert readers.splitlines()[1].split()[0] == "r1" and f"{stream}: 0=0,1=0" in readers
    assert json.loads(strandline("groups", group, "--json").out)["group"] == group


def test_evaluate_makes_the_mark_of_a_stream_that_makes_none_itself(
    served: Any, strandline: Callable[..., Any]
) -> None:
    stream = served.stream(mark_interval_ms=None)
    served.note(stream, "w1", NOON + 100, s0=5)
    assert "new mark: seq 1  time 2023-11-14 22:13:20.100Z" in strandline("evaluate", stream).out
    again = strandline("evaluate", stream)
    assert again.code == 0 and "no new mark; time is held back by: w1" in again.out
    assert json.loads(strandline("evaluate", stream, "--json").out)["mark"] is None


def test_configure_changes_what_it_is_given_and_leaves_the_rest(served: Any, strandline: Callable[..., Any]) -> None:
    stream = served.stream(late_writers="skip")
    done = strandline("configure", stream, "min_writers=2", "writer_timeout_ms=null")
    assert (done.code, done.out) == (0, f"{stream} has min_writers=2, writer_timeout_ms=null\n")
    has = served.call("GET", f"/v1/streams/{stream}")
    assert (has["min_writers"], has["writer_timeout_ms"], has["late_writers"]) == (2, None, "skip")
    group = group_of(served, stream)
    assert strandline("configure", "--group", group, "reader_timeout_ms=5000").code == 0
    assert served.call("GET", f"/v1/reader-groups/{group}")["reader_timeout_ms"] == 5000


@pytest.mark.parametrize(
    "create", ["2=0:0.25,3=0.25:0.5", '[{"id": "2", "high": 0.25, "low": 0}, {"id": "3", "low": 0.25, "high": 0.5}]']
)
def test_scale_ends_segments_and_begins_their_successors(
    served: Any, strandline: Callable[..., Any], create: str
) -> None:
    stream = served.stream()
    done = strandline("scale", stream, "--seal", "0=9", "--create", create, "--yes")
    assert (done.code, done.out) == (0, f"{stream} has ended 0, and begun 2, 3\n")
    segments = {each["id"]: each for each in served.call("GET", f"/v1/streams/{stream}")["segments"]}
    assert segments["0"]["final_offset"] == 9 and segments["3"]["predecessors"] == ["0"]


@pytest.mark.parametrize("create", ["2", "2=0", "2=a:b", "[1]", "[{}]", '[{"id": "2", "lo": 1}]', "[[[["])
def test_new_segments_that_make_no_sense_are_told_with_an_example(strandline: Callable[..., Any], create: str) -> None:
    done = strandline("scale", "orders", "--seal", "0=9", "--create", create, "--yes")
    assert (done.code, done.out) == (2, "") and "give 2=0:0.25,3=0.25:0.5" in done.err


def test_truncate_says_where_the_log_begins_and_seal_ends_the_stream(
    served: Any, strandline: Callable[..., Any]
) -> None:
    stream = served.stream()
    served.note(stream, "w1", NOON + 100, s0=5, s1=7)
    assert strandline("truncate", stream, "--head", "0=3", "--yes").out == f"{stream} begins at 0=3\n"
    done = strandline("seal", stream, "--final", "0=6", "--yes")
    assert done.code == 0 and done.out.startswith(f"{stream} is sealed\n")
    has = served.call("GET", f"/v1/streams/{stream}")
    assert has["sealed"] and [each["final_offset"] for each in has["segments"]] == [6, 7]


def test_delete_removes_a_stream_and_with_group_a_reader_group(served: Any, strandline: Callable[..., Any]) -> None:
    stream = served.stream()
    group = group_of(served, stream)
    assert strandline("delete", "--group", group, "--yes").out == f"{group} is deleted\n"
    assert json.loads(strandline("delete", stream, "--yes", "--json").out) == {"deleted": stream}
    assert stream not in json.loads(strandline("streams", "--json").out)["streams"]
    assert group not in json.loads(strandline("groups", "--json").out)["groups"]
    assert strandline("delete", stream, "--yes").code == 1


@pytest.mark.parametrize(
    "words",
    [
        ("seal", "STREAM"),
        ("delete", "STREAM"),
        ("truncate", "STREAM", "--head", "0=1"),
        ("scale", "STREAM", "--seal", "0=9", "--create", "2=0:0.5"),
    ],
    ids=lambda words: words[0],
)
def test_what_cannot_be_undone_is_refused_where_nobody_can_be_asked(
    served: Any, outside: Callable[..., Any], words: tuple[str, ...]
) -> None:
    stream = served.stream()
    before = served.call("GET", f"/v1/streams/{stream}")
    done = outside(*(stream if word == "STREAM" else word for word in words))
    assert (done.code, done.out) == (1, "") and "give --yes" in done.err
    assert served.call("GET", f"/v1/streams/{stream}") == before


@pytest.mark.parametrize("command", ["delete", "configure", "journal"])
def test_a_stream_and_a_group_at_once_are_refused_and_so_is_neither(
    strandline: Callable[..., Any], command: str
) -> None:
    more = ("min_writers=1",) if command == "configure" else ()
    for words in ((), ("orders", "--group", "billing")):
        done = strandline(command, *words, *more)
        assert done.code == 2 and "Name either a stream or a reader group" in done.err
