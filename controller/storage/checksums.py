"""Checksums of rows. What a store gives back that is not what was written is found, and is never told as the truth.

The checksum of a row is the CRC-32 of the name of its table, and then of a JSON array with the values of all its
columns but its own, in the order of the table. The primary key is among them: a row that was moved does not match.
Whoever adds a column to one of these tables works out their checksums again in the same migration.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final, TypeAlias, TypeVar
from zlib import crc32

import msgspec
from sqlalchemy import Row, Table

from controller.storage import schema
from strandline.errors import StoreCorrupt, StrandlineError

Value = TypeVar("Value")
Values: TypeAlias = dict[str, Any]

MISMATCH: Final = "its checksum does not match"
MISSING: Final = "it is missing"

_encode: Final = msgspec.json.Encoder().encode


class Checksums:
    """Those of the rows of one table."""

    __slots__ = ("_start", "_values", "table")

    def __init__(self, table: Table) -> None:
        """`table` has its checksum as its last column."""
        *columns, last = table.columns.keys()
        assert last == "checksum"
        self.table = table
        self._values = itemgetter(*columns)
        self._start = crc32(table.name.encode())

    def of(self, values: Values) -> int:
        """The checksum of a row with these values."""
        return crc32(_encode(self._values(values)), self._start)

    def matches(self, row: Row[Any]) -> bool:
        """Whether a row, with all columns of the table, is what was written."""
        values: tuple[Any, ...] = tuple(row)
        try:
            return bool(values[-1] == crc32(_encode(values[:-1]), self._start))
        except UnicodeEncodeError:  # a text that is no UTF-8
            return False

    def check(self, row: Row[Any]) -> None:
        """Raises StoreCorrupt for a row that is not what was written."""
        if not self.matches(row):
            raise self.corrupt(row, MISMATCH)

    def decoded(self, row: Row[Any], decode: Callable[[Row[Any]], Value]) -> Value:
        """What a row stands for; raises StoreCorrupt for one that is not what was written, or stands for nothing."""
        values: tuple[Any, ...] = tuple(row)
        try:
            if values[-1] != crc32(_encode(values[:-1]), self._start):  # `matches`, without a call: every row comes by
                raise self.corrupt(row, MISMATCH)
        except UnicodeEncodeError:
            raise self.corrupt(row, MISMATCH) from None
        try:
            return decode(row)
        except (ValueError, TypeError, msgspec.MsgspecError, StrandlineError) as error:
            raise self.corrupt(row, f"it cannot be read: {error}") from error

    def corrupt(self, row: Row[Any], reason: str) -> StoreCorrupt:
        """The error that names a row."""
        return corrupt(self.table, dict(row._mapping), reason)


def corrupt(table: Table, values: Values, reason: str) -> StoreCorrupt:
    """The error that names a row by the values of its key."""
    values = {name: printable(value) if isinstance(value, str) else value for name, value in values.items()}
    keys = [column.name for column in table.primary_key]
    stream = values.get("name" if table is schema.stream else "stream")
    group = values.get("name" if table is schema.reader_group else "group")
    return StoreCorrupt(
        stream=stream if group is None else None,
        group=group,
        table=table.name,
        row=", ".join(f"{name} {values[name]!r}" for name in keys),
        reason=reason,
    )


def check_name_of(table: Table, name: object) -> None:
    """Raises StoreCorrupt for a stream's or a group's name that none can have: no list could show it."""
    if not isinstance(name, str) or not name.isascii():
        raise corrupt(table, {"name": name}, "its name is no name")


def printable(text: str) -> str:
    """A text that an answer can have: what is no UTF-8 of it stands in escapes."""
    return text.encode(errors="backslashreplace").decode()


# By table.
CHECKSUMS: Final = {table: Checksums(table) for table in schema.metadata.sorted_tables if "checksum" in table.columns}


def with_checksum(table: Table, values: Values) -> Values:
    """The same values, with their checksum where the table has one."""
    checksums = CHECKSUMS.get(table)
    if checksums is not None:
        values["checksum"] = checksums.of(values)
    return values
