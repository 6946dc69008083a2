"""Several controllers over one store keep every promise, whatever fails; and a rule of theirs left out is found."""

from __future__ import annotations

import logging
import os
from typing import Any

import pytest
from sqlalchemy import Connection, func, select

from controller.storage import news, schema, tokens
from controller.storage.heads import Head
from tests.several.server import Server
from tests.several.world import run

SEEDS = int(os.environ.get("SEVERAL_SEEDS", "8"))
FULL_SEEDS = 24
BATCH = 4
FOUND = {
    "a commit is under way here, and another controller has written since": 12,
    "the clock of the store is set back, and a writer falls silent": 48,
    "the answer to a commit comes long after others have written, and what is in memory is taken for new": 514,
}


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_several_controllers_keep_every_promise(first: int) -> None:
    for seed in range(first, first + BATCH):
        run(seed)


@pytest.mark.full
@pytest.mark.parametrize("first", range(SEEDS, FULL_SEEDS, BATCH))
def test_they_do_in_many_histories(first: int) -> None:
    for seed in range(first, first + BATCH):
        run(seed)


@pytest.mark.parametrize("seed", FOUND.values(), ids=FOUND)
def test_they_do_in_what_was_found(seed: int) -> None:
    run(seed)


async def locks_nothing(*_: Any) -> None:
    """In place of a lock."""


def counted(connection: Connection) -> int:
    """In place of the stamp of tokens."""
    found = connection.execute(select(func.count(), func.count(schema.token.c.revoked_at))).one()
    return 1_000 * found[0] + found[1]


BROKEN: dict[str, tuple[object, str, Any, int]] = {  # and the first of the histories that may find it
    "no lock": (Server, "_acquire", locks_nothing, 1),
    "a new stream has no greater epochs": (news, "epochs_before", lambda *_: 0, 4),
    "a cache takes any stream for its own": (Head, "differs", lambda *_: False, 0),
    "tokens are compared by two counts": (tokens, "_stamp", counted, 6),
}


@pytest.mark.full
@pytest.mark.parametrize(("owner", "name", "instead", "first"), BROKEN.values(), ids=BROKEN)
def test_a_rule_left_out_is_found(
    owner: object,
    name: str,
    instead: Any,
    first: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, "strandline")
    monkeypatch.setattr(owner, name, instead)
    with pytest.raises(Exception):  # noqa: B017  # whatever comes first
        for seed in range(first, first + 60):
            run(seed)
