"""The benchmark of a window's delay divides it into steps that add up to the whole.

time      0    1 000     1 300     1 900      2 000   2 100   2 600     3 400
          the window     noted     marked     begun   planned ended     the batch after it ends
          ends
"""

from __future__ import annotations

import pytest

from benchmarks.spark_delay import STEPS, ReportedBatch, steps
from strandline.wire.streams import WireMark

pytestmark = [pytest.mark.spark, pytest.mark.full]


def mark(time: int, cut: int, created_at: int) -> WireMark:
    return WireMark(
        seq=1, key="", time=time, upper=time, cut={"0": cut}, newest=None, complete=True, excluded=(),
        created_at=created_at,
    )  # fmt: skip


def batch(begun: int, ended: int, mark: int | None, watermark: int | None, read: int | None = None) -> ReportedBatch:
    position = None if read is None else {"0": read}
    return ReportedBatch(begun, begun + 100, ended, ended + 5, mark, watermark, position)


NOTES = [(900, 950.0), (1_200, 1_300.0)]
MARKS = [mark(900, 10, 960), mark(1_200, 20, 1_900)]


def test_the_steps_of_the_source_add_up_to_the_delay() -> None:
    batches = [batch(1_000, 1_500, 900, None), batch(2_000, 2_600, 1_200, 899), batch(3_000, 3_400, 1_200, 1_199)]
    found = steps(1_000, NOTES, MARKS, batches)
    assert found == {"note": 300, "mark": 600, "trigger": 100, "planning": 100, "batch": 500, "closing": 800}
    assert sum(found.values()) == 3_400 - 1_000


def test_an_attached_query_first_reads_what_lies_below_the_mark_and_hears_of_that() -> None:
    batches = [
        batch(1_000, 1_500, None, None, read=20),
        batch(2_000, 2_600, 900, None, read=30),
        batch(3_000, 3_400, 1_200, 899, read=30),
        batch(4_000, 4_200, 1_200, 1_199, read=30),
    ]
    found = steps(1_000, NOTES, MARKS, batches)
    assert found is not None and list(found) == list(STEPS)
    assert (found["reading"], found["listener"], found["trigger"]) == (0, 0, 3_000 - 1_900)  # read before the mark
    assert sum(found.values()) == 4_200 - 1_000


def test_a_window_that_is_not_closed_has_no_steps() -> None:
    assert steps(1_000, NOTES, MARKS, [batch(2_000, 2_600, 1_200, 899)]) is None
    assert steps(1_500, NOTES, MARKS, [batch(2_000, 2_600, 1_200, 1_199)]) is None
