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


def test_a_controller_is_present_from_when_it_serves_until_it_leaves(both_stores: str) -> None:
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


def test_one_that_ended_without_leaving_is_listed_for_a_while(both_stores: str) -> None:
    clock = ByHand()
    with open_database(both_stores) as database:
        Presence("killed", "1", clock).serve(database.writer)
        clock.now += 5_000
        Presence("next", "1", clock).serve(database.writer)
        assert names(database) == ["killed", "next"]
        clock.now += GONE_MS
        Presence("last", "1", clock).serve(database.writer)
        assert names(database) == ["next", "last"]


def test_one_whose_row_was_removed_is_present_again_with_its_next_beat(both_stores: str) -> None:
    clock = ByHand()
    with open_database(both_stores) as database:
        one = Presence("one", "1", clock)
        one.serve(database.writer)
        one.leave(database.writer)
        one.serve(database.writer)
        assert names(database) == ["one"]
