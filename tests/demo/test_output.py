"""What a run shows: its lines, its table, its picture."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_integration.offsets import END_OF_TIME_MS
from spark_integration.progress import epoch_ms
from strandline.core.aggregate import Holder
from strandline_demo.messages import (
    Drained,
    Emitted,
    Left,
    Message,
    Progress,
    Ready,
    Registered,
    Rested,
    Returned,
    Vanished,
    Wrote,
    from_line,
    to_line,
)
from strandline_demo.picture import Moment, Scene, draw, staircase
from strandline_demo.progress import Observed, describe_holder
from strandline_demo.settings import DemoSettings
from strandline_demo.table import render
from strandline_demo.truth import Emission, LoggedEvent, Outcome

whole = st.integers(-(2**53), 2**53)
batches = st.builds(Progress, st.text(), whole, whole, whole, whole)
messages = st.one_of(
    st.builds(Ready),
    st.builds(Registered, st.text(), st.none() | whole),
    st.builds(Wrote, st.text(), whole),
    st.builds(Rested, st.text()),
    st.builds(Vanished, st.text(), whole),
    st.builds(Returned, st.text(), whole, whole),
    st.builds(Left, st.text(), whole),
    st.builds(Emitted, st.text(), whole, st.lists(st.tuples(whole, whole)).map(tuple)),
    batches,
    st.builds(Drained, st.lists(batches).map(tuple)),
)


@given(messages)
def test_a_message_survives_its_line(message: Message) -> None:
    line = to_line(message)
    assert "\n" not in line
    assert from_line(line) == message


@pytest.mark.parametrize("line", ["", "strandline is ready", "{}", "[1]", '{"kind":"Wrote"}', '{"kind":"Nothing"}'])
def test_any_other_line_is_no_message(line: str) -> None:
    with pytest.raises(ValueError):
        from_line(line)


def outcome(**changed: int | None) -> Outcome:
    fields: dict[str, int | None] = {
        "events": 25_200,
        "missing": 0,
        "rows_dropped": 0,
        "emitted": 18,
        "wrong": 0,
        "open_at_end": 0,
        "median_delay_ms": 4_849,
        "worst_delay_ms": 12_351,
    }
    return Outcome(**fields | changed)  # type: ignore[arg-type]  # the delays may be null, the others are not


def test_the_table_has_a_line_for_each_number_and_names_the_delay() -> None:
    plain = outcome(missing=418, rows_dropped=2, wrong=2, emitted=15, open_at_end=3, worst_delay_ms=7_700)
    lines = render(DemoSettings(delay_ms=2_500), outcome(), plain).splitlines()
    assert lines[0].split("   ")[-1] == 'withWatermark "2.5 seconds"'
    rows = {line[:30].strip(): line[30:].split("   ") for line in lines[2:10]}
    assert {name: [cell.strip() for cell in cells if cell.strip()] for name, cells in rows.items()} == {
        "events written": ["25 200", "25 200"],
        "events missing": ["0", "418"],
        "rows dropped": ["0", "2"],
        "windows emitted": ["18", "15"],
        "windows wrong": ["0", "2"],
        "windows left open at the end": ["0", "3"],
        "delay of closing, median": ["4.8 s", "4.8 s"],
        "delay of closing, worst": ["12.4 s", "7.7 s"],
    }
    assert lines[-1].startswith("Left open:")


def test_the_table_says_where_no_window_came() -> None:
    table = render(DemoSettings(), outcome(), outcome(emitted=0, median_delay_ms=None, worst_delay_ms=None))
    assert table.count("none emitted") == 2
    assert "Left open" not in table


def test_lines_tell_how_far_events_and_watermarks_are_and_who_holds() -> None:
    seen = Observed()
    for message in (Wrote("steady", 1_000), Wrote("slow", 200), Wrote("steady", 1_100)):
        assert seen.take(message) is None
    assert seen.summary(0, "x").split("   ") == ["  1 300 events", "no batch yet", "x"]
    seen.take(Progress("exact", 1, 9_000, 5_000, 0))
    seen.take(Progress("plain", 0, 9_000, 0, 0))
    seen.take(Progress("plain", 1, 9_500, 0, 3))
    assert seen.summary(9_100, "slow holds time back").split("   ")[1:] == [
        "exact  4.1 s behind",
        "plain has no watermark yet",
        "slow holds time back",
    ]
    seen.take(Progress("plain", 2, 9_900, 4_000, 4))
    assert "plain  5.1 s behind, 7 rows dropped" in seen.summary(9_100, "")


def test_lines_tell_what_writers_do_once_it_is_worth_one() -> None:
    seen = Observed()
    assert seen.take(Registered("idle", None)) is None
    assert "idle" in (seen.take(Rested("idle")) or "")
    assert "registers again" in (seen.take(Registered("idle", 7)) or "")
    assert "gone" in (seen.take(Vanished("offline", 10_050)) or "")
    assert "backlog of 2000 events" in (seen.take(Returned("offline", 20_010, 2_000)) or "")
    assert seen.outage == (10_050, 20_010)
    assert seen.take(Left("idle", 0)) == "idle: closes"
    assert "3 events" in (seen.take(Left("slow", 3)) or "")
    assert seen.left == {"idle", "slow"}
    assert seen.take(Emitted("exact", 5_000, ((0, 4), (2_000, 5)))) is None
    assert seen.emissions["exact"] == [Emission(0, 4, 5_000), Emission(2_000, 5, 5_000)]


@pytest.mark.parametrize(
    ("holder", "words"),
    [
        (None, "nobody holds time back"),
        (
            Holder(writer=None, state="min_writers", time=None, last_heard_ms_ago=None, released_in_ms=None),
            "not all writers have noted yet",
        ),
        (
            Holder(writer="slow", state="active", time=5, last_heard_ms_ago=1_400, released_in_ms=60_000),
            "slow holds time back",
        ),
        (
            Holder(writer="offline", state="active", time=5, last_heard_ms_ago=6_100, released_in_ms=60_000),
            "offline holds time back (silent for 6 s)",
        ),
    ],
)
def test_the_holder_is_named_with_its_silence(holder: Holder | None, words: str) -> None:
    assert describe_holder(holder) == words


#   watermark   10 ┌───┐ then 30 ┌──────┐ the end
#   at          5 s    8 s       8 s    10 s
def test_a_watermark_stands_still_between_its_moments() -> None:
    moments = [Moment(105_000, 103_000), Moment(108_000, 106_500), Moment(111_000, 110_000)]
    assert staircase(moments, 100_000, 110_000) == ([5.0, 8.0, 8.0, 10.0], [3.0, 3.0, 6.5, 6.5])
    assert staircase([], 100_000, 110_000) == ([], [])


@pytest.mark.parametrize("outage", [None, (104_000, 107_000)])
def test_the_picture_is_a_png_of_some_size_also_when_nothing_was_lost(
    tmp_path: Path, outage: tuple[int, int] | None
) -> None:
    events = [LoggedEvent(100_000 + number * 10, 100_100 + number * 10) for number in range(1_000)]
    scene = Scene(
        start_ms=100_000,
        end_ms=110_100,
        delay_ms=5_000,
        exact=(Moment(102_000, 101_000), Moment(108_000, 107_000)),
        plain=(),
        outage=outage,
        events=events,
        dropped=events[:10] if outage else [],
    )
    path = tmp_path / "picture"
    draw(scene, path)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = struct.unpack(">II", content[16:24])
    assert width > 1_000
    assert height > 500


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:00:00.000Z", 0),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("+287396-10-12T08:59:00.991Z", END_OF_TIME_MS),
    ],
)
def test_spark_s_moments_are_read_and_so_is_the_end_of_time(text: str, moment: int) -> None:
    assert epoch_ms(text) == moment
