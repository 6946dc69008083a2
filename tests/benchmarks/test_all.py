"""`make bench` measures all that it promises, and says what it could not."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks.figures import Figure, Report, markdown, number, percentile

pytestmark = pytest.mark.full

ROOT = Path(__file__).resolve().parents[2]
RESULTS = (ROOT / "docs" / "benchmarks.md").read_text().partition("## Results")[2].partition("\n## ")[0]
# What needs wrk is told as missing without it.
BY_WRK = ("durable notes", "in a request, ", "beside it", "over HTTP")


def _row_names(lines: str) -> list[str]:
    return [line.split(" | ")[0].removeprefix("| ") for line in lines.splitlines() if line.startswith("| ")][1:]


def _sized_alike(name: str) -> str:
    """A figure's name without the numbers that are smaller in a quick run."""
    return re.sub(r"\d[\d,]* (at a time|marks|pages|streams|writers)", r"n \1", name)


def test_a_quick_run_shows_all_of_the_page() -> None:
    """But for those of Spark, and of PostgreSQL, which are not measured quickly."""
    command = [sys.executable, "-m", "benchmarks", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    closing = done.stdout.rpartition("== all")[2]
    measured = [_sized_alike(name) for name in _row_names(closing)]
    promised = [_sized_alike(name) for name in _row_names(RESULTS) if "Spark" not in name and "PostgreSQL" not in name]
    if shutil.which("wrk") is None:
        assert "Not measured: what takes wrk" in closing
        promised = [name for name in promised if not any(each in name for each in BY_WRK)]
    assert measured == promised
    assert "the slowest took" in closing


def test_that_of_order_shows_all_of_its_rows() -> None:
    command = [sys.executable, "-m", "benchmarks.order", "--events", "60"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    names = [line[:18].strip() for line in done.stdout.splitlines()]
    assert names == ["", "as received", "by the marks", "most in memory", "in turn"]


def _part(name: str, bound_s: int) -> program.Part:
    return program.Part(name, bound_s, quick="")


def test_a_failed_part_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    found = program.run(_part("disorder", 60), "--no-such-option", tmp_path)
    assert (found.failed, found.missing) == (True, ["disorder: it ended with 2"])


def test_a_part_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    begun = time.monotonic()
    found = program.run(_part("disorder", 1), "--rounds 100000", tmp_path)
    assert (found.failed, found.missing) == (True, ["disorder: it took longer than 1 s"])
    assert time.monotonic() - begun < program.END_DEADLINE_S


def test_a_part_that_there_is_not_is_refused_by_name() -> None:
    command = [sys.executable, "-m", "benchmarks", "--only", "notes,speed"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "there is no part speed; there are core, noting, calls," in done.stderr


def test_a_report_comes_back_as_it_was_written(tmp_path: Path) -> None:
    report = Report([Figure.of("a", 3.0, "b", 4.0, "ms", "≤ 1"), Figure.lost("c", 0, 9, {1: 2})], ["d: it is away"])
    report.write(tmp_path / "report.json")
    assert Report.read(tmp_path / "report.json") == report
    assert list(markdown(report.figures))[2:] == [
        "| a | 3.00 ms | b: 4.00 | 0.75 | ≤ 1 |",
        "| c | 0 of 9 | −1 s: 2 |  |  |",
    ]


@pytest.mark.parametrize(
    ("value", "shown"), [(12_345.6, "12,346"), (99.94, "99.9"), (1.0, "1.00"), (0.128, "0.13"), (0.00052, "0.00052")]
)
def test_numbers_have_three_digits_or_fewer_behind_the_point(value: float, shown: str) -> None:
    assert number(value) == shown


def test_so_many_of_a_hundred_do_not_exceed_a_percentile() -> None:
    values = [float(value) for value in range(200, 0, -1)]
    assert (percentile(values, 50), percentile(values, 99), percentile([7.0], 99)) == (100.0, 198.0, 7.0)
