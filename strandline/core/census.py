"""The writers of a time key by their state, so that nobody has to count them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strandline.core.writer import KeyState, StreamWriter, WriterState

TIMED_OUT: Final = WriterState.TIMED_OUT  # a lookup in the enum class takes longer than the rest of `put`


class Census:
    """Names by state, those of a state in the order in which they were last heard or, if they timed out, lost."""

    __slots__ = ("_key", "_names", "_newest", "_unsorted", "_writers")

    def __init__(self, key: str, writers: Mapping[str, StreamWriter]) -> None:
        """`writers` are the stream's own."""
        self._key = key
        self._writers = writers
        self._names: dict[WriterState, dict[str, None]] = {}
        self._newest: dict[WriterState, tuple[int, str]] = {}  # the greatest moment of a state, now or before
        self._unsorted: set[WriterState] = set()

    def put(self, writer: StreamWriter, key_state: KeyState, before: WriterState | None, after: WriterState) -> None:
        """Takes what a writer that may have called has become; None: it is new."""
        name, names = writer.name, self._names.get(after)
        if names is None:
            names, self._newest[after] = self._names.setdefault(after, {}), (0, "")
        # Of those lost at one moment the last by name counts; of those heard at one moment, any.
        lost_at = key_state.lost_at if after is TIMED_OUT else None
        moment = (writer.heard_at, "") if lost_at is None else (lost_at, name)
        if before is not None:
            self._names[before].pop(name, None)
        names[name] = None
        if moment >= self._newest[after]:
            self._newest[after] = moment
        else:
            self._unsorted.add(after)

    def leave(self, name: str, state: WriterState | None) -> None:
        """A writer is forgotten, which was in that state."""
        if state is not None:
            self._names[state].pop(name, None)

    def count(self, *states: WriterState) -> int:
        """How many writers are in one of these states."""
        return sum([len(self._names.get(each, ())) for each in states])

    def counts(self) -> dict[str, int]:
        """How many writers are in each state, in the order of their names."""
        return {state.value: len(names) for state, names in sorted(self._names.items()) if names}

    def last(self, *states: WriterState) -> StreamWriter | None:
        """Of the writers in these states, the one that was heard last; of those that timed out, the one lost last."""
        found: StreamWriter | None = None
        for state in states:
            names = self._names.get(state)
            if not names:
                continue
            if state in self._unsorted:
                self._sort(state)
                names = self._names[state]
            writer = self._writers[next(reversed(names))]
            if found is None or writer.heard_at > found.heard_at:
                found = writer
        return found

    def _sort(self, state: WriterState) -> None:
        def moment(name: str) -> tuple[int, str]:
            writer = self._writers[name]
            lost_at = writer.key_states[self._key].lost_at
            return (lost_at if state is TIMED_OUT and lost_at is not None else writer.heard_at), name

        self._names[state] = dict.fromkeys(sorted(self._names[state], key=moment))
        self._unsorted.discard(state)


def greatest(one: int | None, other: int | None) -> int | None:
    """The greater of two times; None for none."""
    return other if one is None or (other is not None and other > one) else one
