"""An example of each answer of the HTTP API, taken from real calls to a controller whose clock is moved by hand.

They stand in `controller/http/examples.json`, which `make reference` writes. OpenAPI and docs/reference/http.md show
them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

from controller.http.routes import ROUTES
from strandline.testing import NOON, InProcessController

FILE: Final = Path(__file__).resolve().parents[2] / "controller" / "http" / "examples.json"
STREAM: Final = "/v1/streams/orders"
GROUP: Final = "/v1/reader-groups/billing"
READER: Final = f"{GROUP}/readers/worker-1"
TIME: Final = NOON - 60_000  # of the first events

_PARAMETER: Final = re.compile(r"{\w+}")

Examples = dict[str, list[dict[str, Any]]]


def examples() -> str:
    """The examples as the file has them."""
    return json.dumps(collected(), indent=1) + "\n"


def collected() -> Examples:
    """By route, the calls that were made: the example's name, the body that was sent, the status and the answer."""
    with InProcessController() as controller:
        caller = _Caller(controller)
        _write(caller)
        _read(caller)
        _group(caller)
        _administer(caller)
    return dict(sorted(caller.found.items()))


class _Caller:
    """Makes calls, and keeps those that have a name."""

    def __init__(self, controller: InProcessController) -> None:
        self.controller = controller
        self.found: Examples = {}
        self._identities: dict[str, str] = {}  # of streams, as the examples have them
        self._routes = {re.compile(_PARAMETER.sub("[^/]+", each.call)): each for each in ROUTES}

    def __call__(self, call: str, body: object = None, name: str | None = "example") -> None:
        method, path = call.split(" ")
        self.controller.clock.now += 1_000
        answer = self.controller.request(method, path, **({} if body is None else {"json": body}))
        assert answer.is_success, f"{call}: {answer.text}"
        if name is None:
            return
        (route,) = [each for shape, each in self._routes.items() if shape.fullmatch(call.partition("?")[0])]
        example: dict[str, Any] = {"name": name, "call": call}
        if body is not None:
            example["body"] = body
        shown = self._named(_in_order(answer.json())) if route.answers else _events_in_order(answer.text)
        self.found.setdefault(route.call, []).append({**example, "status": answer.status_code, "answer": shown})

    def _named(self, answer: Any) -> Any:
        """The same with identities that do not change from run to run."""
        if isinstance(answer, dict):
            made = {name: self._named(each) for name, each in answer.items()}
            if isinstance(found := made.get("identity"), str):
                made["identity"] = self._identities.setdefault(found, f"{len(self._identities) + 1:016x}")
            if isinstance(found := made.get("life"), str):
                identity, _, number = found.partition("-")
                made["life"] = f"{self._identities.setdefault(identity, f'{len(self._identities) + 1:016x}')}-{number}"
            return made
        return [self._named(each) for each in answer] if isinstance(answer, list) else answer

    def committed(self) -> None:
        """What is about to be written to the store is there."""
        self.controller.portal.call(self.controller.app.state.controller.run_due)


def _in_order(answer: Any) -> Any:
    """The same with segments in their order, which is not always that of the answer."""
    if isinstance(answer, dict):
        names = sorted(answer, key=int) if all(map(str.isdecimal, answer)) else answer
        return {name: _in_order(answer[name]) for name in names}
    return [_in_order(each) for each in answer] if isinstance(answer, list) else answer


def _events_in_order(text: str) -> str:
    """The same for server-sent events."""
    head = "data: "
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.startswith(head):
            data = _in_order(json.loads(line.removeprefix(head)))
            lines[number] = head + json.dumps(data, separators=(",", ":"))
    return "\n".join(lines)


def _write(call: _Caller) -> None:
    call("GET /healthz")
    call("GET /readyz")
    settings = {"segments": 2, "mark_interval_ms": 0}
    call(f"PUT {STREAM}", settings, "new")
    call(f"PUT {STREAM}", settings, "there already")
    call(f"PUT {STREAM}/writers/till-1", {"registration": "first-run-of-till-1"})
    call(f"PUT {STREAM}/writers/till-2", name=None)
    note = {"writer": "till-1", "time": TIME, "position": {"0": 120}, "epoch": 1}
    call(f"POST {STREAM}/notes", note, "a note, while another writer holds time back")
    note = {"writer": "till-2", "time": TIME + 2_000, "position": {"1": 80}, "newest": TIME + 1_500}
    call(f"POST {STREAM}/notes", note, "a note that brings a mark about")
    notes = [
        {"writer": "till-1", "time": TIME + 5_000, "position": {"0": 150}},
        {"writer": "till-2", "time": TIME, "position": {"1": 90}},
    ]
    call(f"POST {STREAM}/notes", {"notes": notes}, "many notes, of which one is refused")
    call("PUT /v1/streams/parcels", {"segments": 1, "mark_interval_ms": 0}, None)
    call("PUT /v1/streams/parcels/writers/depot", {"keys": ["packed", "sent"]}, None)
    keyed = {"writer": "depot", "times": {"packed": TIME, "sent": TIME - 9_000}, "position": {"0": 7}}
    call("POST /v1/streams/parcels/notes", keyed, "a note with times by key")
    notes = [
        {"stream": "orders", "writer": "till-1", "time": TIME + 8_000, "position": {"0": 160}},
        {"stream": "parcels", "writer": "depot", "times": {"packed": TIME + 1, "sent": TIME}, "position": {"0": 9}},
    ]
    call("POST /v1/notes", {"notes": notes})
    call("PUT /v1/streams/clicks", {"segments": 1, "time_domain": "ingestion", "mark_interval_ms": 0}, None)
    reported = {"reporter": "tail-1", "time": call.controller.clock.now, "position": {"0": 40}}
    call("POST /v1/streams/clicks/tail", reported)


def _read(call: _Caller) -> None:
    call("GET /v1/streams?limit=2")
    call.committed()
    call("GET /v1/status?stream=orders")
    call("GET /v1/controllers")
    call(f"GET {STREAM}")
    call(f"GET {STREAM}/writers")
    call(f"GET {STREAM}/marks?after=0&limit=2")
    call(f"GET {STREAM}/marks/at?time={TIME + 1_000}")
    call(f"POST {STREAM}/marks", {"key": ""})
    call(f"POST {STREAM}/time-window", {"position": {"0": 150, "1": 80}})
    call(f"GET {STREAM}/segments/0/time-index?limit=2")
    call.committed()
    call(f"GET {STREAM}/journal?limit=2")
    call("GET /v1/journal?topic=registration&search=till&limit=2")


def _group(call: _Caller) -> None:
    call(f"PUT {GROUP}", {"streams": ["orders"], "backlog_threshold_ms": 300_000}, "new")
    call(f"PUT {GROUP}", {"streams": ["orders"], "backlog_threshold_ms": 300_000}, "there already")
    call("GET /v1/reader-groups")
    call(f"PUT {READER}", {"positions": {}}, "register")
    call(f"POST {READER}/acquire", {"epoch": 1, "max": 2})
    call(f"PUT {READER}", {"epoch": 1, "positions": {"orders": {"0": 150, "1": 80}}}, "report")
    call(f"GET {GROUP}")
    call(f"PATCH {GROUP}", {"reader_timeout_ms": 60_000})
    call(f"GET {GROUP}/time-window")
    call(f"GET {GROUP}/lag")
    call(f"POST {READER}/release", {"epoch": 1, "positions": {"orders": {"0": 160}}})
    call(f"POST {READER}/offline", {"positions": {"orders": {"1": 70}}})
    call.committed()
    call(f"GET {GROUP}/journal?limit=2")
    call(f"DELETE {GROUP}", name=None)


def _administer(call: _Caller) -> None:
    call(f"GET {STREAM}/writers/till-2/times-without")
    call(f"POST {STREAM}/writers/till-2/exclude")
    call(f"DELETE {STREAM}/writers/till-2/exclude")
    call(f"POST {STREAM}/writers/till-2/idle?epoch=2")
    call(f"DELETE {STREAM}/writers/till-2?epoch=2")
    call(f"PATCH {STREAM}", {"writer_timeout_ms": 30_000})
    call(f"POST {STREAM}/scale", {"seal": {"0": 160, "1": 80}, "create": [{"id": "2", "low": 0.0, "high": 1.0}]})
    call(f"POST {STREAM}/truncate", {"head": {"0": 120}})
    call(f"POST {STREAM}/seal", {"final": {"2": 5}})
    call(f"GET {STREAM}/marks/live?after=2")
