"""A database of PostgreSQL that a test is done with is emptied and given to another one, which notices nothing."""

from controller.storage.database import open_database
from tests.postgres import Postgres

RELATIONS = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"


def number_of(postgres: Postgres, url: str) -> object:
    """By which the server knows a database, whatever its name is."""
    return postgres.execute("SELECT oid FROM pg_database WHERE datname = current_database()", url)


def test_a_database_that_was_given_back_is_given_again_and_is_empty(postgres: Postgres) -> None:
    first = postgres.new_database()
    number = number_of(postgres, first)
    postgres.execute(f"ALTER DATABASE {first.rpartition('/')[2]} SET synchronous_commit = off", first)
    open_database(first).close()
    assert postgres.execute(RELATIONS, first)

    postgres.give_back(first)
    second = postgres.new_database()

    assert number_of(postgres, second) == number
    assert postgres.execute(RELATIONS, second) == []
    assert postgres.execute("SHOW synchronous_commit", second) == [("on",)]
    with open_database(second) as database:
        assert database.fresh
    postgres.give_back(second)
