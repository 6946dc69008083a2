"""What the commands that work on a store itself share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from controller.cli.options import needs, option
from controller.settings import DATABASE_DEFAULT
from controller.storage.refusals import StoreRefused
from controller.terminal import Failure

database_option = option(
    "--database",
    default=DATABASE_DEFAULT,
    metavar="URL",
    help="the store: a path, sqlite:///path, or postgresql://user@host/name",
)


@contextmanager
def store_failures(status: int = 1) -> Iterator[None]:
    """Raises Failure with this exit status for a store that cannot be used, and where its packages are missing."""
    with needs("controller", status):
        try:
            yield
        except StoreRefused as refused:
            raise Failure(str(refused), status) from None
