"""The migrations and the models say the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Engine, inspect, text

from controller.storage import upgrade
from controller.storage.database import (
    AlreadyServed,
    BadDatabaseUrl,
    connectable,
    migrate,
    open_database,
    parse_url,
)
from controller.storage.schema import metadata
from controller.storage.upgrade import WrongSchema


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "store.db")


@pytest.fixture
def engine(path: str) -> Iterator[Engine]:
    engine = connectable(parse_url(path))
    yield engine
    engine.dispose()


def test_upgrading_an_empty_database_gives_what_the_models_have(engine: Engine) -> None:
    with engine.begin() as connection:
        upgrade.upgrade(connection)
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []
        names = set(inspect(connection).get_table_names())
        assert names == {*metadata.tables, "alembic_version"} and "mark" in names


def test_upgrading_is_the_same_as_creating_the_models_down_to_each_column(engine: Engine, tmp_path: Path) -> None:
    made = connectable(parse_url(str(tmp_path / "made.db")))
    with made.begin() as connection:
        metadata.create_all(connection)
    with engine.begin() as connection:
        upgrade.upgrade(connection)

    def columns(of: Engine) -> dict[str, object]:
        with of.connect() as connection:
            query = "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%'"
            tables = {row.name: row.wr for row in connection.execute(text(query)) if row.name != "alembic_version"}
            return {
                name: (without, connection.execute(text(f"PRAGMA table_info('{name}')")).all())
                for name, without in tables.items()
            }

    assert columns(engine) == columns(made)
    made.dispose()


def test_a_step_down_and_up_again_gives_the_same(engine: Engine) -> None:
    with engine.begin() as connection:
        upgrade.upgrade(connection)
        command.downgrade(upgrade.configuration(connection), "base")
        assert set(inspect(connection).get_table_names()) == {"alembic_version"}
        upgrade.upgrade(connection)
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_a_fresh_file_gets_the_schema_when_it_is_opened(path: str) -> None:
    open_database(path).close()

    assert migrate(path) == (upgrade.newest_revision(), upgrade.newest_revision())


def test_migrating_a_fresh_file_makes_the_schema(path: str) -> None:
    assert migrate(path) == (None, upgrade.newest_revision())


def test_a_store_of_another_version_is_refused_with_the_command_to_run(engine: Engine, path: str) -> None:
    open_database(path).close()
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0000'"))

    with pytest.raises(WrongSchema, match=r"schema is 0000.*`strandline migrate`"):
        open_database(path)


def test_a_file_with_other_tables_is_refused(engine: Engine, path: str) -> None:
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE mine (id INTEGER)"))

    with pytest.raises(WrongSchema):
        open_database(path)


def test_only_one_controller_serves_a_file(path: str) -> None:
    with open_database(path), pytest.raises(AlreadyServed, match="another controller"):
        open_database(path)
    open_database(path).close()


@pytest.mark.parametrize("url", ["mysql://localhost/x", "sqlite://", "sqlite:///:memory:", "://"])
def test_a_database_that_is_not_supported_is_refused(url: str) -> None:
    with pytest.raises(BadDatabaseUrl):
        open_database(url)
