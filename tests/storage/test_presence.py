"""Which controllers serve a store is seen from their rows."""

from __future__ import annotations

from controller.storage.database import Database, open_database
from controller.storage.presence import GONE_MS, Presence, present_controllers

NOON = 1_700_000_000_000


class ByHand:
    now = NOON

    def __call__(self) -> int:
        return self.now


def names(database: Database) -> list[str]:
    return [each.name for each in present_controllers(database.reader)]


def test_a_controller_is_present_from_when_it_serves_until_it_leaves_or_is_silent_for_long(both_stores: str) -> None:
    clock = ByHand()
    with open_database(both_stores) as database:
        one, other = Presence("one", "1", clock), Presence("other", "2", clock)
        assert names(database) == []
        one.serve(database.writer)
        clock.now += 1_000
        other.serve(database.writer)
        one.serve(database.writer)
        (first, _) = present_controllers(database.reader)
        assert first == ("one", "1", NOON, NOON + 1_000) and names(database) == ["one", "other"]
        one.leave(database.writer)
        assert names(database) == ["other"]
        clock.now += 1
        one.serve(database.writer)  # whose row was removed
        assert names(database) == ["other", "one"]
        clock.now += 5_000
        one.serve(database.writer)
        clock.now += GONE_MS
        Presence("last", "1", clock).serve(database.writer)
        assert names(database) == ["one", "last"]  # the other one was killed
