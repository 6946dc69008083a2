"""Pages of marks in MessagePack, packed as memory has them: a hundredth of the work of JSON, for both sides.

    [version, identity, newest, resting, first_seq, names, blocks]
    block: [count, first, moving, cell, deltas, least, above, excluded]

`identity` is that of the stream, `newest` the seq of the newest mark, `names` are the segments by lane. `first` is a
cut: 8 bytes a lane. `deltas` has
for each mark what it adds, in cells of `cell` bytes, one for each lane that is in `moving` (4 bytes each; null: all).
`above` has 5 fields, each with a number of 8 bytes for every mark, less its `least`: time, upper, newest,
whether that is known, and created_at. `excluded` says from which mark on which writers are left out. All numbers are
little-endian. A block begins with a seq of 1 more than a multiple of 32; marks before `first_seq` in it do not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from strandline.core.block import FIELDS, PackedBlock, check_block
from strandline.core.mark_page import MarkPage, block_start

MEDIA_TYPE: Final = "application/vnd.strandline.marks"
VERSION: Final = 1


class _Block(msgspec.Struct, frozen=True, array_like=True):
    count: int
    first: bytes
    moving: bytes | None
    cell: int
    deltas: bytes
    least: tuple[int, ...]
    above: bytes
    excluded: tuple[tuple[int, tuple[str, ...]], ...]


class _Page(msgspec.Struct, frozen=True, array_like=True):
    version: int
    identity: str
    newest: int
    resting: int | None
    first_seq: int
    names: tuple[str, ...]
    blocks: tuple[_Block, ...]


@dataclass(frozen=True, slots=True)
class PackedMarks:
    """A page of marks; the seq of the newest mark of the key; `identity` and `resting` as in `MarksPage`."""

    marks: MarkPage
    identity: str
    newest: int
    resting: int | None


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Page).decode


def packed_body(packed: PackedMarks) -> bytes:
    page = packed.marks
    lanes = len(page.names)
    blocks = tuple([_Block(*block.parts(lanes)) for block in page.blocks])
    known = packed.identity, packed.newest, packed.resting
    return _encode(_Page(VERSION, *known, page.first_seq, tuple(page.names), blocks))


def read_packed(key: str, body: bytes) -> PackedMarks:
    """A page of the marks of a key. Raises ValueError, which says what is wrong."""
    try:
        if body[1:2] != bytes([VERSION]):
            raise ValueError(f"its version is not {VERSION}, and it begins with {body[:8]!r}")
        page = _decode(body)
    except msgspec.MsgspecError as error:
        raise ValueError(f"it is not a page of packed marks: {error}") from None
    if page.first_seq < 1 or len(set(page.names)) != len(page.names):
        raise ValueError(f"its first seq is {page.first_seq}, its names are {page.names[:10]}")
    start = block_start(page.first_seq)
    blocks = []
    for number, each in enumerate(page.blocks):
        if len(each.least) != FIELDS:
            raise ValueError(f"block {number} has {len(each.least)} fields, not {FIELDS}")
        try:
            block = PackedBlock.of_parts(len(page.names), *msgspec.structs.astuple(each))
            check_block(block, page.first_seq - start if not number else 0, last=number == len(page.blocks) - 1)
        except ValueError as error:
            raise ValueError(f"block {number}: {error}") from None
        blocks.append(block)
    return PackedMarks(MarkPage(key, page.first_seq, page.names, blocks), page.identity, page.newest, page.resting)
