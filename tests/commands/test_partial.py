"""`strandline overview` and `strandline streams` where the rows of a stream cannot be read."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.served import OwnProcess


def test_an_overview_that_lacks_streams_says_so(tmp_path: Path, strandline: Callable[..., Any]) -> None:
    store = tmp_path / "store.db"
    first = OwnProcess(store)
    for name in ("good", "torn"):
        first.client.put(f"/v1/streams/{name}", json={"segments": 1}).raise_for_status()
    whole = strandline("overview", "--controller", first.url)
    assert first.stop() == 0
    with sqlite3.connect(store) as beside:
        beside.execute("UPDATE stream SET config = '{' WHERE name = 'torn'")

    second = OwnProcess(store)
    try:
        assert second.client.get("/v1/streams/torn").status_code == 500  # lists load nothing: a call has to find it
        told = [strandline(command, "--controller", second.url) for command in ("overview", "streams")]
        as_json = json.loads(strandline("overview", "--json", "--controller", second.url).out)
    finally:
        second.stop()

    assert "in trouble" not in whole.out.splitlines()[-1]
    for each in told:
        assert each.code == 1 and each.err.endswith("more may be in trouble\n"), each
        assert "no stream yet" not in each.out
    assert as_json["partial"] is True
