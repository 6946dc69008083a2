"""FLIP-328, backlog by watermark lag: what a reader group says of itself, from its threshold and its watermark.

The group's backlog is what `RecordAttribute(backlog=…)` is there.
"""

from __future__ import annotations

from tests.source_documents.stage import Stage, StagedGroup

MINUTE = 60_000
DAY = 24 * 60 * MINUTE
THRESHOLD = 5 * MINUTE


def backlog(group: StagedGroup) -> bool:
    found: bool = group.window()["backlog"]
    return found


#   status    active          idle             active (a watermark of 2 h ago)      caught up
#   backlog   true            false            true                                 false
def test_an_idle_source_is_no_backlog_until_it_wakes_behind(stage: Stage) -> None:
    stream = stage.stream(segments=1, writer_timeout_ms=None)
    group = stage.group(stream, backlog_threshold_ms=THRESHOLD)
    stream.note("w", stage.now - DAY, {"0": 1})
    group.read("r", stream, {"0": 1})
    assert backlog(group)

    stream.idle("w")
    assert group.window()["idle"] == [stream.name] and not backlog(group)

    stream.note("w", stage.now - DAY // 12, {"0": 2})
    group.read("r", stream, {"0": 2})
    assert backlog(group)

    stream.note("w", stage.now, {"0": 3})
    group.read("r", stream, {"0": 3})
    assert not backlog(group)

    stage.pass_time(3 * THRESHOLD)
    assert group.window()["lag_ms"] == 3 * THRESHOLD and not backlog(group)  # it stays over as the lag grows again
