"""The page says what was recorded, and a record keeps the newest report of each part."""

from __future__ import annotations

from pathlib import Path

from benchmarks.figures import Figure, Report
from benchmarks.record import PAGE, Record, with_table

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_the_page_is_that_of_the_record() -> None:
    text = (ROOT / PAGE).read_text()
    assert "<!-- table: " in text
    assert with_table(text, Record.read()) == text


def _report(*names: str) -> Report:
    return Report([Figure.of(name, 1.0, "b", 2.0, "ms") for name in names])


def test_the_newest_report_of_a_part_is_kept_in_the_order_of_parts() -> None:
    record = Record({"b": ("1", _report("old")), "c": ("1", _report("whole"))})
    record = record.with_part("b", _report("newer"), "2", "abc").with_part("a", _report("new"), "3", "abc")
    assert [each.what for each in record.figures] == ["new", "newer", "whole"]
    assert [day for day, _ in record.parts.values()] == ["3", "2", "1"]
