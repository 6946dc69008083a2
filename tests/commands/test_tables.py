"""Tables fit the terminal that they are shown in, and are whole everywhere else."""

from __future__ import annotations

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
