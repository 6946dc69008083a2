"""`assess`: of files, of an embedded log, and what it says of what it cannot read."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controller.cli import main
from reader_client.log_checks.event_sources import EventFields
from strandline.logs import Event
from strandline.logs.sqlite import SqliteLog

NOON = 1_700_000_000_000
# till, time and arrival in seconds after NOON: the second event of b comes 8 s late
ROWS = [("a", 0, 0), ("b", 1, 1), ("a", 10, 10), ("b", 2, 11), ("a", 70, 70), ("a", 71, 72), ("b", 69, 73)]
Assess = Callable[..., tuple[int, str, str]]


@pytest.fixture
def assess(capsys: pytest.CaptureFixture[str]) -> Assess:
    def run(*words: str | Path) -> tuple[int, str, str]:
        code = main(["assess", *map(str, words)])
        return (code, *capsys.readouterr())

    return run


def rows(of: Sequence[tuple[str, int, int]] = tuple(ROWS)) -> list[dict[str, Any]]:
    return [
        {"till": till, "event": {"time": NOON + 1000 * time}, "arrived": NOON + 1000 * arrived}
        for till, time, arrived in of
    ]


def json_lines(folder: Path, name: str = "orders.jsonl") -> Path:
    file = folder / name
    text = "".join(f"{json.dumps(row)}\n" for row in rows())
    file.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return file


FIELDS = ("--field", "event.time", "--arrived", "arrived", "--partition", "till", "--delays", "0,5s,10s")


def test_a_table_says_what_each_delay_loses_and_how_long_results_wait(assess: Assess, tmp_path: Path) -> None:
    file = json_lines(tmp_path)
    code, out, err = assess(file, *FIELDS)
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert out.startswith(f"{file}: 7 events in 2 partition(s), 2023-11-14 22:13:20.000Z to ")
    assert lines[2][:3] == ["DELAY", "LATE", "SHARE"]
    assert lines[3][:5] == ["0", "s", "2", "28.6", "%"]
    assert lines[4][:5] == ["5", "s", "1", "14.3", "%"]
    assert lines[5][:5] == ["10", "s", "0", "0.0", "%"]
    assert "To lose nothing in this order, the delay has to be 8.0 s (8000 ms)." in out
    assert "To lose nothing in a replay that reads partition a 4 times as fast as the others" in out


def test_gzip_csv_and_parquet_say_the_same(assess: Assess, tmp_path: Path) -> None:
    flat = [{"till": row["till"], "time": row["event"]["time"], "arrived": row["arrived"]} for row in rows()]
    csv = tmp_path / "orders.csv"
    csv.write_text("till,time,arrived\n" + "".join(f"{row['till']},{row['time']},{row['arrived']}\n" for row in flat))
    parquet = tmp_path / "orders.parquet"
    pq.write_table(pa.Table.from_pylist(rows()), parquet)
    wanted = assess(json_lines(tmp_path), *FIELDS, "--json")[1]
    assert assess(json_lines(tmp_path, "orders.ndjson.gz"), *FIELDS, "--json")[1] == wanted
    assert assess(csv, *FIELDS, "--field", "time", "--json")[1] == wanted
    assert assess(parquet, *FIELDS, "--json")[1] == wanted


def test_times_may_be_dates_or_of_another_unit(assess: Assess, tmp_path: Path) -> None:
    file = tmp_path / "times.csv"
    file.write_text("at,seconds\n2026-01-01T12:00:05Z,5\n2026-01-01T12:00:01.500+00:00,1.5\n")
    for words in (("--field", "at"), ("--field", "seconds", "--unit", "s")):
        assert json.loads(assess(file, *words, "--json")[1])["total"]["most_behind_ms"] == 3_500


@pytest.mark.parametrize(("unit", "by"), [("us", 1_000), ("ns", 1_000_000)])
def test_a_whole_time_of_a_smaller_unit_stays_whole(unit: str, by: int) -> None:
    fields = EventFields("at", unit=unit)
    times = range(NOON, NOON + 1_000)
    assert [fields.time_in({"at": time * by}, "at") for time in times] == list(times)
    assert fields.time_in({"at": -1}, "at") == -1  # the millisecond before 1970


def test_a_value_that_is_no_object_may_be_the_time(assess: Assess, tmp_path: Path) -> None:
    lines = tmp_path / "times.jsonl"
    lines.write_text("1700000005000\n1700000001500\n")
    with SqliteLog.create(tmp_path / "times.log", 1) as log:
        log.append([Event(line.encode(), segment="0") for line in lines.read_text().split()])
    for source in ((lines,), ("--path", tmp_path / "times.log")):
        found = json.loads(assess(*source, "--field", ".", "--json")[1])
        assert (found["total"]["events"], found["total"]["most_behind_ms"]) == (2, 3_500)


def test_an_embedded_log_is_read_by_segment_or_by_a_field(assess: Assess, tmp_path: Path) -> None:
    with SqliteLog.create(tmp_path / "orders.log", 2) as log:
        for till, time, _ in ROWS:
            value = json.dumps({"time": NOON + 1000 * time, "till": till}).encode()
            log.append([Event(value, segment=str("ab".index(till)))])
    path = ("--path", tmp_path / "orders.log")
    found = json.loads(assess(*path, "--field", "time", "--delays", "0,5s", "--json")[1])
    assert [(each["whose"], each["events"]) for each in found["partitions"]] == [("1", 3), ("0", 4)]
    by_append = json.loads(assess(*path, "--json")[1])
    assert by_append["total"]["most_behind_ms"] == 0  # the log stamps what it takes
    by_till = json.loads(assess(*path, "--partition", "till", "--json")[1])
    assert [(each["whose"], each["events"]) for each in by_till["partitions"]] == [("a", 4), ("b", 3)]
    assert json.loads(assess(*path, "--limit", "2", "--json")[1])["total"]["events"] == 2


def test_events_without_a_time_are_counted_and_the_last_one_is_named(assess: Assess, tmp_path: Path) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text('{"time": 1}\n{"time": "soon"}\n{"time": 2}\n[]\nnothing\n')
    _, out, _ = assess(file, "--field", "time")
    assert f"3 more have no time and were left out, the last one: {file}, row 5: there is no field 'time'" in out


@pytest.mark.parametrize(
    ("name", "text", "words", "told"),
    [
        ("a.jsonl", '{"at": 1}\n', ("--field", "time"), "there is no field 'time'; there are at"),
        ("a.jsonl", "", ("--field", "time"), "there is no event"),
        ("a.jsonl", '{"time": NaN}\n', ("--field", "time"), "which is no time"),
        ("a.jsonl", '{"time": 1}\n', (), "--field"),
        ("a.txt", "1\n", ("--field", "time"), "no known format"),
        ("a.parquet", "nonsense", ("--field", "time"), "cannot be read"),
        ("a.csv.gz", "nonsense", ("--field", "time"), "cannot be read"),
    ],
)
def test_what_cannot_be_assessed_is_an_error_that_says_why(
    assess: Assess, tmp_path: Path, name: str, text: str, words: tuple[str, ...], told: str
) -> None:
    (tmp_path / name).write_text(text)
    code, out, err = assess(tmp_path / name, *words)
    assert (code, out) == (1, "") and told in err


@pytest.mark.parametrize(("unit", "word", "scale"), [("s", "seconds", 0.001), ("us", "microseconds", 1_000)])
def test_times_in_another_unit_are_told_with_the_option(
    assess: Assess, tmp_path: Path, unit: str, word: str, scale: float
) -> None:
    file = tmp_path / "orders.jsonl"
    file.write_text("".join(f'{{"ts": {int((NOON + 1_000 * time) * scale)}}}\n' for _, time, _ in ROWS))
    code, out, err = assess(file, "--field", "ts")
    assert (code, out) == (1, "") and f"look like {word}, and no delay was tried: use --unit {unit}" in err
    assert "2023-11-14" in assess(file, "--field", "ts", "--unit", unit)[1]
    assert assess(file, "--field", "ts", "--unit", "ms")[0] == 0  # who says so means it
