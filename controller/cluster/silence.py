"""Silence counts only while somebody served the shard.

A shard's `unserved_ms` grows with each take, by the time since its former owner could be heard. A stream keeps the
number that its shard had when the stream was written last. The difference is silence of nobody.
"""

from __future__ import annotations


def served_until(now: int, commit_began: int | None) -> int:
    """What a beat tells: until when callers could be heard. While a commit is under way nobody gets an answer, so the
    time from its begin counts only once it has succeeded."""
    return now if commit_began is None else min(now, commit_began)
