"""Which stream or reader group a call is about, by the declared routes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

from starlette.types import Scope

from controller.cluster.records import Kind
from controller.http.declared import DeclaredRoute
from controller.http.responses import EVENTS
from strandline.limits import WAIT_BOUND_MS
from strandline.names import is_name

_PARAMETERS: Final = {f"{{{kind}}}": kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class Subject:
    """A stream or a reader group."""

    kind: Kind
    name: str

    @property
    def named(self) -> dict[str, str]:
        """As the fields of an error."""
        return {str(self.kind): self.name}


class Subjects:
    """Finds the subject of a path. Everything below the path of a stream or a group is about it."""

    def __init__(self, routes: Iterable[DeclaredRoute]) -> None:
        self._kinds: dict[str, Kind] = {}  # by what stands before the name
        self._methods: set[str] = set()
        self._endless: set[str] = set()  # what stands behind the name where the answer has no end
        for route in routes:
            self._methods.add(route.method)
            for parameter, kind in _PARAMETERS.items():
                before, found, behind = route.path.partition(parameter)
                if found:
                    self._kinds[before] = kind
                    if route.media_type == EVENTS.decode():
                        self._endless.add(behind)

    def of(self, method: str, path: str) -> Subject | None:
        """None for a call that is about no stream or group, has no valid name, or uses a method that no route has: any
        controller can answer it."""
        if method not in self._methods:
            return None
        for before, kind in self._kinds.items():
            if path.startswith(before):
                name = path[len(before) :].partition("/")[0]
                return Subject(kind, name) if is_name(name) else None
        return None

    def wait_ms(self, scope: Scope) -> int | None:
        """How long the answer to a call may be waited for on purpose; None for a call that does not wait."""
        if any(scope["path"].endswith(behind) for behind in self._endless):
            return WAIT_BOUND_MS
        asked = parse_qs(scope["query_string"]).get(b"wait_ms")
        if asked is None:
            return None
        return min(int(asked[0]), WAIT_BOUND_MS) if asked[0].isdigit() and len(asked[0]) < 10 else 0
