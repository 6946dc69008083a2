"""Examples for the page of the HTTP API: real calls to a controller whose clock is moved by hand."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

from controller.http.routes import ROUTES
from strandline.testing import NOON, InProcessController
from tools.reference.text import json_block, laid_out

STREAM: Final = "/v1/streams/orders"
GROUP: Final = "/v1/reader-groups/billing"
READER: Final = f"{GROUP}/readers/worker-1"
TIME: Final = NOON - 60_000  # of the first events
FLUSH: Final = "what is about to be written to the store gets there"
UNSHOWN: Final = "unshown"

# Calls in their order, with the body, and what the example is about.
CALLS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("GET /healthz", None, ""),
    ("GET /readyz", None, ""),
    (f"PUT {STREAM}", {"segments": 2, "mark_interval_ms": 0}, ""),
    (f"PUT {STREAM}/writers/till-1", {"registration": "first-run-of-till-1"}, ""),
    (f"PUT {STREAM}/writers/till-2", None, UNSHOWN),
    (
        f"POST {STREAM}/notes",
        {"writer": "till-1", "time": TIME, "position": {"0": 120}, "epoch": 1},
        "a note, while another writer holds time back",
    ),
    (
        f"POST {STREAM}/notes",
        {"writer": "till-2", "time": TIME + 2_000, "position": {"1": 80}, "newest": TIME + 1_500},
        "a note that brings a mark about",
    ),
    (
        f"POST {STREAM}/notes",
        {
            "notes": [
                {"writer": "till-1", "time": TIME + 5_000, "position": {"0": 150}},
                {"writer": "till-2", "time": TIME, "position": {"1": 90}},
            ]
        },
        "many notes, of which one is refused",
    ),
    ("PUT /v1/streams/parcels", {"segments": 1, "mark_interval_ms": 0}, UNSHOWN),
    ("PUT /v1/streams/parcels/writers/depot", {"keys": ["packed", "sent"]}, UNSHOWN),
    (
        "POST /v1/streams/parcels/notes",
        {"writer": "depot", "times": {"packed": TIME, "sent": TIME - 9_000}, "position": {"0": 7}},
        "a note with times by key",
    ),
    (
        "POST /v1/notes",
        {"notes": [{"stream": "orders", "writer": "till-1", "time": TIME + 8_000, "position": {"0": 160}}]},
        "",
    ),
    ("PUT /v1/streams/clicks", {"segments": 1, "time_domain": "ingestion", "mark_interval_ms": 0}, UNSHOWN),
    ("POST /v1/streams/clicks/tail", {"reporter": "tail-1", "time": NOON, "position": {"0": 40}}, ""),
    ("GET /v1/streams?limit=2", None, ""),
    (FLUSH, None, ""),
    ("GET /v1/status?stream=orders", None, ""),
    ("GET /v1/controllers", None, ""),
    (f"GET {STREAM}", None, ""),
    (f"GET {STREAM}/writers", None, ""),
    (f"GET {STREAM}/marks?after=0&limit=2", None, ""),
    (f"GET {STREAM}/marks/at?time={TIME + 1_000}", None, ""),
    (f"POST {STREAM}/marks", {"key": ""}, ""),
    (f"POST {STREAM}/time-window", {"position": {"0": 150, "1": 80}}, ""),
    (f"GET {STREAM}/segments/0/time-index?limit=2", None, ""),
    (FLUSH, None, ""),
    (f"GET {STREAM}/journal?limit=2", None, ""),
    (f"PUT {GROUP}", {"streams": ["orders"], "backlog_threshold_ms": 300_000}, ""),
    ("GET /v1/reader-groups", None, ""),
    (f"PUT {READER}", {"positions": {}}, "register"),
    (f"POST {READER}/acquire", {"epoch": 1, "max": 2}, ""),
    (f"PUT {READER}", {"epoch": 1, "positions": {"orders": {"0": 150, "1": 80}}}, "report"),
    (f"GET {GROUP}", None, ""),
    (f"GET {GROUP}/time-window", None, ""),
    (f"GET {GROUP}/lag", None, ""),
    (f"POST {READER}/release", {"epoch": 1, "positions": {"orders": {"0": 160}}}, ""),
    (f"POST {READER}/offline", {"positions": {"orders": {"1": 70}}}, ""),
    (f"GET {STREAM}/writers/till-2/times-without", None, ""),
    (f"POST {STREAM}/writers/till-2/exclude", None, ""),
    (f"DELETE {STREAM}/writers/till-2/exclude", None, ""),
    (f"DELETE {STREAM}/writers/till-2?epoch=2", None, ""),
    (f"PATCH {STREAM}", {"writer_timeout_ms": 30_000}, UNSHOWN),
    (f"POST {STREAM}/scale", {"seal": {"0": 160, "1": 80}, "create": [{"id": "2", "low": 0.0, "high": 1.0}]}, ""),
    (f"POST {STREAM}/truncate", {"head": {"0": 120}}, ""),
    (f"POST {STREAM}/seal", {"final": {"2": 5}}, ""),
    (f"GET {STREAM}/marks/live?after=2", None, ""),
)


def examples() -> Mapping[str, list[str]]:
    """What is shown of each route: what was sent, and what was answered."""
    routes = {re.compile(re.sub(r"{\w+}", "[^/]+", each.call)): each.call for each in ROUTES}
    shown = defaultdict[str, list[str]](list)
    identities: dict[str, str] = {}  # in place of those that are drawn
    with InProcessController() as controller:
        for line, body, about in CALLS:
            if line is FLUSH:
                controller.portal.call(controller.app.state.controller.run_due)
                continue
            controller.clock.now += 1_000
            answer = controller.request(*line.split(" "), **({} if body is None else {"json": body}))
            assert answer.is_success, f"{line}: {answer.text}"
            if about is not UNSHOWN:
                (route,) = (call for shape, call in routes.items() if shape.fullmatch(line.partition("?")[0]))
                title = f"For example, {about}:" if about else "For example:"
                asked = "" if body is None else f"{json_block(body)}\n\nis answered with\n\n"
                shown[route].append(f"{title}\n\n{asked}```json\n{_settled(answer.text, identities)}\n```")
    return shown


def _settled(text: str, identities: dict[str, str]) -> str:
    """An answer with what is the same in each run: segments in their order, and identities by their number."""
    write = laid_out if text.startswith("{") else json.dumps
    text = re.sub("{.*}", lambda found: write(json.loads(found[0], object_pairs_hook=_sorted)), text.rstrip())
    return re.sub(
        r"\b[0-9a-f]{16}\b", lambda found: identities.setdefault(found[0], f"{len(identities) + 1:016x}"), text
    )


def _sorted(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(sorted(pairs) if all(name.isdecimal() for name, _ in pairs) else pairs)
