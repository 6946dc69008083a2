"""Where a call was kept, or part of it, its caller is not told that nothing was changed.

Tables that are away, and triggers that refuse rows, make a store fail at the very step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from controller.storage.load import LOADED_MARKS

pytestmark = pytest.mark.usefixtures("store_url")


CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
MARKS = LOADED_MARKS + 5


def note(stream: str, time: int) -> dict[str, Any]:
    return {"stream": stream, "writer": "a", "time": time, "position": {"0": time}}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/v1/reader-groups/g/readers/r", {"positions": {"s": {"0": 2}}}),
        ("POST", "/v1/streams/s/truncate", {"head": {"0": 2}}),
    ],
)
def test_a_stored_unanswered_call_does_not_claim_nothing_changed(
    start: Callable[..., Any], beside: Callable[..., None], method: str, path: str, body: Any
) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.call("POST", "/v1/notes", {"notes": [note("s", time) for time in range(1, MARKS)]})
    controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
    controller = start()
    for loaded in ("/v1/streams/s", "/v1/reader-groups/g"):  # of the marks the newest; the answer needs an older one
        controller.call("GET", loaded)

    beside("ALTER TABLE mark RENAME TO mark_away")
    problem = controller.call(method, path, body, expect=504)

    assert problem["code"] == "store_undecided" and "nothing was changed" not in problem["detail"]
    beside("ALTER TABLE mark_away RENAME TO mark")
    if method == "PUT":
        (reader,) = controller.call("GET", "/v1/reader-groups/g")["readers"]
        assert reader["owned"] == body["positions"]
    else:
        assert controller.call("GET", "/v1/streams/s")["head"] == body["head"]
