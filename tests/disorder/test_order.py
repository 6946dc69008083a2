"""Reading segments of very different sizes in the order of the marks, and without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.disorder import disorder, generate
from benchmarks.order import marks_of, most_in_memory, read, skewed_segments
from reader_client.progress import no_order
from strandline.core.time_index import bound_at

ROOT = Path(__file__).resolve().parents[2]


def test_reading_in_mark_order_reduces_disorder_to_the_marks() -> None:
    events = generate(3, events=200)
    segments = skewed_segments(events)
    marks = marks_of(events, segments, 1_000)
    by_marks = read(events, segments, lambda name, offset: bound_at(marks, name.partition("/")[2], offset))
    in_turn, most = read(events, segments, no_order), most_in_memory(events, segments)
    for each in (by_marks, in_turn, most):
        assert sorted(each, key=repr) == sorted(events, key=repr)
    mean = [sum(disorder(each)) / len(events) for each in (by_marks, in_turn, most)]
    assert mean[0] < 1_000 < 10_000 < mean[1] < mean[2]


def test_the_table_shows_all_of_them() -> None:
    command = [sys.executable, "-m", "benchmarks.order", "--events", "60"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    names = [line[:18].strip() for line in done.stdout.splitlines()]
    assert names == ["", "as received", "by the marks", "most in memory", "in turn"]
