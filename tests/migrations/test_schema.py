"""The migrations and the models say the same."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, Engine, func, inspect, select, text

from controller.cluster.records import SHARDS, Begin, Identity, Kind
from controller.cluster.shards import shard_of
from controller.storage import upgrade
from controller.storage.cluster import begin as begin_controller
from controller.storage.database import MigrationPart, migrate, open_database, open_joint
from controller.storage.diagnosis import StoreMoved
from controller.storage.kinds import parse_url
from controller.storage.postgresql import sharing_engine, writing_engine
from controller.storage.refusals import (
    AlreadyServed,
    BadDatabaseUrl,
    ForeignStore,
    OneController,
    ShardsFixed,
    StoreAway,
    WrongSchema,
)
from controller.storage.schema import (
    LEAST_REVISION,
    REVISION,
    metadata,
    shard,
)
from controller.storage.shards import KINDS
from controller.storage.shards import shard_of as stored_shard_of
from controller.storage.sqlite import sqlite_engine


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


def test_upgrading_an_empty_database_gives_what_the_models_have(store_url: str) -> None:
    with connected(store_url) as connection:
        upgrade.upgrade(connection)

        assert differences(connection) == []
        names = set(inspect(connection).get_table_names())
        assert names == {*metadata.tables, "alembic_version"} and "mark" in names


def test_stepping_down_and_up_again_gives_the_same(store_url: str) -> None:
    with connected(store_url) as connection:
        upgrade.upgrade(connection)
        for revision in [*revisions()[-2::-1], "base"]:
            command.downgrade(upgrade.configuration(connection), revision)
        assert set(inspect(connection).get_table_names()) == {"alembic_version"}

        upgrade.upgrade(connection)
        assert differences(connection) == []


def details(connection: Connection) -> list[list[Any]]:
    """All that a database tells of its columns, constraints and indexes, by name and in the order of the columns."""

    def rows(query: str, **values: str) -> list[Any]:
        return [tuple(row) for row in connection.execute(text(query), values)]

    if connection.dialect.name == "postgresql":
        return [
            rows(
                "SELECT table_name, column_name, data_type, character_maximum_length, is_nullable, collation_name, "
                "column_default FROM information_schema.columns WHERE table_schema = 'public' "
                "ORDER BY table_name, ordinal_position"
            ),
            rows(
                "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
                "WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2"
            ),
            rows("SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY 1"),
        ]
    looked = inspect(connection)
    found: list[list[Any]] = []
    for table in sorted(looked.get_table_names()):
        names = [looked.get_pk_constraint(table)["name"]]  # the pragmas do not tell what constraints are called
        names += sorted(str(each["name"]) for each in looked.get_foreign_keys(table))
        names += sorted(str(each["name"]) for each in looked.get_unique_constraints(table))
        indexes = rows(
            'SELECT name, "unique", origin, partial FROM pragma_index_list(:table) ORDER BY name', table=table
        )
        found += [
            rows("SELECT name, ncol, wr, strict FROM pragma_table_list WHERE name = :table", table=table),
            rows("SELECT * FROM pragma_table_xinfo(:table)", table=table),
            rows("SELECT * FROM pragma_foreign_key_list(:table)", table=table),
            names,
            indexes,
            [rows("SELECT * FROM pragma_index_xinfo(:index)", index=name) for name, *_ in indexes],
        ]
    return found


def test_a_schema_that_is_made_at_once_is_that_of_all_steps(
    store_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if "postgresql" in store_url:
        postgres = request.getfixturevalue("postgres")
        stepped_url = postgres.new_database()
        request.addfinalizer(lambda: postgres.give_back(stepped_url))
    else:
        stepped_url = str(tmp_path / "stepped.db")

    with connected(store_url) as made, connected(stepped_url) as stepped:
        upgrade.make(made, SHARDS if made.dialect.name == "postgresql" else 1)
        upgrade.upgrade(stepped)

        assert details(made) == details(stepped)
        assert upgrade.revision(made) == upgrade.revision(stepped) == revisions()[-1] == REVISION
        assert set(inspect(made).get_table_names()) == {*metadata.tables, "alembic_version"}


def test_in_postgresql_names_are_in_the_order_of_their_bytes(postgres_url: str) -> None:
    with connected(postgres_url) as connection:
        upgrade.make(connection, SHARDS if connection.dialect.name == "postgresql" else 1)
        columns = details(connection)[0]

    assert ("stream", "name", "character varying", 249, "NO", "C", None) in columns


def test_alembic_is_loaded_only_where_there_are_steps_to_take(tmp_path: Path) -> None:
    program = """
import sys
from controller.storage.database import migrate, open_database

open_database(sys.argv[1]).close()
open_database(sys.argv[1]).close()
migrate(sys.argv[1])
migrate(sys.argv[2])
print("alembic" in sys.modules)
"""
    stores = [str(tmp_path / name) for name in ("served.db", "migrated.db")]
    done = subprocess.run([sys.executable, "-c", program, *stores], capture_output=True, text=True, check=True)

    assert done.stdout == "False\n"


def test_a_fresh_store_gets_the_schema_when_it_is_opened(store_url: str) -> None:
    open_database(store_url).close()

    assert migrate(store_url) == (REVISION, REVISION)


def test_migrating_a_fresh_store_makes_the_schema(store_url: str) -> None:
    assert migrate(store_url) == (None, REVISION)


def test_a_store_of_another_version_is_refused_with_the_command_to_run(store_url: str) -> None:
    open_database(store_url).close()
    change(store_url, "UPDATE alembic_version SET version_num = '0000'")

    with pytest.raises(WrongSchema, match=r"schema is 0000.*`strandline migrate`"):
        open_database(store_url)


def test_a_database_with_other_tables_is_refused(store_url: str) -> None:
    change(store_url, "CREATE TABLE mine (id INTEGER)")

    with pytest.raises(ForeignStore, match=r"another application \(its tables: mine\)"):
        open_database(store_url)
    with pytest.raises(ForeignStore):
        migrate(store_url)


def test_only_one_controller_serves_a_store(store_url: str) -> None:
    with open_database(store_url):
        with pytest.raises(AlreadyServed, match="another controller"):
            open_database(store_url)
        with pytest.raises(AlreadyServed, match="another controller"):
            migrate(store_url)
    open_database(store_url).close()


def test_an_sqlite_file_has_one_lock_under_all_its_names(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "store.db")
    with open_database(str(tmp_path / "store.db")), pytest.raises(AlreadyServed, match="another controller"):
        open_database(str(tmp_path / "link.db"))
    with open_database(str(tmp_path / "link.db")), pytest.raises(AlreadyServed, match="another controller"):
        open_database(str(tmp_path / "store.db"))


@pytest.mark.parametrize("served", ["store.db", "link.db"])
def test_the_log_beside_the_real_file_is_watched_under_all_its_names(tmp_path: Path, served: str) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "store.db")
    with open_database(str(tmp_path / served)) as database:
        assert database.files
        database.files.check()
        (tmp_path / "store.db-wal").unlink()
        with pytest.raises(StoreMoved):
            database.files.check()


def test_a_database_that_is_not_there_is_named_without_its_password(postgres: Any) -> None:
    with pytest.raises(StoreAway, match=r"nowhere.* cannot be opened .*does not exist") as raised:
        open_database(f"postgresql://strandline:secret@127.0.0.1:{postgres.port}/nowhere")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["mysql://localhost/x", "sqlite://", "sqlite:///:memory:", "://", "postgresql://localhost", "postgres://h/x"]
)
def test_a_database_that_is_not_supported_is_refused(url: str) -> None:
    with pytest.raises(BadDatabaseUrl):
        open_database(url)


@given(name=st.text(max_size=20), shards=st.integers(1, 4_096))
def test_the_store_and_the_rules_of_the_cluster_agree_on_shards(name: str, shards: int) -> None:
    for kind in Kind:
        assert stored_shard_of(kind, name, shards) == shard_of(kind, name, shards)
    assert set(KINDS.values()) == set(Kind)


# -- while controllers serve -----------------------------------------------------------------------------------------


def test_a_store_of_a_later_version_is_served_until_something_was_removed(store_url: str) -> None:
    open_database(store_url).close()
    change(store_url, "UPDATE alembic_version SET version_num = '0002'")
    open_database(store_url).close()  # steps that only add were taken
    change(store_url, "UPDATE cluster SET code_from = '0002'")
    with pytest.raises(WrongSchema, match="schema is 0002, and this version knows those up to 0001: use a version as"):
        open_database(store_url)


def test_a_controller_that_begins_anew_checks_the_schema_again(postgres_url: str) -> None:
    database, sessions = open_joint(postgres_url)
    change_beside = "UPDATE alembic_version SET version_num = '0002'; UPDATE cluster SET code_from = '0002'"
    with sharing_engine(parse_url(postgres_url)).begin() as beside:
        beside.execute(text(change_beside))
    begin = Begin(1, Identity("one", "http://one", None, "1"), None, True, 0)
    with database, pytest.raises(WrongSchema, match="use a version as new"):
        begin_controller(sessions.beat_connection, begin)
    sessions.close()


def test_only_an_empty_database_is_divided_into_the_shards_asked_for(store_url: str) -> None:
    if "postgresql" not in store_url:
        with pytest.raises(ShardsFixed):
            migrate(store_url, shards=64)
        with pytest.raises(OneController):
            migrate(store_url, MigrationPart.BEFORE)
        return
    assert migrate(store_url, shards=100) == (None, REVISION)
    with connected(store_url) as connection:
        assert connection.execute(select(func.count()).select_from(shard)).scalar_one() == 100
    with pytest.raises(ShardsFixed, match="for an empty PostgreSQL database"):
        migrate(store_url, shards=64)
    open_database(store_url).close()


def test_every_revision_is_one_more_than_the_one_before() -> None:
    assert revisions() == [f"{number:04}" for number in range(1, len(revisions()) + 1)]
    assert revisions()[0] <= LEAST_REVISION <= REVISION
