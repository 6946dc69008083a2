"""Terms of serving, for tests that write to a store without a controller."""

from __future__ import annotations

from typing import Final

from controller.cluster.records import Kind
from controller.storage.save import Commit
from controller.storage.tenure import Tenure
from controller.storage.terms import OneTerm, Term, TermCheck
from strandline.core.served_time import Unserved

FIRST: Final = Term(fence=1, owner="test", started_at=0)  # of a new store


def tenure_of(term: Term, unserved: Unserved | None = None) -> Tenure:
    """The tenure of everything that a controller serves in a term."""
    return OneTerm(term, unserved if unserved is not None else Unserved()).of(Kind.STREAM, "s")


def commit_of(term: Term, now: int = 0, unserved_ms: int = 0) -> Commit:
    """An empty commit at that time."""
    return Commit(TermCheck(term, served_until=now, clock_bound=now, unserved_ms=unserved_ms))
