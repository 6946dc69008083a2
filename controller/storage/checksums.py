"""Checksums of rows. A row that is not what was written is found, and never served.

The checksum of a row is the CRC-32 of its table's name, followed by a JSON array of its values in the order of the
columns, without the checksum. The primary key is among them, so a row that was moved does not match.

Columns after the checksum were added later, without computing it again: the array ends with the last of their values
that is not null. So a row has the same checksum for a version that does not know the last columns, as long as they are
null. The shard is never in it: it follows from the name, and `strandline check` compares them.
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
    """Computes and checks the checksums of one table."""

    __slots__ = ("_later", "_place", "_start", "_values", "table")

    def __init__(self, table: Table) -> None:
        names = table.columns.keys()
        self.table = table
        self._place = names.index("checksum")
        self._values = itemgetter(*names[: self._place])
        self._later = [name for name in names[self._place + 1 :] if name != schema.SHARD]
        self._start = crc32(table.name.encode())

    def of(self, values: Values) -> int:
        """The checksum of a row with these values."""
        covered: tuple[Any, ...] = self._values(values)
        if self._later:
            covered = _with_later(covered, [values[name] for name in self._later])
        return crc32(_encode(covered), self._start)

    def matches(self, row: Row[Any]) -> bool:
        """Whether a row is what was written. It must have all columns of the table."""
        values: tuple[Any, ...] = tuple(row)
        covered = values[: self._place]
        if self._later:
            covered = _with_later(covered, [row._mapping[name] for name in self._later])
        return bool(values[self._place] == self.of_covered(covered))

    def of_covered(self, covered: tuple[Any, ...]) -> int | None:
        """The checksum of the values that it covers; None if one is a text that is not UTF-8."""
        try:
            return crc32(_encode(covered), self._start)
        except UnicodeEncodeError:
            return None

    def check(self, row: Row[Any]) -> None:
        """Raises StoreCorrupt for a row that is not what was written."""
        if not self.matches(row):
            raise self.corrupt(row, MISMATCH)

    def decoded(self, row: Row[Any], decode: Callable[[Row[Any]], Value]) -> Value:
        """Checks and decodes a row; raises StoreCorrupt if it is not what was written, or cannot be decoded."""
        if self._later:
            self.check(row)
        else:  # `check`, inlined: it runs for every mark and writer
            values: tuple[Any, ...] = tuple(row)
            try:
                if values[-1] != crc32(_encode(values[:-1]), self._start):
                    raise self.corrupt(row, MISMATCH)
            except UnicodeEncodeError:
                raise self.corrupt(row, MISMATCH) from None
        try:
            return decode(row)
        except (ValueError, TypeError, msgspec.MsgspecError, StrandlineError) as error:
            raise self.corrupt(row, f"it cannot be read: {error}") from error

    def corrupt(self, row: Row[Any], reason: str) -> StoreCorrupt:
        """The error for a damaged row."""
        return corrupt(self.table, dict(row._mapping), reason)


def _with_later(covered: tuple[Any, ...], later: list[Any]) -> tuple[Any, ...]:
    """The values that a checksum covers. `later` is used up."""
    while later and later[-1] is None:
        later.pop()
    return (*covered, *later)


def corrupt(table: Table, values: Values, reason: str) -> StoreCorrupt:
    """The error for a damaged row, which it names by its key."""
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
    """Raises StoreCorrupt for an invalid name of a stream or group, which no list could show."""
    if not isinstance(name, str) or not name.isascii():
        raise corrupt(table, {"name": name}, "its name is not a valid name")


def printable(text: str) -> str:
    """The text, with escapes in place of what is not UTF-8, so that an answer can have it."""
    return text.encode(errors="backslashreplace").decode()


# By table.
CHECKSUMS: Final = {table: Checksums(table) for table in schema.metadata.sorted_tables if "checksum" in table.columns}


def with_checksum(table: Table, values: Values) -> Values:
    """Adds the checksum to the values if the table has one, and returns them."""
    checksums = CHECKSUMS.get(table)
    if checksums is not None:
        values["checksum"] = checksums.of(values)
    return values
