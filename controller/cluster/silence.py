"""Silence counts only while somebody served the shard.

A shard's `unserved_ms` grows with each take, by the time since its former owner could be heard. A stream keeps the
number that its shard had when the stream was written last. The difference is silence of nobody.
"""

from __future__ import annotations

from strandline.core.served_time import Unserved


class Hearing:
    """Until when callers could be heard, as beats may tell the store.

        commits          ├─ a ─✗├─ b ─✗├──── c ────┤      ├─ d ─┤
        nobody is heard  ├─────────────────────────┤
        beats tell    now│ the begin of a ──────────────────────│ now

    While commits fail or hang, nobody gets an answer. The first commit that begins after that, d, writes how long it
    was. Whoever takes the shards before that adds the time since what the beats told, so it counts as nobody's silence.
    """

    def __init__(self) -> None:
        self._unserved = Unserved()
        self._writing = 0  # the part of it that the commit under way writes
        self._since: int | None = None  # from here on the store does not know yet whether callers could be heard

    def of_new_lease(self, now: int) -> Hearing:
        """The one of the next lease. A commit that failed, or is still under way, holds up its answers too."""
        hearing = Hearing()
        if self._since is not None:
            hearing.begin(now)
            hearing.end(now, done=False)
        return hearing

    def begin(self, now: int) -> int:
        """Records that a commit begins; returns until when callers could be heard, but for the time that it writes."""
        self._unserved.begin(now)
        self._writing = self._unserved.total_ms
        if self._since is None:
            self._since = now
        return self._unserved.served_until(now)

    def end(self, now: int, *, done: bool) -> None:
        """Records how the commit ended."""
        if not done:
            self._unserved.fail()
            return
        self._unserved.succeed(now)
        if self._unserved.total_ms == self._writing:
            self._since = None

    def until(self, now: int) -> int:
        """What a beat tells."""
        return now if self._since is None else min(now, self._since)
