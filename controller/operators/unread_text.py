"""Why a stream or a reader group has no status, for the dashboard and the command line."""

from __future__ import annotations

from typing import Final

from strandline.errors import (
    StoreCorrupt,
    StoreUnavailable,
    StreamLoading,
    StreamRecreated,
    UnknownStream,
)

_WHY: Final = {
    StoreUnavailable.code: "not known: the store is away",
    StreamLoading.code: "is being read from the store",
    StoreCorrupt.code: "cannot be read: `strandline check` shows where",
    UnknownStream.code: "cannot be read: one of its streams was deleted",
    StreamRecreated.code: "cannot be read: one of its streams was deleted and created again",
}


def why_unread(code: str) -> str:
    """The reason in words, from the code of a problem, or the code itself if there are none for it."""
    return _WHY.get(code, f"not known: {code}")
