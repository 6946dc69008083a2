"""Tables fit the terminal that they are shown in, and are whole everywhere else."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cli.screen import CELL_LEAST, table

CELLS = st.text(st.characters(codec="ascii", categories=["L"]), max_size=60)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=5), st.integers(1, 200))
def test_a_table_fits_wherever_its_least_cells_do(rows: list[tuple[str, str, str]], columns: int) -> None:
    shown = table(("one", "two", "three"), rows, columns)
    assert all(len(line) <= max(columns, 3 * CELL_LEAST + 4) for line in shown)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=5))
def test_a_table_with_room_for_all_is_the_same_as_one_without_an_edge(rows: list[tuple[str, str]]) -> None:
    assert table(("one", "two"), rows, 200) == table(("one", "two"), rows)


def test_the_widest_cells_are_cut_first_and_say_so() -> None:
    assert table(("name", "time"), [("a" * 30, "12:00:00")], 20) == ["NAME        TIME", "aaaaaaaaa…  12:00:00"]


@pytest.mark.parametrize("columns", [60, 80])
def test_a_list_in_a_terminal_is_no_wider_than_that(
    served: Any, start: Callable[..., subprocess.Popen[str]], columns: int
) -> None:
    long = "n" * 200
    served.call("PUT", f"/v1/streams/{long}", {"segments": 1, "mark_interval_ms": 0})
    served.note(long, "w" * 200, 1_700_000_000_000, s0=5)
    controller, terminal = pty.openpty()
    running = start("writers", long, stdout=terminal, columns=columns)
    os.close(terminal)
    shown = b""
    while True:
        try:
            more = os.read(controller, 65_536)
        except OSError:  # Linux: the other side is closed
            break
        if not more:
            break
        shown += more
    os.close(controller)
    served.call("DELETE", f"/v1/streams/{long}")
    assert running.wait(30) == 0
    lines = shown.decode().splitlines()
    assert len(lines) == 2 and "…" in lines[1] and max(map(len, lines)) <= columns
