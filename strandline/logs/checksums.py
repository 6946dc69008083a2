"""Checksums of events in the embedded log, which find an event that differs from what was appended.

The checksum of an event is the CRC-32 of its key and its value. It starts with a number made from the segment, the
offset, the time of the append and the length of the key. So an event that was changed or moved does not match.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from zlib import crc32

if TYPE_CHECKING:
    import pyarrow as pa

# Odd 64-bit numbers: multiplication by one modulo 2^64 loses no bit of the other factor.
_OFFSET: Final = 0x1E3779B97F4A7C15
_TIME: Final = 0x3F58476D1CE4E5B9
_LENGTH: Final = 0x14D049BB133111EB
_64_BITS: Final = (1 << 64) - 1
_32_BITS: Final = (1 << 32) - 1


class EventChecksums:
    """The checksums of the events of one segment."""

    __slots__ = ("_begin",)

    def __init__(self, segment: str) -> None:
        self._begin = crc32(segment.encode())

    def of(self, offset: int, key: bytes | None, value: bytes | None, appended_at: int) -> int:
        """The checksum of one event."""
        key = key or b""
        mixed = (self._begin + offset * _OFFSET + appended_at * _TIME + len(key) * _LENGTH) & _64_BITS
        return crc32(value or b"", crc32(key, (mixed ^ mixed >> 32) & _32_BITS))

    def match(self, checksum: object, offset: int, key: object, value: object, appended_at: object) -> bool:
        """Whether an event in the file is what was appended."""
        if not isinstance(key, bytes | None) or not isinstance(value, bytes | None) or not isinstance(appended_at, int):
            return False  # the type of a column was damaged
        return checksum == self.of(offset, key, value, appended_at)

    def of_all(
        self, offsets: pa.Int64Array, keys: pa.BinaryArray, values: pa.BinaryArray, appended_at: pa.Int64Array
    ) -> list[int]:
        """The checksums of many events at once."""
        import pyarrow as pa
        import pyarrow.compute as pc

        def times(numbers: pa.Array, factor: int) -> pa.Array:
            return pc.multiply(numbers, pa.scalar(factor, pa.int64()))

        # A column may have bytes even at a null.
        keys, values = (pc.fill_null(each, b"") if each.null_count else each for each in (keys, values))
        lengths = pc.binary_length(keys).cast(pa.int64())
        mixed = pc.add(pc.add(times(offsets, _OFFSET), times(appended_at, _TIME)), times(lengths, _LENGTH))
        mixed = pc.add(mixed, pa.scalar(self._begin, pa.int64()))
        begins = pc.bit_wise_xor(mixed, pc.shift_right(mixed, pa.scalar(32, pa.int64())))
        # `crc32` uses the lower 32 bits of its start value, and goes on from the key to the value.
        joined = pc.binary_join_element_wise(keys, values, b"")
        return list(map(crc32, joined.to_pylist(), begins.to_pylist()))
