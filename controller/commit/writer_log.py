"""The log of changes to the writers of a stream, and when a writer's own row is written.

    log     │ 7: a b │ 8: b c │ 9: A │ 10: d │ ◄── one row a commit
    rows    a (through 4)   b (through 6)   c (through 2)

When the log has several states for each of its writers, its oldest rows are removed. A row has only what was added to
the histories of its writers. So before the first row goes that a writer's state needs, that state is kept elsewhere:

- A writer whose first row is in the oldest quarter of the log is logged whole when it changes: A needs nothing from
  before 9.
- A writer that does not change for so long is written as a row of its own: here, to remove 7, b is, through 10.

So a writer that goes on noting costs nothing but the log, and one that becomes quiet costs one row. A log is never much
longer than the states of its writers, and nothing has to be cleaned up when a stream goes quiet or a controller ends.

The row of a forgotten writer is deleted, and a row of the log has that it is forgotten: loading the stream would find
older changes otherwise, and other caches of the stream would keep the writer.

Each commit of the stream adds a row, even one that changed no writer: the seq of its last row is the stream's version.

One row for all streams of a commit would save pages, but loading one stream would then read the rows of all others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from controller.storage import schema
from controller.storage.save import Commit
from controller.storage.writer_states import (
    StoredChange,
    StoredLog,
    change_values,
    document_of,
    forgotten_document,
    state_values,
)
from strandline.core.writer import StreamWriter

LOG_STATES_PER_WRITER: Final = 8  # besides its own row; beyond it the oldest rows of the log are removed
LOG_LEAST_WRITERS: Final = 4  # a log may always be as long as for so many writers
LOG_ROW_STATES: Final = 256  # a commit that changed more writers takes several rows


class WriterLog:
    """One stream's log, as the store has it or will have it after the pending commit."""

    __slots__ = ("_log", "_states_per_writer", "_stream")

    def __init__(self, stream: str, stored: StoredLog, *, states_per_writer: int = LOG_STATES_PER_WRITER) -> None:
        self._stream = stream
        self._states_per_writer = states_per_writer
        self._log = stored

    @property
    def seq(self) -> int:
        """The seq of the newest row: the stream's version. 0 before the first commit."""
        return self._log.seq

    @property
    def first_seq(self) -> int:
        """The seq of the oldest row that is left."""
        return self._log.rows[0][0] if self._log.rows else self._log.seq + 1

    def write(
        self,
        writers: Mapping[str, StreamWriter],
        changed: Collection[str],
        forgotten: Collection[str],
        commit: Commit,
    ) -> int:
        """Adds the changes to the log, and removes its oldest rows if it is too long. Returns the newest seq.

        A writer that was forgotten and came back is in both `forgotten` and `changed`.
        """
        log = self._log
        for name in forgotten:
            commit.remove(schema.writer_state, {"stream": self._stream, "name": name})
        gone, names = sorted(forgotten), sorted(changed)
        old_until = log.rows[len(log.rows) // 4][0] if log.rows else 0  # the oldest quarter
        for start in range(0, max(1, len(gone) + len(names)), LOG_ROW_STATES):
            gone_of_part = gone[start : start + LOG_ROW_STATES]
            first, end = start - len(gone), start - len(gone) + LOG_ROW_STATES
            part = names[max(first, 0) : max(end, 0)]
            documents, whole = list(map(forgotten_document, gone_of_part)), []
            for name in part:
                document, is_whole = document_of(writers[name], whole=log.first.get(name, log.seq) <= old_until)
                documents.append(document)
                if is_whole:
                    whole.append(name)
            log.add(log.seq + 1, part, part, whole, gone_of_part)
            commit.add_row(schema.writer_change, change_values(self._stream, log.seq, documents, commit.stamp))
        bound = self._states_per_writer * (LOG_LEAST_WRITERS + len(log.newest))
        if log.states > bound:
            self._release(bound - min(bound // 8, LOG_ROW_STATES), writers, commit)
        return log.seq

    def adopt(self, changes: Iterable[StoredChange], first_seq: int) -> None:
        """Follows rows that others added, in order, and their removal of all rows before `first_seq`.

        They wrote own rows of the writers that needed a removed row. Through which row those go is not known here: such
        a writer counts as needing the first row that is left of it.
        """
        log = self._log
        for change in changes:
            documents = [each for each in change.writers if each.key_states]
            names = [each.name for each in documents]
            whole = [each.name for each in documents if all(state.whole for state in each.key_states.values())]
            log.add(change.seq, names, names, whole, [each.name for each in change.writers if not each.key_states])
        released: set[str] = set()
        while log.rows and log.rows[0][0] < first_seq:
            released.update(self._remove_oldest())
        if released:
            for seq, changed, _ in log.rows:
                for name in released.intersection(changed).intersection(log.newest):
                    log.first.setdefault(name, seq)

    def _release(self, wanted: int, writers: Mapping[str, StreamWriter], commit: Commit) -> None:
        """Removes the oldest rows until at most `wanted` states are left."""
        log = self._log
        while log.states > wanted and len(log.rows) > 1:
            for name in self._remove_oldest():
                values = state_values(self._stream, writers[name], log.seq)
                commit.put_row(schema.writer_state, values)
        commit.logged.append({"stream": self._stream, "seq": log.rows[0][0]})

    def _remove_oldest(self) -> list[str]:
        """Removes the oldest row from the index; returns the writers whose states are lost without it."""
        log = self._log
        seq, names, states = log.rows.popleft()
        log.states -= states
        for name in names:
            if log.newest.get(name) == seq:
                del log.newest[name]
        needing = [name for name in names if log.first.get(name) == seq]
        for name in needing:
            del log.first[name]
        return needing
