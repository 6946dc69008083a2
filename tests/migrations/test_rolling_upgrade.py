"""Controllers of two versions serve one store while they are replaced one by one, under load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.cli import main
from controller.storage.database import open_database
from tests.joint.load import CONFIG, STREAMS, Load, Members, check_marks
from tests.migrations import later_version
from tests.migrations.later_version import ADDS, REMOVES, run
from tests.postgres import Postgres
from tests.readme.pages import blocks_of, commands_of
from tests.served import ROOT

pytestmark = pytest.mark.full


@pytest.fixture
def members(postgres_url: str) -> Iterator[Members]:
    with Members(postgres_url, "one", "two") as made:
        yield made


def test_the_commands_of_the_page_do_what_it_says(
    postgres: Postgres,
    postgres_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """But for the names of the databases."""
    monkeypatch.chdir(tmp_path)
    lines = [line.split() for block in blocks_of("docs/how-to/upgrade.md") for line in commands_of(block.text)]
    assert [words[1] for words in lines] == ["backup", *["migrate"] * 4]
    empty = postgres.new_database()
    open_database(postgres_url).close()
    for _, *words, database in lines:
        assert main([*words, empty if database.endswith("/empty") else postgres_url]) == 0
    postgres.give_back(empty)
    told = capsys.readouterr().out
    assert "replace the controllers one by one" in told and "went from nothing to" in told


def test_controllers_are_replaced_one_by_one_under_load(postgres_url: str, tmp_path: Path, members: Members) -> None:
    later = later_version.make(tmp_path)

    def migrate(option: str) -> str:
        """What a migration by the later version says."""
        done = run(later, "migrate", option, "--database", postgres_url)
        return done.stdout + done.stderr

    for name in ("one", "two"):
        members.start(name)
    for stream in STREAMS:
        assert members.processes["one"].client.put(f"/v1/streams/{stream}", json=CONFIG).is_success
    with Load(members.addresses) as load:
        assert f"to {ADDS}; replace the controllers one by one" in migrate("--before")
        members.kill("one")
        members.start("one")  # as a supervisor does, in the middle of the upgrade
        load.goes_on()

        members.stop("one")
        members.start("one", later)
        load.goes_on()
        assert "of an earlier version serve the store ('two'): replace them first" in migrate("--after")
        members.stop("one")  # the version before serves what the later one wrote
        load.goes_on()
        members.start("one", later)
        members.stop("two")
        members.start("two", later)
        load.goes_on()

        assert f"went from {ADDS} to {REMOVES}" in migrate("--after")
        load.goes_on()
    refused = run(ROOT, "serve", "--port", "0", "--database", postgres_url, "--name", "three", "--address", "http://c")
    assert f"the store's schema is {REMOVES}" in refused.stderr and "use a version as new as" in refused.stderr
    for process in members.processes.values():
        check_marks(process.client, load.answered)
    checked = run(later, "check", "--database", postgres_url)
    assert checked.returncode == 0, checked.stdout
