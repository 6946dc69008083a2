"""Very many streams with ten writers each: a controller starts on them at once, serves them all, and stays small."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from controller.storage.database import open_database
from controller.storage.rows import StreamOrigin
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from tests.storage.loads import made
from tests.storage.writes import write

pytestmark = pytest.mark.full

STREAMS = int(os.environ.get("MANY_STREAMS", "2000"))  # ten thousand in `make soak`
WRITERS = 10
AT_ONCE = 1_000  # streams in a commit, or in a request
NOON = 1_700_000_000_000
START_MIB = 130  # what a controller takes by itself, with some room: 99 when this was written
STREAM_KIB = 36  # and for each stream in use: 33 then, ten thousand of them in 421 MiB


@pytest.fixture
def filled(database: Path) -> Path:
    """A store with that many streams, of which each writer has noted, and which had a mark each."""
    config, origin = (
        StreamConfig(writer_timeout_ms=None, mark_interval_ms=0),
        StreamOrigin("1", NOON, (("0", 0.0, 0.5), ("1", 0.5, 1.0))),
    )
    with open_database(str(database)) as store:
        for first in range(0, STREAMS, AT_ONCE):
            streams = []
            for number in range(first, min(STREAMS, first + AT_ONCE)):
                stream = Stream(name(number), config, SegmentGraph.equal_shares(2, NOON), now=NOON)
                for writer in range(WRITERS):
                    position = {str(writer % 2): 10 + writer}
                    stream.note(Note(writer=f"w{writer}", times={"": NOON + writer}, position=position), NOON)
                streams.append(made(stream, origin))
            write(store, *streams)
    return database


def name(number: int) -> str:
    return f"stream-{number:05}"


def resident_mib(process_id: int) -> float:
    status = Path(f"/proc/{process_id}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) / 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux says how large a process is")
def test_thousands_of_streams_start_and_serve_in_little_memory(serve: Any, filled: Path) -> None:
    server = serve()
    at_rest = resident_mib(server.process.pid)

    for first in range(0, STREAMS, AT_ONCE):
        notes = [
            {"stream": name(number), "writer": f"w{number % WRITERS}", "time": NOON + 100, "position": {"0": 500}}
            for number in range(first, min(STREAMS, first + AT_ONCE))
        ]
        answer = server.client.post("/v1/notes", json={"notes": notes}, timeout=120)
        assert all(each.get("late") is False for each in answer.json()["results"]), answer.text[:500]
    in_use = resident_mib(server.process.pid)

    last = name(STREAMS - 1)
    described = server.client.get(f"/v1/streams/{last}").json()
    assert described["writers"] == {"active": WRITERS} and described["latest_marks"][""]["time"] == NOON
    note = {"writer": "w0", "time": NOON + 50, "position": {"0": 500}}
    assert server.client.post(f"/v1/streams/{last}/notes", json=note).json()["marks"][0]["time"] == NOON + 1
    shown, page = 0, {"next": ""}
    while page["next"] is not None:
        page = server.client.get(f"/v1/status?limit=1000&after={page['next']}", timeout=120).json()
        shown += sum(each["writers"] == {"active": WRITERS} for each in page["streams"])
    assert (shown, page["counts"]["streams"], page["counts"]["writers"]) == (STREAMS, STREAMS, STREAMS * WRITERS)
    measured = f"{STREAMS} streams: {at_rest:.0f} MiB at rest, {in_use:.0f} MiB in use"
    assert at_rest < START_MIB, measured
    assert in_use < START_MIB + STREAMS * STREAM_KIB / 1024, measured
