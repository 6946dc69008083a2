"""The migrations and the models say the same."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from controller.cli import main
from controller.storage import upgrade
from controller.storage.database import Database, migrate, open_database
from controller.storage.diagnosis import StoreMoved
from controller.storage.kinds import parse_url
from controller.storage.postgresql import writing_engine
from controller.storage.presence import Presence
from controller.storage.refusals import (
    AlreadyServed,
    BadDatabaseUrl,
    ForeignStore,
    StoreAway,
    WrongSchema,
)
from controller.storage.schema import (
    REVISION,
    metadata,
)
from controller.storage.sqlite import sqlite_engine
from controller.storage.tokens import open_tokens
from tests.readme.pages import blocks_of, commands_of
from tests.served import ROOT


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """Connects to a store, in one transaction."""
    parsed = parse_url(url)
    engine: Engine = (sqlite_engine if parsed.get_backend_name() == "sqlite" else writing_engine)(parsed)
    with engine.begin() as connection:
        yield connection


def change(url: str, statement: str) -> None:
    with connected(url) as connection:
        connection.execute(text(statement))


def differences(connection: Connection) -> list[Any]:
    options = {"compare_type": True, "compare_server_default": True}
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), metadata))


def revisions() -> list[str]:
    """All versions of the schema, the oldest first."""
    script = ScriptDirectory.from_config(upgrade.configuration())
    return [each.revision for each in script.walk_revisions()][::-1]


def test_upgrading_an_empty_database_and_stepping_down_and_up_again_gives_what_the_models_have(store_url: str) -> None:
    with connected(store_url) as connection:
        upgrade.upgrade(connection)

        assert differences(connection) == []
        names = set(inspect(connection).get_table_names())
        assert names == {*metadata.tables, "alembic_version"} and "mark" in names
        for revision in [*revisions()[-2::-1], "base"]:
            command.downgrade(upgrade.configuration(connection), revision)
        assert set(inspect(connection).get_table_names()) == {"alembic_version"}

        upgrade.upgrade(connection)
        assert differences(connection) == []


def test_a_schema_that_is_made_at_once_is_that_of_all_steps(store_url: str) -> None:
    assert migrate(store_url) == (None, REVISION)
    with connected(store_url) as connection:
        assert differences(connection) == []
        assert upgrade.revision(connection) == revisions()[-1] == REVISION
    assert revisions() == [f"{number:04}" for number in range(1, len(revisions()) + 1)]  # each is one more


def alembic(*arguments: str, database: str | None) -> subprocess.CompletedProcess[str]:
    """Plain Alembic, in a clone."""
    environment = {name: value for name, value in os.environ.items() if name != "STRANDLINE_DATABASE"}
    given = {} if database is None else {"STRANDLINE_DATABASE": database}
    command = [sys.executable, "-m", "alembic", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment | given)


def test_plain_alembic_migrates_a_store(store_url: str) -> None:
    assert alembic("upgrade", "head", database=store_url).returncode == 0
    checked = alembic("check", database=store_url)
    assert "No new upgrade operations detected" in checked.stdout + checked.stderr
    assert migrate(store_url) == (REVISION, REVISION)
    open_database(store_url).close()


def test_the_commands_of_the_page_do_what_it_says(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """But for the name of the database."""
    monkeypatch.chdir(tmp_path)
    lines = [line.split() for block in blocks_of("docs/how-to/upgrade.md") for line in commands_of(block.text)]
    open_database(postgres_url).close()
    done = []
    for words in lines:
        if "alembic" in words:
            place = words.index("alembic")
            assert alembic(*words[place + 1 :], database=postgres_url).returncode == 0
        else:
            assert main([*words[1:-1], postgres_url]) == 0
        done.append(words[1])
    assert done == ["backup", "migrate", "alembic"]
    assert f"is at {REVISION} already" in capsys.readouterr().out


def test_plain_alembic_says_what_it_lacks_and_touches_no_store_in_use(store_url: str) -> None:
    assert "set STRANDLINE_DATABASE to the URL" in alembic("upgrade", "head", database=None).stdout
    with open_database(store_url) as database:
        present(database)
        assert "another controller is serving" in alembic("upgrade", "head", database=store_url).stdout
    assert "--sql is not for stores" in alembic("upgrade", "head", "--sql", database=store_url).stdout


def test_in_postgresql_names_are_in_the_order_of_their_bytes(postgres_url: str) -> None:
    with connected(postgres_url) as connection:
        upgrade.make(connection)
        query = (
            "SELECT collation_name FROM information_schema.columns WHERE table_name = 'stream' AND column_name = 'name'"
        )
        assert connection.execute(text(query)).scalar_one() == "C"


def test_alembic_is_loaded_only_where_there_are_steps_to_take(tmp_path: Path) -> None:
    program = """
import sys
from controller.storage.database import Database, migrate, open_database

open_database(sys.argv[1]).close()
open_database(sys.argv[1]).close()
migrate(sys.argv[1])
migrate(sys.argv[2])
print("alembic" in sys.modules)
"""
    stores = [str(tmp_path / name) for name in ("served.db", "migrated.db")]
    done = subprocess.run([sys.executable, "-c", program, *stores], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("version", "attempts", "said"),
    [
        ("0000", (open_database,), r"schema is 0000.*`strandline migrate`"),
        ("0002", (open_database, migrate), "schema is 0002, and this version can read those up to 0001: use a version"),
    ],
)
def test_a_store_of_another_version_is_refused_with_what_to_do(
    store_url: str, version: str, attempts: tuple[Callable[[str], object], ...], said: str
) -> None:
    open_database(store_url).close()
    assert migrate(store_url) == (REVISION, REVISION)
    change(store_url, f"UPDATE alembic_version SET version_num = '{version}'")
    for attempt in attempts:
        with pytest.raises(WrongSchema, match=said):
            attempt(store_url)


def test_a_database_with_other_tables_is_refused(store_url: str) -> None:
    change(store_url, "CREATE TABLE mine (id INTEGER)")

    with pytest.raises(ForeignStore, match=r"another application \(its tables: mine\)"):
        open_database(store_url)
    with pytest.raises(ForeignStore):
        migrate(store_url)


def present(database: Database) -> Presence:
    """Shows in a store that a controller serves it."""
    has_clock = database.writer.dialect.name == "postgresql"
    presence = Presence("one", "1", None if has_clock else lambda: 1)
    presence.serve(database.writer)
    return presence


def test_a_store_is_migrated_once_nobody_serves_it(store_url: str) -> None:
    with open_database(store_url) as database:
        presence = present(database)
        with pytest.raises(AlreadyServed, match="another controller"):
            migrate(store_url)
        presence.leave(database.writer)
    migrate(store_url)


def test_an_sqlite_file_is_served_by_one_controller_under_all_its_names(tmp_path: Path) -> None:
    store, link = str(tmp_path / "store.db"), str(tmp_path / "link.db")
    Path(link).symlink_to(store)
    for first, second in ((store, store), (store, link), (link, store)):
        with open_database(first), pytest.raises(AlreadyServed, match="another controller"):
            open_database(second)
    open_database(store).close()


def test_the_path_of_a_file_is_taken_as_it_is(tmp_path: Path) -> None:
    with open_database(str(tmp_path / "what?timeout=5")):
        assert (tmp_path / "what?timeout=5").exists()


@pytest.mark.parametrize("beside", ["-wal", ".lock"])
@pytest.mark.parametrize("served", ["store.db", "link.db"])
def test_what_is_beside_the_real_file_is_watched_under_all_its_names(tmp_path: Path, served: str, beside: str) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "store.db")
    with open_database(str(tmp_path / served)) as database:
        database.check_files()
        (tmp_path / f"store.db{beside}").unlink()
        with pytest.raises(StoreMoved):
            database.check_files()


def test_a_database_that_is_not_there_is_named_without_its_password(postgres: Any) -> None:
    with pytest.raises(StoreAway, match=r"nowhere.* cannot be opened .*does not exist") as raised:
        open_database(f"postgresql://strandline:secret@127.0.0.1:{postgres.port}/nowhere")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        *("mysql://localhost/x", "sqlite://", "sqlite:///:memory:", "://", "postgresql://localhost", "postgres://h/x"),
        *("\udcff.db", "postgresql://user@host/\udcff"),  # from a command line that is not UTF-8
    ],
)
def test_a_database_that_is_not_supported_is_refused(url: str) -> None:
    with pytest.raises(BadDatabaseUrl):
        open_database(url)


def test_plain_alembic_steps_down_to_nothing_and_up_again(store_url: str) -> None:
    for steps in (["upgrade", "head"], ["downgrade", "base"], ["upgrade", "head"], ["check"], ["downgrade", "base"]):
        done = alembic(*steps, database=store_url)
        assert done.returncode == 0, (steps, done.stderr)
    assert migrate(store_url) == (None, REVISION)
    open_database(store_url).close()


def test_a_database_that_plain_alembic_has_only_stamped_gets_its_tables(store_url: str) -> None:
    for steps in (["stamp", "head"], ["downgrade", "base"], ["stamp", "head"]):
        done = alembic(*steps, database=store_url)
        assert done.returncode == 0, (steps, done.stderr)
    with pytest.raises(WrongSchema, match="strandline migrate"), open_tokens(store_url):
        pass
    with open_database(store_url) as database:
        assert database.fresh
    with connected(store_url) as connection:
        assert differences(connection) == []


def test_a_database_that_another_application_has_stamped_is_not_ours(store_url: str) -> None:
    with connected(store_url) as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('ae1027a6acf')"))
    with pytest.raises(ForeignStore, match="alembic_version"):
        migrate(store_url)
