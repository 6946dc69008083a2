"""A packed page brings the same marks to another chain, and nonsense is refused with a reason."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.core.block import BLOCK_MARKS
from strandline.core.chain import MarkChain
from strandline.core.cut import Cut
from strandline.core.mark import Mark
from strandline.core.mark_page import MarkPage
from strandline.core.window import ListedMarks
from strandline.limits import TIME_BOUND_MS
from strandline.wire.packed_marks import PackedMarks, packed_body, read_packed
from tests.chain.test_chain import KEY, check_same, growing_marks, mark
from tests.chain.test_past_marks import paged


def chain_of(marks: list[Mark]) -> MarkChain:
    chain = MarkChain(KEY, marks[0].seq)
    for each in marks:
        chain.append(each)
    return chain


def sent(page: MarkPage) -> MarkPage:
    return read_packed(KEY, packed_body(PackedMarks(page, "1", 9, None))).marks


@given(st.integers(0, 2**32), st.integers(1, 1_000))
def test_pages_fill_a_chain_with_the_same_marks(seed: int, first_seq: int) -> None:
    random = Random(seed)
    marks = list(growing_marks(random, random.randrange(1, 300), first_seq))
    source, chain = chain_of(marks), MarkChain(KEY, first_seq)
    listed = ListedMarks()
    source.drop_segment("3")
    while page := source.page(chain.last_seq, random.randrange(BLOCK_MARKS, 100)):
        if random.random() < 0.2:  # marks also come one by one, and from the store
            one = source[chain.last_seq + 1]
            chain.append(one)
            listed.append(one)
            continue
        chain.extend(sent(page))
        listed.extend(page)
        assert set(page.segments) == set(source[page.last_seq].cut.offsets)
    check_same(chain, list(source), random)
    assert list(listed) == list(source)
    assert (list(page), list(page.segments)) == ([], [])


@given(st.integers(0, 2**32))
def test_pages_of_the_store_fill_a_chain_too(seed: int) -> None:
    random = Random(seed)
    marks = list(growing_marks(random, 200))
    chain = MarkChain(KEY)
    while (have := len(chain)) < len(marks):
        end = min(len(marks), have + random.choice((1, 5, 32, 64, 100)))
        chain.extend(sent(paged(marks[have:end])))
    check_same(chain, marks, random)


@pytest.mark.parametrize(
    ("first", "key", "says"),
    [(2, KEY, "mark 34 .* is not 33"), (1, "other", "key 'other'"), (1, KEY, "mark 33 does not follow on")],
)
def test_a_page_that_does_not_follow_is_refused(first: int, key: str, says: str) -> None:
    far = mark(BLOCK_MARKS, 1_000, Cut({"0": 1_000}))
    chain = MarkChain(KEY, BLOCK_MARKS)
    chain.append(far)
    later = [mark(BLOCK_MARKS + n, n, Cut({"0": n})) for n in range(first, first + BLOCK_MARKS)]
    page = paged(later)
    with pytest.raises(ValueError, match=says):
        chain.extend(MarkPage(key, page.first_seq, page.names, page.blocks))
    assert list(chain) == [far]


@given(st.integers(0, 2**32), st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 255)), min_size=1))
def test_bytes_that_were_changed_are_refused_or_are_marks(seed: int, changes: list[tuple[int, int]]) -> None:
    body = bytearray(packed_body(PackedMarks(paged(list(growing_marks(Random(seed), 70))), "1", 70, None)))
    for at, value in changes:
        body[at % len(body)] = value
    try:
        page = read_packed(KEY, bytes(body)).marks
        chain = MarkChain(KEY, page.first_seq)
        chain.extend(page)
    except ValueError:
        return
    assert list(chain) == list(page)


# [version, identity, newest, resting, first_seq, names, [[count, first, moving, cell, deltas, least, above, excluded]]]
BLOCK = (
    2,
    bytes(8),
    None,
    1,
    b"\0\5",
    (1, 1, 1, 0, 0),
    b"".join(n.to_bytes(8, "little") for n in [0, 1] * 2 + [0] * 6),
)
NOBODY = ((0, ()),)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({}, None),
        ({"version": 2}, "version is not 1"),
        ({"names": ["a", "b"]}, "block 0: 2 marks of 2 segments"),
        ({"names": ["a", "a"], "blocks": []}, "its names are"),
        ({"first_seq": 0}, "its first seq is 0"),
        ({"first_seq": 3}, "it has 2 marks"),
        ({"newest": "x"}, "not a page of packed marks"),
        ({0: 0}, "it has 0 marks"),
        ({0: 33}, "it has 33 marks"),
        ({1: b""}, "do not have"),
        ({1: bytes(7) + b"\x80"}, "a cut of it goes back"),
        ({2: b"\0"}, "do not have"),
        ({2: b"\1\0\0\0"}, "lanes .* are not different ones of 1"),
        ({3: 3}, "cells of 3 bytes"),
        ({4: b"\0"}, "do not have"),
        ({4: b"\1\0"}, "a cut of it goes back"),
        ({5: (1, 1)}, "2 fields, not 5"),
        ({5: (TIME_BOUND_MS, TIME_BOUND_MS, 1, 0, 0)}, "within 2"),
        ({5: (2, 1, 1, 0, 0)}, "do not rise"),
        ({6: bytes(80)}, "do not rise"),
        ({6: b"\xff" * 80}, "below their least"),
        ({7: ()}, "who is left out"),
    ],
)
def test_a_page_that_makes_no_sense_says_why(changed: dict[Any, Any], says: str | None) -> None:
    page: dict[str, Any] = {
        "version": 1,
        "identity": "1",
        "newest": 2,
        "resting": None,
        "first_seq": 1,
        "names": ["a"],
        "blocks": None,
    }
    block: list[Any] = [*BLOCK, NOBODY]
    for name, value in changed.items():
        if isinstance(name, int):
            block[name] = value
        else:
            page[name] = value
    if page["blocks"] is None:
        page["blocks"] = [block]
    body = msgspec.msgpack.encode(list(page.values()))
    if says is None:
        assert [(each.time, each.cut) for each in read_packed(KEY, body).marks] == [(1, Cut({})), (2, Cut({"a": 5}))]
    else:
        with pytest.raises(ValueError, match=says):
            read_packed(KEY, body)
