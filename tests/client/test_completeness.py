"""Whatever marks a reader passes, in whatever order and pages, it goes by all of them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from strandline.client.completeness import CompletenessReader
from strandline.client.loop import drive, local
from strandline.core.incomplete import Completeness, OnIncomplete

LEFT_OUT = st.sets(st.sampled_from("abc"), max_size=2).map(lambda each: tuple(sorted(each)))


class Seen(NamedTuple):
    seq: int
    time: int
    excluded: tuple[str, ...]


class Away(Exception):
    """The controller does not answer."""


@given(st.lists(LEFT_OUT, min_size=1, max_size=14), st.data())
def test_what_is_passed_follows_from_all_marks_up_to_it(left_out: list[tuple[str, ...]], data: st.DataObject) -> None:
    marks = [Seen(seq, 10 * seq, excluded) for seq, excluded in enumerate(left_out, 1)]
    kept = data.draw(st.integers(0, len(marks) - 1))  # so many were removed by retention
    sizes, fails = st.integers(1, 5), st.integers(0, 9)
    passed = CompletenessReader("s", OnIncomplete.WAIT, page_marks=data.draw(sizes))

    def read(after: int, limit: int) -> Any:
        def page() -> list[Seen]:
            if data.draw(fails) == 0:
                raise Away
            return [each for each in marks[kept:] if each.seq > after][: min(limit, data.draw(sizes))]

        return (yield from local(page))

    for seq in data.draw(st.lists(st.integers(kept + 1, len(marks)), max_size=6)):
        found = None
        while found is None:
            with suppress(Away):
                found = drive(passed.upto(seq, read), lambda step: step.work())
        wanted = Completeness("s", OnIncomplete.WAIT)
        for each in marks[kept:seq]:
            wanted.pass_mark(each.time, each.excluded)
        assert (found.there, found.watermark, found.last) == (wanted.there, wanted.watermark, wanted.last)
