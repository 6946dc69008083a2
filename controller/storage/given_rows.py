"""Rows that a query is given as a JSON document: one statement for any number of them, which is built once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from sqlalchemy import BigInteger, FromClause, Select, String

from controller.storage.kinds import KINDS
from controller.storage.rows import Columns, Values, to_json

ROWS: Final = "rows"
TEXT: Final = String()
NUMBER: Final = BigInteger()


def with_given_rows(columns: Columns, query: Callable[[FromClause], Select[Any]]) -> dict[str, Select[Any]]:
    """The query of rows with these columns, by the name of the database. The parameters of a call are `given_rows`."""
    return {name: query(kind.given(ROWS, columns).cte("given")) for name, kind in KINDS.items()}


def given_rows(rows: Iterable[Values]) -> dict[str, str]:
    return {ROWS: to_json(list(rows))}
