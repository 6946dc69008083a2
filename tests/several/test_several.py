"""Several controllers over one store keep every promise, whatever fails; and a rule of theirs left out is found."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from sqlalchemy import Connection, func, select

from controller.storage import news, schema, tokens
from controller.storage.heads import Head
from tests.drawn import Bug, batches, planted
from tests.several.server import Server
from tests.several.world import SEVERAL

FOUND = {
    "a commit is under way here, and another controller has written since": 12,
    "the clock of the store is set back, and a writer falls silent": 48,
    "the answer to a commit comes long after others have written, and what is in memory is taken for new": 514,
}


@pytest.mark.parametrize("seeds", batches(8, 24, 4))
def test_several_controllers_keep_every_promise(seeds: range) -> None:
    SEVERAL.histories(seeds)


@pytest.mark.parametrize("seed", FOUND.values(), ids=FOUND)
def test_they_do_in_what_was_found(seed: int) -> None:
    SEVERAL.history(seed)


async def locks_nothing(*_: Any) -> None:
    """In place of a lock."""


def counted(connection: Connection) -> int:
    """In place of the stamp of tokens."""
    found = connection.execute(select(func.count(), func.count(schema.token.c.revoked_at))).one()
    return 1_000 * found[0] + found[1]


@pytest.mark.full
@planted(
    Bug.put("no lock", Server, "_acquire", locks_nothing, 1),
    Bug.put("a new stream has no greater epochs", news, "epochs_before", lambda *_: 0, 4),
    Bug.put("a cache takes any stream for its own", Head, "differs", lambda *_: False),
    Bug.put("tokens are compared by two counts", tokens, "_stamp", counted),
)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "strandline")
    SEVERAL.finds(bug, monkeypatch)
