"""Marks that are made up: as a matrix of cuts, in a chain, in a controller's store; and positions among them.

The plain searches for the marks around a position are what the chain is compared with.
"""

from __future__ import annotations

import json
import sqlite3
import time
import tracemalloc
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from controller.storage import schema
from strandline.core.chain import MarkChain
from strandline.core.cut import Cut
from strandline.core.mark import Mark

STREAM: Final = "million"
MOST_ADDED: Final = 20  # to a segment, from a mark to the next
POSITIONS: Final = 1_000
STEPS: Final = 10
PIECE: Final = 10_000  # marks written at a time

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Asked:
    """Positions among the marks: as rows of a matrix, and as a reader has them."""

    rows: Rows
    positions: list[dict[str, int]]

    @property
    def cuts(self) -> list[Cut]:
        return [Cut(each) for each in self.positions]


def cuts(count: int, segments: int) -> Rows:
    """The cuts of so many marks: none goes back, and each is further than the one before."""
    added = np.random.default_rng(1).integers(0, MOST_ADDED, (count, segments))
    added[:, 0] += 1
    return added.cumsum(axis=0, dtype=np.int64)


def asked(rows: Rows, first: int) -> Asked:
    """Positions among the marks from `first` on: every segment somewhat further than a mark, each by its own."""
    draw = np.random.default_rng(2)
    at = draw.integers(first, len(rows), POSITIONS)
    return _asked(rows[at] + draw.integers(0, 3 * MOST_ADDED, (POSITIONS, rows.shape[1])))


def moving_on(rows: Rows, first: int) -> Asked:
    """Positions of a reader that moves on from mark `first`, in some steps from each mark to the next."""
    at, step = np.divmod(np.arange(min(POSITIONS, STEPS * (len(rows) - first - 1))), STEPS)
    before, after = rows[first + at], rows[first + at + 1]
    return _asked(before + (after - before) * step[:, np.newaxis] // STEPS)


def _asked(rows: Rows) -> Asked:
    return Asked(rows, [{str(n): offset for n, offset in enumerate(row)} for row in rows.tolist()])


def chain_of(rows: Rows) -> MarkChain:
    chain = MarkChain()
    for start in range(0, len(rows), PIECE):
        for seq, row in enumerate(rows[start : start + PIECE].tolist(), start=start + 1):
            cut = Cut({str(n): offset for n, offset in enumerate(row) if offset})
            mark = Mark(seq=seq, key="", time=seq, upper=seq, cut=cut, newest=None, excluded=(), created_at=0)
            chain.append(mark)
    return chain


def traced_chain(rows: Rows) -> tuple[MarkChain, float]:
    """The chain, and the mebibytes that Python allocated for it."""
    tracemalloc.start()
    chain = chain_of(rows)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return chain, taken / (1 << 20)


def store(path: Path, rows: Rows) -> None:
    """Puts the marks into the store of a controller that is not running, and has the stream."""
    names = [str(n) for n in range(rows.shape[1])]

    def values() -> Iterator[tuple[Any, ...]]:
        for start in range(0, len(rows), PIECE):
            for seq, row in enumerate(rows[start : start + PIECE].tolist(), start=start + 1):
                cut = {name: offset for name, offset in zip(names, row, strict=True) if offset}
                written = json.dumps(cut, separators=(",", ":"))
                yield STREAM, "", seq, seq, seq, written, None, None, 0

    with sqlite3.connect(path) as connection:
        places = ", ".join("?" * len(schema.mark.columns))
        connection.executemany(f"INSERT INTO mark VALUES ({places})", values())
    connection.close()


def read_plainly(path: Path) -> float:
    """How long the same rows take to be read by SQLite and `json` alone, in seconds."""
    begun = time.perf_counter()
    with sqlite3.connect(path) as connection:
        for row in connection.execute("SELECT seq, time, upper, created_at, cut FROM mark ORDER BY seq"):
            json.loads(row[4])
    connection.close()
    return time.perf_counter() - begun


def by_columns(columns: Sequence[Rows], position: Rows) -> tuple[int, int]:
    """The bounds as numpy finds them in the matrix: a search for each segment, from either side."""
    passed = min(int(np.searchsorted(each, offset, "right")) for each, offset in zip(columns, position, strict=True))
    ahead = max(int(np.searchsorted(each, offset, "left")) for each, offset in zip(columns, position, strict=True))
    return passed, ahead


def by_rows(rows: Rows, position: Rows) -> tuple[int, int]:
    """The same by bisection over whole cuts."""
    passed = bisect_left(range(len(rows)), True, key=lambda n: bool((rows[n] > position).any()))
    ahead = bisect_left(range(len(rows)), True, key=lambda n: bool((rows[n] >= position).all()))
    return passed, ahead
