"""Which controllers serve a store: each renews a row once a second. Nothing depends on it but what operators see."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection, delete, insert, inspect, select, update

from controller.storage import schema
from controller.storage.heads import Service, serve
from controller.storage.kinds import kind_of
from controller.storage.refusals import AlreadyServed

GONE_MS: Final = 86_400_000  # a controller that was not seen for so long is not listed any more
PRESENT_MS: Final = 5_000  # one that was seen this recently is there

_controller = schema.controller.c


class SeenController(NamedTuple):
    """A controller, and when it began to serve and was seen last."""

    name: str
    version: str
    since: int
    seen_at: int


class Presence:
    """The row of one controller."""

    def __init__(self, name: str, version: str, now: Callable[[], int] | None) -> None:
        """`now` is the host's clock where the store has none."""
        self._id = secrets.token_hex(8)
        self._values = {"id": self._id, "name": name, "version": version}
        self._now = now
        self._by_hand = False

    def begin(self, now: Callable[[], int], *, by_hand: bool) -> None:
        """From now on this is the clock: the controller's, which goes on if that of the store is set back. It may be
        moved by hand: then no time is unserved."""
        self._now, self._by_hand = now, by_hand

    def serve(self, connection: Connection) -> Service:
        """Records that somebody serves the store, and that this controller is there."""
        service = serve(connection, None if self._now is None else self._now(), by_hand=self._by_hand)
        seen = {"seen_at": service.served_until}
        with connection.begin():
            found = connection.execute(update(schema.controller).where(_controller.id == self._id).values(seen))
            if not found.rowcount:
                connection.execute(insert(schema.controller).values(**self._values, since=service.served_until, **seen))
                connection.execute(
                    delete(schema.controller).where(_controller.seen_at < service.served_until - GONE_MS)
                )
        return service

    def leave(self, connection: Connection) -> None:
        with connection.begin():
            connection.execute(delete(schema.controller).where(_controller.id == self._id))


def present_controllers(connection: Connection) -> Sequence[SeenController]:
    """All controllers that were seen lately, those first that began first."""
    columns = [_controller[name] for name in SeenController._fields]
    with connection.begin():
        rows = connection.execute(select(*columns).order_by(_controller.since, _controller.id)).all()
    return [SeenController(*row) for row in rows]


def check_nobody_serves(connection: Connection, store: str) -> None:
    """Raises AlreadyServed if a controller was seen a moment ago. Where one controller locks the store, nobody can be
    there."""
    kind = kind_of(connection)
    if kind.serves_many and inspect(connection).has_table(schema.controller.name):
        seen = select(_controller.id).where(_controller.seen_at > kind.now - PRESENT_MS).limit(1)
        if connection.execute(seen).first() is not None:
            raise AlreadyServed(store=store)
