"""Places of logs: what opens a log by what a user named."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from spark_integration.errors import InvalidOption
from spark_integration.options import location_of
from strandline.logs import Event
from strandline.logs.errors import LogMissing
from strandline.logs.places import KINDS, SqliteFile, place_at
from strandline.logs.sqlite import SqliteLog


def test_an_embedded_log_begins_where_it_was_truncated(tmp_path: Path) -> None:
    with SqliteLog.create(tmp_path / "orders.log", 2) as log:
        log.append([Event(b"%d" % n, segment="0") for n in range(5)])
        log.truncate({"0": 3})
    place = place_at(tmp_path / "orders.log")
    assert place.head() == {"0": 3, "1": 0}
    with place.open_reader() as reader:
        assert [each.value for each in reader.rows("0", 3, 5)] == [b"3", b"4"]


def test_what_is_at_no_path_is_refused_by_that_path(tmp_path: Path) -> None:
    with pytest.raises(LogMissing, match="nowhere"):
        place_at(tmp_path / "nowhere").open_reader()


def test_a_place_travels_to_another_process() -> None:
    place = SqliteFile("orders.log")
    assert pickle.loads(pickle.dumps(place)) == place


def test_a_log_of_an_unknown_kind_is_refused_with_all_that_are_known() -> None:
    with pytest.raises(InvalidOption, match=" or ".join(KINDS)):
        location_of({"log": "paper"})
