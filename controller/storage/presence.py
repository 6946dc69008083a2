"""Which controllers serve a store: each renews a row once a second. Nothing depends on it but what operators see.

The row of one that ended in order says so for an hour. One that was killed is away until another one begins, which
takes its place, or for a day: so it is seen that one is missing, but not for ever after a restart under another name.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, inspect, not_, or_, select, update

from controller.storage import schema
from controller.storage.heads import Service, serve
from controller.storage.kinds import kind_of
from controller.storage.refusals import AlreadyServed
from strandline.wire.controllers import ControllerState

GONE_MS: Final = 86_400_000  # a controller that was not seen for so long is not listed any more
ENDED_MS: Final = 3_600_000  # nor one that ended in order, after this
PRESENT_MS: Final = 5_000  # one that was seen this recently is there

_controller = schema.controller.c


class SeenController(NamedTuple):
    """A controller, when it began to serve and was seen last, and whether it ended then."""

    name: str
    version: str
    since: int
    seen_at: int
    ended: bool

    def state(self, now: int) -> ControllerState:
        if self.ended:
            return ControllerState.ENDED
        return ControllerState.SERVING if now - self.seen_at <= PRESENT_MS else ControllerState.AWAY


class Presence:
    """The row of one controller."""

    def __init__(self, name: str, version: str, now: Callable[[], int] | None) -> None:
        """`now` is the host's clock where the store has none."""
        self._id = secrets.token_hex(8)
        self._values = {"id": self._id, "name": name, "version": version}
        self._now = now
        self._by_hand = False
        self._since: int | None = None  # when it began to serve
        self._replaces = True  # another one, if one is away

    def begin(self, now: Callable[[], int], *, by_hand: bool) -> None:
        """From now on this is the clock: the controller's, which goes on if that of the store is set back. It may be
        moved by hand: then no time is unserved."""
        self._now, self._by_hand = now, by_hand

    def serve(self, connection: Connection) -> Service:
        """Records that somebody serves the store, and that this controller is there."""
        service = serve(connection, None if self._now is None else self._now(), by_hand=self._by_hand)
        now = service.served_until
        self._since = now if self._since is None else self._since
        with connection.begin():
            seen = {"seen_at": now, "ended": False}
            found = connection.execute(update(schema.controller).where(_controller.id == self._id).values(seen))
            if not found.rowcount:
                connection.execute(delete(schema.controller).where(_is_old(now)))
                connection.execute(insert(schema.controller).values(**self._values, since=self._since, **seen))
            if self._replaces:
                self._replaces = not self._replace(connection, now) and now - self._since <= 2 * PRESENT_MS
        return service

    def _replace(self, connection: Connection, now: int) -> bool:
        """Takes the place of one controller that went away before this one began: of one of the same host, or of the
        one that did so first. Returns whether there is one; one that was killed a moment ago is not away yet."""
        went = and_(_controller.seen_at < self._since, _controller.seen_at < now - PRESENT_MS, not_(_controller.ended))
        away = connection.execute(select(_controller.id, _controller.name).where(went).order_by(_controller.seen_at))
        host = _host(self._values["name"])
        found = min(away, key=lambda row: _host(row.name) != host, default=None)
        return (
            found is not None
            and connection.execute(delete(schema.controller).where(_controller.id == found.id)).rowcount > 0
        )

    def leave(self, connection: Connection) -> None:
        """Records that this controller ends in order."""
        with connection.begin():
            connection.execute(update(schema.controller).where(_controller.id == self._id).values(ended=True))


def _host(name: str) -> str:
    return name.rpartition(":")[0]


def _is_old(now: int) -> ColumnElement[bool]:
    """Whether a row is not listed any more."""
    ended = and_(_controller.ended, _controller.seen_at < now - ENDED_MS)
    return or_(ended, _controller.seen_at < now - GONE_MS)


def present_controllers(connection: Connection, now: int) -> Sequence[SeenController]:
    """All controllers that were seen lately, those first that began first."""
    query = select(*[_controller[name] for name in SeenController._fields]).where(not_(_is_old(now)))
    with connection.begin():
        rows = connection.execute(query.order_by(_controller.since, _controller.id)).all()
    return [SeenController(*row) for row in rows]


def check_nobody_serves(connection: Connection, store: str) -> None:
    """Raises AlreadyServed if a controller was seen a moment ago. Where one controller locks the store, nobody can be
    there."""
    kind = kind_of(connection)
    if kind.serves_many and inspect(connection).has_table(schema.controller.name):
        seen = select(_controller.id).where(_controller.seen_at > kind.now - PRESENT_MS, ~_controller.ended).limit(1)
        if connection.execute(seen).first() is not None:
            raise AlreadyServed(store=store)
