"""Each rule by which controllers share a store, left out, is found within some histories.

Patching is what these tests are for; no other test does it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

import pytest

from controller.commit.freshness import Freshness
from controller.commit.group_commit import Committer
from controller.groups.service import Groups
from controller.storage import news
from controller.storage.heads import Head
from controller.storage.news import Found, Known, lock_and_look
from controller.storage.subjects import Subject
from controller.streams.loaded_stream import LoadedStream
from controller.streams.reads import Reads
from controller.streams.registry import Streams
from strandline.core.served_time import Unserved
from tests.replica.test_replica import Part, leave_out
from tests.several.server import Server, Session
from tests.several.world import run

SEEDS = 60
FIRST_SEED = {  # where earlier histories take long and find nothing
    "no lock": 1,
    "a look before the lock": 1,
    "stamps are not compared": 23,
    "versions alone are compared": 23,
    "a commit under way is taken for the newest": 12,
    "a deleted stream is served on": 4,
    "a new stream has no greater epochs": 4,
    "`held` is told before it is stored": 114,
    "a deadline is not stored": 6,
}
DISCARD = "_discard(turn)\n        outcome: bool"

Patch = pytest.MonkeyPatch


def no_lock(patch: Patch) -> None:
    async def broken(self: Server, session: Session, key: object) -> None:
        """Locks nothing."""

    patch.setattr(Server, "_acquire", broken)


def look_before_the_lock(patch: Patch) -> None:
    lock = Server.lock

    async def broken(
        self: Server,
        session: Session,
        subjects: Collection[Subject],
        known: Mapping[Subject, Known],
        creating: Collection[Subject],
    ) -> Found:
        with self.connection.begin():
            found = lock_and_look(self.connection, subjects, known, creating)
        found.service = (await lock(self, session, subjects, known, creating)).service
        return found

    patch.setattr(Server, "lock", broken)


def no_greater_epochs(patch: Patch) -> None:
    patch.setattr(news, "epochs_before", lambda *_: 0)


def a_deadline_outside_of_a_turn(patch: Patch) -> None:
    advance = Streams._advance

    async def broken(self: Streams, name: str) -> None:
        loaded = self.find_loaded(name)
        if loaded is None:
            await advance(self, name)
            return
        loaded.stream.advance(self._clock.now())
        if loaded.stream.is_changed:
            self._committer.keep(loaded)

    patch.setattr(Streams, "_advance", broken)


def a_deleted_stream_is_equal(patch: Patch) -> None:
    differs = Head.differs
    patch.setattr(Head, "differs", lambda self, stored: stored is not None and differs(self, stored))


def left_out(*parts: Part) -> Callable[[Patch], None]:
    def leave(patch: Patch) -> None:
        for part in parts:
            leave_out(part, patch)

    return leave


PLANTED: dict[str, Callable[[Patch], None]] = {
    "no lock": no_lock,
    "a look before the lock": look_before_the_lock,
    "stamps are not compared": left_out(
        Part(Head, "differs", "self[:4] != stored[:4]", "(*self[:2], self[3]) != (*stored[:2], stored[3])"),
        Part(news, "_read_streams", "*each.head[1:3], head", "each.head.version, log[0].stamp, head"),
    ),
    "versions alone are compared": left_out(
        Part(Head, "differs", "self[:4] != stored[:4]", "self.version != stored.version"),
        Part(Head, "may_follow", "self.identity == stored.identity and ", ""),
    ),
    "a cache is kept after a commit that failed": left_out(Part(Committer, "_write", DISCARD, "outcome: bool")),
    "a cache is kept after an unknown outcome": left_out(
        Part(Committer, "_write", DISCARD, f"type(error) is CommitUnknown or {DISCARD}")
    ),
    "what a reader has seen is not asked for": left_out(Part(Reads, "catch_up", "int(version)", "0")),
    "a commit under way is taken for the newest": left_out(Part(Freshness, "_look_for", "if busy:", "if False:")),
    "what is asked for as it is now is not compared": left_out(Part(Streams, "get", "< asked_at", "< 0")),
    "a deleted stream is served on": a_deleted_stream_is_equal,
    "a new stream has no greater epochs": no_greater_epochs,
    "unserved time is added twice": left_out(Part(Unserved, "serve", "now - self.until", "2 * (now - self.until)")),
    "unserved time is not added": left_out(Part(Unserved, "serve", "self.total_ms += now - self.until")),
    "a deadline outside of a turn": a_deadline_outside_of_a_turn,
    "`held` is told before it is stored": left_out(
        Part(Groups, "window", "is_told_already(loaded, views, combined, moment.now)", "True")
    ),
    "a deadline is not stored": left_out(
        Part(LoadedStream, "_wake_at", "stored if self.stream.clock < stored <= wake else wake", "stored")
    ),
    "calls of a controller that ends wait for ever": left_out(
        Part(Committer, "_run", "(self._turn, self._next)", "(self._next,)")
    ),
    "a restore fences nobody": left_out(Part(LoadedStream, "begin_anew", "if writer.epoch is not None:", "if False:")),
}


@pytest.mark.full
@pytest.mark.parametrize("name", PLANTED)
def test_a_rule_left_out_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    logging.getLogger("strandline").setLevel(logging.CRITICAL)
    PLANTED[name](monkeypatch)
    with pytest.raises(Exception):  # noqa: B017  # whatever comes first
        for seed in range(FIRST_SEED.get(name, 0), FIRST_SEED.get(name, 0) + SEEDS):
            run(seed)
