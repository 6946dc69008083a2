"""The routes of the API, by what they are about."""

from collections.abc import Iterable
from typing import Final

from controller.http.declared import DeclaredRoute, Routes
from controller.http.routes import (
    controllers,
    groups,
    journals,
    mark_events,
    marks,
    notes,
    operations,
    status,
    streams,
    writers,
)

# They are searched in this order.
ROUTERS: Final = tuple(
    each.router
    for each in (
        notes,
        marks,
        streams,
        writers,
        mark_events,
        journals,
        groups,
        status,
        controllers,
        operations,
    )
)


def declared_by(routers: Iterable[Routes] = ROUTERS) -> list[DeclaredRoute]:
    """All declared routes."""
    return [route for each in routers for route in each.declared]
