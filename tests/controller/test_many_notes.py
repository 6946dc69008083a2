"""Requests with very many notes: applied in portions, between which everybody else is answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from controller.commit.loop import FLUSH_NOTES, FLUSH_NOTES_BESIDE
from controller.commit.store import Store
from controller.http.request_bodies import SMALL_BODY_BYTES
from controller.storage import schema
from controller.storage.database import Database, open_database
from controller.storage.news import Found
from controller.storage.save import Commit
from controller.streams.notes import PORTION_NOTES, Noted, Notes
from strandline.core.note import Note
from strandline.errors import StoreUnavailable, StrandlineError
from tests.controller.world import World, play
from tests.served import NOON, InProcess
from tests.storage.loads import load_stream

MANY = 2_000


def body(request: int, count: int = MANY) -> dict[str, Any]:
    notes = [{"writer": f"w{request}-{number}", "time": NOON, "position": {"0": 1}} for number in range(count)]
    return {"notes": notes}


@pytest.fixture
def large(controller: InProcess) -> InProcess:
    controller.call("PUT", "/v1/streams/s", {"segments": 1, "mark_interval_ms": None})
    controller.call("PUT", "/v1/streams/other", {"segments": 1, "mark_interval_ms": None})
    return controller


async def _post(controller: InProcess, path: str, value: Any) -> Any:
    return await controller._client.post(path, json=value)


def test_between_commits_of_large_requests_all_others_have_their_turn(large: InProcess) -> None:
    """However many such requests there are: beside a single note, half as many notes are applied at once."""

    async def scene() -> tuple[int, int]:
        live = await large.app.state.controller.streams.get("s")
        requests = [asyncio.create_task(_post(large, "/v1/streams/s/notes", body(each))) for each in range(4)]
        longest = seen = 0

        async def watch(until: Callable[[], bool]) -> None:
            nonlocal longest, seen
            while not until():
                await asyncio.sleep(0)
                longest, seen = max(longest, live.counts.totals.notes - seen), live.counts.totals.notes

        await watch(lambda: seen > 0)
        before, note = seen, {"writer": "one", "time": NOON, "position": {"0": 1}}
        alone = asyncio.create_task(_post(large, "/v1/streams/other/notes", note))
        await watch(alone.done)
        beside = seen - before
        await watch(lambda: all(each.done() for each in requests))
        assert seen == 4 * MANY and {each.result().status_code for each in (*requests, alone)} == {200}
        return longest, beside

    longest, beside = large.portal.call(scene)
    assert longest < FLUSH_NOTES + PORTION_NOTES and beside < longest + FLUSH_NOTES_BESIDE + PORTION_NOTES


def test_too_much_waiting_refuses_large_requests_and_takes_single_notes(large: InProcess) -> None:
    async def scene() -> None:
        large.app.state.controller.notes.limit_bytes = len(json.dumps(body(0))) + 1_000
        first, second = (asyncio.create_task(_post(large, "/v1/streams/s/notes", body(each))) for each in range(2))
        refused = await second
        assert refused.status_code == 503 and refused.headers["retry-after"] == "1"
        assert refused.json()["code"] == "overloaded" and "bytes of notes" in refused.json()["detail"]
        note = {"writer": "one", "time": NOON, "position": {"0": 1}}
        assert (await _post(large, "/v1/streams/other/notes", note)).status_code == 200
        assert (await first).status_code == 200
        assert (await _post(large, "/v1/streams/s/notes", body(1))).status_code == 200  # there is room again

    large.portal.call(scene)


def test_many_notes_results_stand_in_order_and_errors_stay_separate(large: InProcess) -> None:
    given = body(0)["notes"]
    given[7] = {"writer": 7}
    given[MANY // 2] = {**given[3], "time": NOON - 1}  # of the same writer, below what it noted before
    assert len(json.dumps(given)) > SMALL_BODY_BYTES
    results = large.call("POST", "/v1/streams/s/notes", {"notes": given})["results"]
    refused = {place: each["code"] for place, each in enumerate(results) if "code" in each}
    assert len(results) == MANY and refused == {7: "invalid_note", MANY // 2: "time_went_back"}
    assert results[7]["detail"] == large.call("POST", "/v1/streams/s/notes", given[7], expect=422)["detail"]
    assert large.call("GET", "/v1/streams/s")["writers"] == {"active": MANY - 2}


def test_a_request_that_is_sent_again_while_it_is_at_work_is_harmless(large: InProcess) -> None:
    notes = [{"writer": "w", "time": NOON + number, "position": {"0": number}} for number in range(MANY)]

    async def scene() -> list[Any]:
        first = asyncio.create_task(_post(large, "/v1/streams/s/notes", {"notes": notes}))
        live = await large.app.state.controller.streams.get("s")
        while not live.counts.totals.notes:
            await asyncio.sleep(0)
        return list(await asyncio.gather(first, _post(large, "/v1/streams/s/notes", {"notes": notes})))

    for answer in large.portal.call(scene):
        assert [each for each in answer.json()["results"] if "code" in each] == []


def test_a_large_body_is_judged_as_strictly_as_a_small_one(large: InProcess) -> None:
    notes = json.dumps(body(0)["notes"])[1:-1]
    answer = large.request("POST", "/v1/streams/s/notes", content='{"notes": [' + notes)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_json")
    assert large.call("GET", "/v1/streams/s")["writers"] == {}


# -- the store -----------------------------------------------------------------------------------------------------


class FaultyCommits(Store):
    """Commits, and fails when it is told to."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.states: list[int] = []  # how many writers each commit wrote
        self.fail_at: int | None = None

    async def transact(self, *locked: Any) -> None:
        def applied(found: Found) -> Commit | None:
            commit: Commit = locked[-1](found)
            rows = commit.added.get(schema.writer_change, [])
            self.states.append(sum(len(json.loads(row["writers"])) for row in rows))
            if len(self.states) == self.fail_at:
                raise OSError("no room")
            return commit

        subjects, known, creating, _ = locked
        await super().transact(subjects, known, creating, applied)


async def begin(world: World) -> tuple[Notes, FaultyCommits]:
    """Takes notes of a stream `s`, on a real store."""
    await world.streams.create("s", 1, {"mark_interval_ms": None})
    assert isinstance(world.store, FaultyCommits)
    world.store.states.clear()
    return Notes(world.streams, world.commits), world.store


async def take(notes: Notes, count: int) -> list[Noted | StrandlineError]:
    given = [("s", Note(writer=f"w{number}", times={"": NOON}, position={"0": 1})) for number in range(count)]
    return await take_these(notes, given)


async def take_these(notes: Notes, given: Sequence[tuple[str, Note]]) -> list[Noted | StrandlineError]:
    def answered(_: int, results: Sequence[Noted | StrandlineError]) -> Sequence[Noted | StrandlineError]:
        return results

    return await notes.take_all(len(given), given.__getitem__, answered, lambda error: error)


def test_a_commit_has_fewer_notes_if_they_have_many_keys(tmp_path: Path) -> None:
    """PostgreSQL ends a transaction in which a controller computes for too long: such a request never came through."""

    async def scene(world: World) -> None:
        notes, commits = await begin(world)
        times = {f"k{number}": NOON for number in range(64)}
        given = [("s", Note(writer=f"w{number}", times=times, position={"0": 1})) for number in range(64)]
        assert all(isinstance(each, Noted) for each in await take_these(notes, given))
        assert sum(commits.states) == 64 and max(commits.states) <= FLUSH_NOTES // 64

    play(f"sqlite:///{tmp_path / 'store.db'}", scene, FaultyCommits)


def test_a_failed_later_flush_leaves_durable_notes_answered(tmp_path: Path) -> None:
    durable = 0

    async def scene(world: World) -> None:
        nonlocal durable
        notes, commits = await begin(world)
        commits.fail_at = 3
        results = await take(notes, 8 * FLUSH_NOTES)
        taken = [isinstance(each, Noted) for each in results]
        durable = sum(commits.states[:2])
        assert taken == [True] * durable + [False] * (8 * FLUSH_NOTES - durable)
        assert {type(each) for each in results[durable:]} == {StoreUnavailable}
        commits.fail_at = None

    play(f"sqlite:///{tmp_path / 'store.db'}", scene, FaultyCommits)
    with open_database(str(tmp_path / "store.db")) as database:
        stored = load_stream(database.reader, "s")
        assert stored is not None and len(stored.stream.writers) == durable > 0


def test_a_later_note_is_not_done_where_an_earlier_one_was_lost(tmp_path: Path) -> None:
    """The commit of the first portion fails while a stream of the second one is looked for."""

    async def scene(world: World) -> None:
        notes, commits = await begin(world)
        commits.fail_at = 1
        streams = [*["s"] * PORTION_NOTES, "unknown", "s"]
        given = [(stream, Note(writer="w", times={"": NOON}, position={"0": 1})) for stream in streams]
        with pytest.raises(StoreUnavailable, match="OSError"):
            await take_these(notes, given)
        assert len(commits.states) == 1

    play(f"sqlite:///{tmp_path / 'store.db'}", scene, FaultyCommits)
