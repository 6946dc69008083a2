"""A log that ends before the marks of its stream do: it lost events, or it is another stream's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

CHECKED_MS: Final = 10_000  # a log that has nothing more for so long is compared with the marks


def short_log(stream: str, ends: Mapping[str, int], cuts: Iterable[Mapping[str, int]]) -> str | None:
    """Returns the line about a log with these ends, if one of the marks' cuts is further ahead."""
    for cut in cuts:
        for segment, offset in sorted(cut.items()):
            end = ends.get(segment, 0)
            if end < offset:
                return (
                    f"the log of stream {stream!r} ends at {end} in segment {segment!r}, and the marks are at "
                    f"{offset}: is it the stream's log? Time waits for what is missing"
                )
    return None
