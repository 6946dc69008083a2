"""The log of changes to the writers of a stream, and when a writer's own row is written.

    log     │ 7: a b │ 8: b c │ 9: a │ 10: d │ ◄── one row a commit
    rows    a (through 4)   b (through 6)   c (through 2)

When the log has several states for each of its writers, its oldest rows are removed. A writer whose own row lacks the
change in a removed row is written first: here, to remove 7, a and b are written, through 10. So a writer costs a row of
its own once for every few notes, a log is never much longer than the states of its writers, and nothing has to be
cleaned up when a stream goes quiet or a controller ends.

The row of a forgotten writer is deleted. If the log has changes of it, a row of the log says that it is forgotten:
loading the stream would find the older changes otherwise. When rows are removed, changes of a forgotten writer do not
count, even if a writer of the same name came back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from controller.limits import LOG_LEAST_WRITERS, LOG_ROW_STATES, LOG_STATES_PER_WRITER
from controller.storage import schema
from controller.storage.save import Commit
from controller.storage.writer_states import (
    StoredLog,
    change_values,
    document_of,
    forgotten_document,
    state_values,
)
from strandline.core.writer import Writer


class WriterLog:
    """One stream's log, as the store has it or will have it after the pending commit."""

    __slots__ = ("_log", "_states_per_writer", "_stream")

    def __init__(self, stream: str, stored: StoredLog, *, states_per_writer: int = LOG_STATES_PER_WRITER) -> None:
        self._stream = stream
        self._states_per_writer = states_per_writer
        self._log = stored

    def write(
        self,
        writers: Mapping[str, Writer],
        changed: Collection[str],
        forgotten: Collection[str],
        fence: int,
        commit: Commit,
    ) -> None:
        """Adds the changes to the log, and removes its oldest rows if it is too long. `fence` is the stream's.

        A writer that was forgotten and came back is in both `forgotten` and `changed`.
        """
        if not changed and not forgotten:
            return
        log = self._log
        for name in forgotten:
            commit.remove(schema.writer_state, {"stream": self._stream, "name": name})
        gone = [(name, True) for name in sorted(forgotten) if name in log.times]
        for part in _parts([*gone, *((name, False) for name in sorted(changed))]):
            gone_of_part = [name for name, is_gone in part if is_gone]
            names = [name for name, is_gone in part if not is_gone]
            documents = [*map(forgotten_document, gone_of_part), *(document_of(writers[n], whole=False) for n in names)]
            log.add(log.seq + 1, names, names, gone_of_part)
            commit.add_row(schema.writer_change, change_values(self._stream, log.seq, documents, fence))
        bound = self._states_per_writer * (LOG_LEAST_WRITERS + len(self._log.times))
        if self._log.states > bound:
            self._release(bound - min(bound // 8, LOG_ROW_STATES), writers, fence, commit)

    def _release(self, wanted: int, writers: Mapping[str, Writer], fence: int, commit: Commit) -> None:
        """Removes the oldest rows until at most `wanted` states are left."""
        log = self._log
        while log.states > wanted and len(log.rows) > 1:
            seq, names, forgotten = log.rows.popleft()
            log.states -= len(names) + len(forgotten)
            for name in forgotten:
                if log.forgotten.get(name) == seq:
                    del log.forgotten[name]
            for name in names:
                if log.forgotten.get(name, seq) > seq:
                    continue
                log.times[name] -= 1
                if not log.times[name]:
                    del log.times[name]
                if log.first.get(name) == seq:
                    del log.first[name]
                    values = state_values(self._stream, writers[name], log.seq, fence)
                    commit.put_row(schema.writer_state, values)
        commit.logged.append({"stream": self._stream, "seq": log.rows[0][0]})


def _parts(entries: Sequence[tuple[str, bool]]) -> Iterator[Sequence[tuple[str, bool]]]:
    for first in range(0, len(entries), LOG_ROW_STATES):
        yield entries[first : first + LOG_ROW_STATES]
