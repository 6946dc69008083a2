"""Rows that cannot be read. Each is an error that names it, and the stream or reader group to which it belongs.

The bytes of a row are the database's to keep. What is looked at here is whether a row has the values that its table
allows, and whether a stream or a group can be made of its rows: what cannot refuses its own calls, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final, TypeVar

import msgspec
from sqlalchemy import Column, Table, Text
from sqlalchemy.exc import SQLAlchemyError

from controller.storage import schema
from controller.storage.diagnosis import StoreTrouble
from controller.storage.rows import Values
from strandline.errors import StoreCorrupt

Value = TypeVar("Value")

MISSING: Final = "it is missing"

_UTF_8: Final = Annotated[str, msgspec.Meta(pattern=r"\A[^\ud800-\udfff]*\Z")]  # what is JSON is looked at when decoded


def _type_of(column: Column[Any]) -> Any:
    kind: Any = column.type.python_type
    kind = _UTF_8 if kind is str and not isinstance(column.type, Text) else kind
    return kind | None if column.nullable else kind


# By table, what its rows may be.
_RECORDS: Final = {
    table: msgspec.defstruct(
        f"{table.name}_row", [(str(each.name), _type_of(each)) for each in table.columns], array_like=True
    )
    for table in schema.metadata.sorted_tables
}


def decoded(table: Table, row: Sequence[Any], decode: Callable[[Any], Value]) -> Value:
    """Decodes a row, which begins with all columns of the table; raises StoreCorrupt if it cannot be read."""
    try:
        return decode(msgspec.convert(tuple(row), _RECORDS[table]))
    except Exception as error:  # whatever the values bring about
        values = dict(zip(table.columns.keys(), row, strict=False))
        raise corrupt(table, values, f"it cannot be read: {error}") from error


@contextmanager
def made_of_rows(*, stream: str | None = None, group: str | None = None) -> Iterator[None]:
    """Turns whatever the rows of a stream or group bring about into StoreCorrupt, but for failures of the store."""
    try:
        yield
    except (StoreCorrupt, StoreTrouble, SQLAlchemyError):
        raise
    except Exception as error:
        reason = f"its rows do not go together: {type(error).__name__}: {error}"
        raise StoreCorrupt(stream=stream, group=group, reason=reason) from error


def corrupt(table: Table, values: Values, reason: str) -> StoreCorrupt:
    """The error for a row, which it names by its key."""
    values = {name: printable(value) if isinstance(value, str) else value for name, value in values.items()}
    keys = [column.name for column in table.primary_key]
    stream = values.get("name" if table is schema.stream else "stream")
    group = values.get("name" if table is schema.reader_group else "group")
    return StoreCorrupt(
        stream=stream if group is None else None,
        group=group,
        table=table.name,
        row=", ".join(f"{name} {values[name]!r}" for name in keys),
        reason=printable(reason),
    )


def check_name_of(table: Table, name: object) -> None:
    """Raises StoreCorrupt for an invalid name of a stream or group, which no list could show."""
    if not isinstance(name, str) or not name.isascii():
        raise corrupt(table, {"name": name}, "its name is not a valid name")


def printable(text: str) -> str:
    """The text, with escapes in place of what is not UTF-8, so that an answer can have it."""
    return text.encode(errors="backslashreplace").decode()
