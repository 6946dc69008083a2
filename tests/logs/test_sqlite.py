"""The embedded log: its file, its ranges, several processes at once, and death at any moment."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strandline.core.segment import NewSegment
from strandline.errors import InvalidScale, TooMany, UnknownSegment
from strandline.logs import EVENT_BYTES, Event, StoredEvent
from strandline.logs.buffered_transaction import TRANSACTION_BYTES
from strandline.logs.columns import event_schema
from strandline.logs.errors import (
    InvalidEvent,
    LogBusy,
    LogExists,
    LogMissing,
    LogSealed,
    LogUnavailable,
    LogVersion,
    NotALog,
    NotInLog,
    SegmentSealed,
)
from strandline.logs.layout import key_place
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader

ROOT = Path(__file__).resolve().parents[2]


def _fill(path: Path, count: int, segment: str = "0") -> None:
    with SqliteLog.create(path, 2) as log:
        log.append(Event(b"%d" % n, key=b"k" if n % 2 else None, segment=segment) for n in range(count))


def _python(script: str, *arguments: object) -> subprocess.Popen[str]:
    """A real process that runs a script with this project on its path."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "stream.db"
    _fill(path, 700)
    return path


class TestRanges:
    @settings(max_examples=40, deadline=None)
    @given(bounds=st.tuples(st.integers(0, 700), st.integers(0, 700)).map(sorted), batch_rows=st.integers(1, 800))
    def test_a_range_is_exactly_what_was_asked_for_both_ways(
        self, filled: Path, bounds: list[int], batch_rows: int
    ) -> None:
        start, end = bounds
        expected = [{"offset": n, "value": b"%d" % n, "key": b"k" if n % 2 else None} for n in range(start, end)]
        with SqliteLogReader(filled) as reader:
            batches = list(reader.read("0", start, end, batch_rows=batch_rows))
            assert all(0 < batch.num_rows <= batch_rows for batch in batches)
            found = pa.Table.from_batches(batches, event_schema()).select(["offset", "value", "key"])
            assert found.to_pylist() == expected
            rows = [{"offset": one.offset, "value": one.value, "key": one.key} for one in reader.rows("0", start, end)]
            assert rows == expected

    @pytest.mark.parametrize(("start", "end"), [(0, 701), (700, 701), (-1, 5), (5, 4)])
    def test_a_range_that_is_not_wholly_there_is_an_error_not_less(self, filled: Path, start: int, end: int) -> None:
        with SqliteLogReader(filled) as reader:
            with pytest.raises(NotInLog):
                list(reader.read("0", start, end))
            with pytest.raises(NotInLog):
                list(reader.rows("0", start, end))

    def test_an_unknown_segment_is_an_error_that_names_the_known_ones(self, filled: Path) -> None:
        with SqliteLogReader(filled) as reader, pytest.raises(UnknownSegment, match="'7'; it has 0, 1"):
            reader.read("7", 0, 0)

    def test_keys_that_appear_late_in_a_range_keep_their_type(self, path: Path) -> None:
        events = [Event(b"v", segment="0")] * 3000 + [Event(None, key=b"late", segment="0")]
        with SqliteLog.create(path, 1) as log:
            log.append(events)
        with SqliteLogReader(path) as reader:
            table = pa.Table.from_batches(reader.read("0", 0, 3001))
        assert table.schema == event_schema()
        assert table["key"].to_pylist() == [None] * 3000 + [b"late"]
        assert table["value"][3000].as_py() is None

    def test_large_events_make_small_batches(self, path: Path) -> None:
        with SqliteLog.create(path, 1) as log:
            log.append(Event(bytes(200_000), segment="0") for _ in range(400))
        with SqliteLogReader(path) as reader:
            batches = [batch.num_rows for batch in reader.read("0", 0, 400)]
        assert batches[0] == 256
        assert max(batches[1:]) <= 84

    def test_events_carry_the_writers_clock_to_the_millisecond(self, path: Path, ticking: Callable[[], int]) -> None:
        with SqliteLog.create(path, 1, clock=ticking) as log:
            log.append([Event(b"a", segment="0"), Event(b"b", segment="0")])
            log.append([Event(b"c", segment="0")])
        with SqliteLogReader(path) as reader:
            (batch,) = reader.read("0", 0, 3)
            assert batch["appended_at"].cast(pa.int64()).to_pylist() == [1_000_000, 1_000_000, 1_001_000]
            assert list(reader.rows("0", 2, 3)) == [StoredEvent("0", 2, None, b"c", 1001)]

    def test_a_path_with_odd_characters_is_just_a_path(self, tmp_path: Path) -> None:
        path = tmp_path / "100% odd?#name .db"
        _fill(path, 3)
        with SqliteLogReader(path) as reader:
            assert [batch.num_rows for batch in reader.read("0", 0, 3)] == [3]


class TestFile:
    def test_creating_twice_opens_what_is_there_and_with_other_segments_is_refused(self, path: Path) -> None:
        _fill(path, 5)
        with SqliteLog.create(path, 2) as log:
            assert log.end_offsets() == {"0": 5, "1": 0}
        with pytest.raises(LogExists, match="0, 1"):
            SqliteLog.create(path, 3)

    def test_ranges_that_do_not_tile_make_no_file(self, path: Path) -> None:
        with pytest.raises(InvalidScale):
            SqliteLog.create(path, [NewSegment("a", 0.0, 0.4), NewSegment("b", 0.5, 1.0)])
        assert list(path.parent.iterdir()) == []

    def test_explicit_ranges_route_by_key(self, path: Path) -> None:
        with SqliteLog.create(path, [NewSegment("low", 0.0, 0.25), NewSegment("rest", 0.25, 1.0)]) as log:
            for key in (b"%d" % n for n in range(50)):
                assert list(log.append([Event(b"", key=key)])) == ["low" if key_place(key) < 0.25 else "rest"]

    def test_the_key_hash_is_fixed_for_good(self) -> None:
        places = [key_place(key) for key in (b"", b"phone-1")]
        assert places == [0.8931675160897388, 0.8774423630780339]

    @given(st.binary(max_size=20))
    def test_every_key_has_a_place(self, key: bytes) -> None:
        assert 0.0 <= key_place(key) < 1.0

    @pytest.mark.parametrize("opening", [SqliteLog, SqliteLogReader])
    def test_what_is_no_log_or_a_newer_one_is_not_opened(self, path: Path, opening: Callable[[Path], object]) -> None:
        with pytest.raises(LogMissing, match=r"stream\.db"):
            opening(path)
        assert not path.exists()
        path.write_bytes(b"not a database, but as long as the header of one, which is a hundred bytes" * 3)
        with pytest.raises(NotALog):
            opening(path)
        path.unlink()
        sqlite3.connect(path).execute("CREATE TABLE other (a)").connection.close()
        with pytest.raises(NotALog, match="application_id"):
            opening(path)
        path.unlink()
        _fill(path, 1)
        connection = sqlite3.connect(path)
        connection.execute("PRAGMA user_version = 3")
        connection.close()
        with pytest.raises(LogVersion, match="version 3"):
            opening(path)

    def test_events_and_transactions_are_bounded(self, path: Path) -> None:
        with SqliteLog.create(path, 1) as log:
            with pytest.raises(InvalidEvent, match=str(EVENT_BYTES)):
                log.append([Event(bytes(EVENT_BYTES + 1), segment="0")])
            large = [Event(bytes(EVENT_BYTES), segment="0")] * (TRANSACTION_BYTES // EVENT_BYTES + 1)
            with log.begin() as transaction, pytest.raises(TooMany, match=str(TRANSACTION_BYTES)):
                transaction.write(large)
            assert log.end_offsets() == {"0": 0}

    def test_a_failed_append_leaves_nothing_and_the_position_where_it_was(self, path: Path) -> None:
        with SqliteLog.create(path, 1) as log:
            log.append([Event(b"kept", segment="0")])
            (pages,) = log._connection.execute("PRAGMA page_count").fetchone()
            log._connection.execute(f"PRAGMA max_page_count = {pages}")  # the disk is full
            with pytest.raises(LogUnavailable, match="full"):
                log.append(Event(bytes(1000), segment="0") for _ in range(1000))
            assert log.positions() == log.end_offsets() == {"0": 1}


class TestScaling:
    def test_a_split_moves_keys_and_keeps_what_was_there(self, path: Path) -> None:
        with SqliteLog.create(path, 1) as log:
            log.append(Event(b"before", key=b"%d" % n) for n in range(10))
            halves = [NewSegment("1", 0.0, 0.5), NewSegment("2", 0.5, 1.0)]
            assert log.scale(["0"], halves) == {"0": 10}
            assert log.scale(["0"], halves) == {"0": 10}  # once more changes nothing
            log.append(Event(b"after", key=b"%d" % n) for n in range(10))
            with pytest.raises(SegmentSealed, match="'0' is sealed at 10"):
                log.append([Event(b"late", segment="0")])
        with SqliteLogReader(path) as reader:
            assert [(one.id, one.predecessors, one.final_offset) for one in reader.segments()] == [
                ("0", (), 10),
                ("1", ("0",), None),
                ("2", ("0",), None),
            ]
            ends = reader.end_offsets()
            assert ends["0"] == 10
            assert ends["1"] + ends["2"] == 10
            assert ends["1"] > 0
            assert ends["2"] > 0

    def test_a_merge_reaches_writers_that_were_open_before_and_a_sealed_log_takes_no_more(self, path: Path) -> None:
        with SqliteLog.create(path, 2) as old, SqliteLog(path) as other:
            old.append([Event(b"a", key=b"k")])
            with pytest.raises(InvalidScale):
                other.scale(["0"], [NewSegment("2", 0.0, 0.4)])  # successors cover what is sealed
            assert [one.sealed for one in other.segments()] == [False, False]
            finals = other.scale(["0", "1"], [NewSegment("2", 0.0, 1.0)])
            assert old.append([Event(b"b", key=b"k")]) == {"2": 1}
            assert other.seal() == other.seal() == {**finals, "2": 1}
            with pytest.raises(LogSealed):
                old.append([Event(b"c", key=b"k")])


WRITER = """
    import sys
    from strandline.logs import Event
    from strandline.logs.sqlite import SqliteLog
    path, name, appends = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3])
    with SqliteLog.create(path, 3) as log:
        for n in range(appends):
            log.append(Event(b"%s %d %d" % (name, n, part), segment=str((n + part) % 3)) for part in range(5))
        print(sorted(log.positions().items()))
"""

PAUSED = """
    import sys
    from strandline.logs import Event
    from strandline.logs.sqlite import SqliteLog
    def pause():
        print("in the middle", flush=True)
        sys.stdin.read()
    with SqliteLog(sys.argv[1]) as log:
        log._connection.create_function("pause", 0, pause)
        log._connection.execute(
            "CREATE TEMP TRIGGER halfway AFTER INSERT ON event WHEN NEW.value = CAST('15000' AS BLOB) "
            "BEGIN SELECT pause(); END"
        )
        with log.begin() as transaction:
            transaction.write(Event(b"%d" % n, segment=str(n % 3)) for n in range(20_000))
            transaction.commit()
"""


class TestProcesses:
    def test_writers_in_several_processes_lose_and_mix_up_nothing(self, path: Path) -> None:
        writers = [_python(WRITER, path, name, 40) for name in ("a", "b", "c")]
        answers = [writer.communicate(timeout=60)[0] for writer in writers]
        assert [writer.returncode for writer in writers] == [0, 0, 0]
        found: dict[str, list[bytes | None]] = {}
        with SqliteLogReader(path) as reader:
            for segment, end in reader.end_offsets().items():
                found[segment] = [event.value for event in reader.rows(segment, 0, end)]
        expected = {
            b"%s %d %d" % (name, n, part) for name in (b"a", b"b", b"c") for n in range(40) for part in range(5)
        }
        everything = [value for values in found.values() for value in values]
        assert len(everything) == len(expected)
        assert set(everything) == expected
        for name, answer in zip(("a", "b", "c"), answers, strict=True):
            own = [
                (segment, 1 + max(n for n, value in enumerate(values) if str(value).startswith(f"b'{name} ")))
                for segment, values in sorted(found.items())
            ]
            assert answer.strip() == str(own)  # each position ends right behind its writer's last event

    def test_a_writer_killed_in_mid_transaction_leaves_nothing_of_it(self, path: Path) -> None:
        with SqliteLog.create(path, 3) as log:
            log.append([Event(b"before", segment="0")])
            writer = _python(PAUSED, path)
            assert writer.stdout is not None
            assert writer.stdout.readline() == "in the middle\n"
            os.kill(writer.pid, signal.SIGKILL)
            writer.communicate(timeout=60)
            assert log.end_offsets() == {"0": 1, "1": 0, "2": 0}
            assert log.append([Event(b"after", segment="0")]) == {"0": 2}
            assert log._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)

    def test_a_log_held_too_long_is_reported_to_other_writers(self, path: Path) -> None:
        with SqliteLog.create(path, 3), SqliteLog(path, busy_timeout_ms=50) as log:
            writer = _python(PAUSED, path)
            assert writer.stdout is not None
            assert writer.stdout.readline() == "in the middle\n"
            with pytest.raises(LogBusy, match="50 ms"):
                log.append([Event(b"mine", segment="0")])
            assert log.positions() == {}
            with SqliteLogReader(path) as reader:  # readers do not wait, and see none of it
                assert reader.end_offsets() == {"0": 0, "1": 0, "2": 0}
            writer.communicate("go on", timeout=60)
            assert log.end_offsets() == {"0": 6_667, "1": 6_667, "2": 6_666}
