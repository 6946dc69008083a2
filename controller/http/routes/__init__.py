"""The routes of the API, by what they are about."""

from typing import Final

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
from controller.http.shapes import ShapedRoute

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


ROUTES: Final = tuple(route for each in ROUTERS for route in each.routes if isinstance(route, ShapedRoute))
# Their handlers take the request alone, and are served by plain routes in front of the others.
_PLAIN: Final = (notes.note_times, marks.time_window, notes.note_times_in_several_streams)
HOT: Final = tuple(each for handler in _PLAIN for each in ROUTES if each.handler is handler)
