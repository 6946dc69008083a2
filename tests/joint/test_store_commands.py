"""Backup, restore, check and rewind of a store that controllers serve together."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from controller.cli import main
from controller.storage.database import set_clock_back
from tests.joint.load import CONFIG, PATIENCE_S, STREAMS, Load, Members, check_marks
from tests.joint.nodes import nodes
from tests.postgres import Postgres

pytestmark = pytest.mark.full

DAY = 86_400_000
REGISTERED = ["r0", "r1"]  # streams in which a writer registers; in those of the load it would hold time


def call(members: Members, name: str, method: str, path: str, body: Any = None) -> Any:
    answer = members.processes[name].client.request(method, path, json=body)
    assert answer.is_success, answer.text
    return answer.json()


def registered(members: Members) -> dict[str, int]:
    """Registers a writer in each stream; returns the epochs."""
    return {
        stream: call(members, "one", "PUT", f"/v1/streams/{stream}/writers/registered")["epoch"]
        for stream in REGISTERED
    }


def check_begun_anew(members: Members, before: dict[str, int]) -> None:
    """Whoever registered before is fenced, and no epoch is given out twice."""
    for stream, epoch in before.items():
        note = {"writer": "registered", "time": 9_999, "position": {"0": 9_999}, "epoch": epoch}
        refused = members.processes["one"].client.post(f"/v1/streams/{stream}/notes", json=note)
        assert (refused.status_code, refused.json()["code"]) == (409, "fenced"), refused.text
    after = registered(members)
    assert all(after[stream] > before[stream] for stream in REGISTERED)


def test_a_backup_under_load_is_restored_and_served_by_several(
    postgres: Postgres, postgres_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    elsewhere = postgres.new_database()
    file = str(tmp_path / "store.backup")
    with Members(postgres_url, "one", "two") as members, Members(elsewhere, "one") as others:
        for name in ("one", "two"):
            members.start(name)
        for stream in (*STREAMS, *REGISTERED):
            call(members, "one", "PUT", f"/v1/streams/{stream}", CONFIG)
        registered(members)
        with Load(members.addresses) as load:
            load.goes_on()
            before = dict(load.answered)
            assert main(["backup", file, "--database", postgres_url]) == 0
            assert main(["check", "--database", postgres_url]) == 0
            load.goes_on()
        lost = registered(members)  # epochs of which the backup knows nothing
        capsys.readouterr()
        assert main(["restore", "--database", postgres_url]) == 1
        assert "another controller is serving" in capsys.readouterr().err

        assert main(["restore", file, "--database", elsewhere]) == 0
        others.start("one")
        check_marks(others.processes["one"].client, before)
        check_begun_anew(others, lost)

        for name in ("one", "two"):
            members.kill(name)
        assert main(["restore", "--database", postgres_url]) == 0  # in place
        for name in ("one", "two"):
            members.start(name)
        check_marks(members.processes["two"].client, load.answered)
        check_begun_anew(members, lost)
        assert main(["check", "--database", postgres_url]) == 0
    postgres.give_back(elsewhere)


def test_after_a_rewind_controllers_go_by_the_clock_of_the_store(postgres: Postgres, postgres_url: str) -> None:
    async def scene() -> None:
        async with nodes(postgres_url) as all_nodes, asyncio.timeout(PATIENCE_S):
            for time in (1, 2):
                (one,) = await all_nodes.start("one")
                if time == 1:
                    await all_nodes.create(STREAMS)
                for stream in STREAMS:
                    await all_nodes.note(stream, time)
                await all_nodes.stop(one)
                if time == 1:  # as if the store's clock had been a day ahead
                    postgres.execute(f"UPDATE shard SET clock_floor = clock_floor + {DAY}", postgres_url)

            rewound = set_clock_back(postgres_url, 0)

            assert 0 < rewound.by_ms <= DAY and rewound.streams == len(STREAMS)
            assert set_clock_back(postgres_url, 0).by_ms == 0
            await all_nodes.start("one", "two")
            for stream in STREAMS:
                owner = await all_nodes.note(stream, 3)
                loaded = await owner.streams.get(stream)
                assert loaded.stream.clock < rewound.to + DAY // 2
                assert await owner.marks(stream) == [1, 2, 3]

    asyncio.run(scene())
    assert main(["check", "--database", postgres_url]) == 0
