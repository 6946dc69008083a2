"""The routes of the API, by what they are about."""

from collections.abc import Iterable
from typing import Final

from controller.http.declared import DeclaredRoute, Routes
from controller.http.notes import DECLARED as NOTE_ROUTES
from controller.http.routes import (
    controllers,
    groups,
    joint_status,
    journals,
    mark_events,
    marks,
    operations,
    status,
    stream_views,
    streams,
    writers,
)

# They are searched in this order.
ROUTERS: Final = tuple(
    each.router
    for each in (
        marks,
        streams,
        writers,
        mark_events,
        journals,
        groups,
        status,
        controllers,
        operations,
        stream_views,
        joint_status,
    )
)


def declared_by(routers: Iterable[Routes] = ROUTERS) -> list[DeclaredRoute]:
    """All declared routes: those of the routers, and notes, which are answered before any router."""
    return [*NOTE_ROUTES, *(route for each in routers for route in each.declared)]
