"""Every route × role × pattern: who may call what. The routes are the application's own, so that none is forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from starlette.routing import Route

from controller.app import create_app
from controller.http.routes import ROUTES
from controller.settings import Settings
from tests.served import NOON

OPEN = {"/docs", "/openapi.json", *(each.path for each in ROUTES if each.permission is None)}
STREAM, GROUP = "/v1/streams/{stream}", "/v1/reader-groups/{group}"

# What the contract says of each route: the role that it takes, and what of the pattern.
WANTED = {
    **dict.fromkeys(["GET /healthz", "GET /readyz"], ("nobody", "")),
    "GET /v1/streams": ("reader", "any"),
    "GET /v1/reader-groups": ("reader", "any"),
    "GET /v1/status": ("reader", "any"),
    "POST /v1/notes": ("writer", "any"),
    f"POST {STREAM}/notes": ("writer", "stream"),
    f"POST {STREAM}/tail": ("writer", "stream"),
    f"PUT {STREAM}/writers/{{writer}}": ("writer", "stream"),
    f"POST {STREAM}/writers/{{writer}}/idle": ("writer", "stream"),
    f"DELETE {STREAM}/writers/{{writer}}": ("writer", "stream"),
    f"GET {STREAM}": ("reader", "stream"),
    f"GET {STREAM}/journal": ("reader", "stream"),
    f"GET {STREAM}/writers": ("reader", "stream"),
    f"GET {STREAM}/marks": ("reader", "stream"),
    f"POST {STREAM}/marks": ("reader", "stream"),
    f"GET {STREAM}/marks/at": ("reader", "stream"),
    f"GET {STREAM}/marks/live": ("reader", "stream"),
    f"POST {STREAM}/time-window": ("reader", "stream"),
    f"GET {STREAM}/segments/{{segment}}/time-index": ("reader", "stream"),
    f"PUT {STREAM}": ("admin", "stream"),
    f"PATCH {STREAM}": ("admin", "stream"),
    f"DELETE {STREAM}": ("admin", "stream"),
    f"POST {STREAM}/scale": ("admin", "stream"),
    f"POST {STREAM}/seal": ("admin", "stream"),
    f"POST {STREAM}/truncate": ("admin", "stream"),
    f"DELETE {STREAM}/segments/{{segment}}": ("admin", "stream"),
    f"POST {STREAM}/writers/{{writer}}/exclude": ("admin", "stream"),
    f"DELETE {STREAM}/writers/{{writer}}/exclude": ("admin", "stream"),
    f"PUT {GROUP}": ("reader", "group"),
    f"GET {GROUP}": ("reader", "group"),
    f"PATCH {GROUP}": ("reader", "group"),
    f"DELETE {GROUP}": ("reader", "group"),
    f"GET {GROUP}/journal": ("reader", "group"),
    f"GET {GROUP}/time-window": ("reader", "group"),
    f"GET {GROUP}/lag": ("reader", "group"),
    f"PUT {GROUP}/readers/{{reader}}": ("reader", "group"),
    f"POST {GROUP}/readers/{{reader}}/acquire": ("reader", "group"),
    f"POST {GROUP}/readers/{{reader}}/release": ("reader", "group"),
    f"POST {GROUP}/readers/{{reader}}/offline": ("reader", "group"),
    f"GET {STREAM}/writers/{{writer}}/times-without": ("reader", "stream"),
    "GET /metrics": ("reader", "every"),
    "GET /v1/controllers": ("reader", "every"),
}
ROLES = ("writer", "reader", "admin")
# Patterns, and whether each fits the stream in the paths, all streams of the group there, and every stream.
PATTERNS = {
    "*": {"stream": True, "group": True, "every": True},
    "orders-*": {"stream": True, "group": True, "every": False},
    "*-eu": {"stream": True, "group": False, "every": False},
    "orders-eu": {"stream": True, "group": False, "every": False},
    "orders": {"stream": False, "group": False, "every": False},
}
NAMES = {
    "{stream}": "orders-eu",
    "{group}": "both",
    "{writer}": "w",
    "{segment}": "0",
    "{reader}": "r",
    "{controller}": "c",
}
BOTH = {"streams": ["orders-eu", "orders-us"]}


class Callers(NamedTuple):
    keyed: Any
    admin: str
    by_role: dict[tuple[str, str], str]
    strangers: dict[str, str | None]


def routes_of(document: Any) -> set[str]:
    return {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}


def path_of(route: str) -> str:
    path = route.partition(" ")[2]
    for parameter, name in NAMES.items():
        path = path.replace(parameter, name)
    return f"{path}?after=none" if path.endswith("/live") else path  # which it refuses; else it would go on without end


@pytest.fixture(scope="module")
def callers(shared: Any) -> Iterator[Callers]:
    admin = shared.make("admin")
    for stream in BOTH["streams"]:
        shared.call(admin, "PUT", f"/v1/streams/{stream}", {"segments": 1})
    tokens = {(role, pattern): shared.make(role, pattern) for role in ROLES for pattern in PATTERNS}
    revoked = shared.make("admin")
    shared.revoke(revoked)
    strangers = {
        "nobody": None,
        "unknown": "slt_" + "x" * 43,
        "revoked": revoked,
        "expired": shared.make("admin", expires_at=NOON),
        "of a name": shared.names[admin],
    }
    yield Callers(shared, admin, tokens, strangers)


def test_the_walk_knows_every_route_of_the_application(tmp_path: Path) -> None:
    app = create_app(Settings(database=str(tmp_path / "store.db")))
    documented = routes_of(app.openapi())

    assert documented == WANTED.keys()
    served = {each.path for each in app.routes if isinstance(each, Route)}
    assert served - {route.partition(" ")[2] for route in documented} <= OPEN  # what the document leaves out


@pytest.mark.parametrize("route", WANTED)
def test_who_may_call(callers: Callers, route: str) -> None:
    role, about = WANTED[route]
    method, path = route.partition(" ")[0], path_of(route)
    body: Any = BOTH if route == f"PUT {GROUP}" else {} if method in ("PUT", "POST", "PATCH") else None
    may = {}
    for (own, pattern), token in callers.by_role.items():
        if about == "group":
            callers.keyed.call(callers.admin, "PUT", "/v1/reader-groups/both", BOTH)
        # A stream that is deleted or sealed stays named like that, and that is all that the pattern goes by.
        answer = callers.keyed.ask(token, method, path, body)
        assert answer.status_code not in (401, 500), answer.text
        may[own, pattern] = answer.status_code != 403
        if answer.status_code == 403:
            assert answer.json()["code"] == "forbidden" and answer.json()["needs"] == role, answer.text
        if route == f"DELETE {STREAM}" and may[own, pattern]:
            callers.keyed.call(callers.admin, "PUT", path, {"segments": 1})
    fitting = {
        (own, pattern): role == "nobody" or (own in (role, "admin") and (about == "any" or fits[about]))
        for own in ROLES
        for pattern, fits in PATTERNS.items()
    }
    assert may == fitting


@pytest.mark.parametrize("route", WANTED)
def test_without_a_token_that_holds_nobody_may(callers: Callers, route: str) -> None:
    for who, token in callers.strangers.items():
        answer = callers.keyed.ask(token, route.partition(" ")[0], path_of(route))
        if WANTED[route][0] == "nobody":
            assert answer.status_code == 200
            continue
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), f"{who}: {answer.text}"
        error = "" if token is None else ', error="invalid_token"'
        assert answer.headers["www-authenticate"] == f'Bearer realm="strandline"{error}'
        assert answer.headers["content-type"] == "application/problem+json" and "strandline-time" in answer.headers


@pytest.mark.parametrize("path", sorted(OPEN))
def test_what_is_open_says_nothing_of_anybodys_streams(callers: Callers, path: str) -> None:
    answer = callers.keyed.ask(None, "GET", path)
    assert answer.status_code == 200 and "orders-eu" not in answer.text
