from __future__ import annotations

import csv
import io
import json

import pytest

from controller.dashboard.journal_cards import Folded, folded
from controller.dashboard.tables import as_csv, as_json
from controller.storage.journal import StoredEntry

pytestmark = pytest.mark.full

COLUMNS = [("name", "Stream"), ("lag", "Lag"), ("held", "Held by")]


def refused(seq: int, code: str, writer: str = "w1") -> StoredEntry:
    return StoredEntry(seq, seq * 10, "refusal", "refused", None, {"code": code, "writer": writer, "time": seq})


def test_refusals_of_one_kind_are_one_row_with_their_number() -> None:
    state = StoredEntry(3, 30, "state", "sealed", None, {})
    entries = [refused(5, "fenced"), refused(4, "fenced"), state, refused(2, "time_went_back"), refused(1, "fenced")]
    assert folded(entries) == [Folded(entries[0], 3, 10), Folded(state, 1, 30), Folded(entries[3], 1, 20)]


def test_refusals_of_two_writers_are_two_rows() -> None:
    entries = [refused(2, "fenced", "a"), refused(1, "fenced", "b")]
    assert [each.times for each in folded(entries)] == [1, 1]


def test_entries_that_are_no_refusals_stay_one_by_one() -> None:
    entries = [StoredEntry(seq, seq, "state", "sealed", None, {}) for seq in (2, 1)]
    assert [each.entry for each in folded(entries)] == entries


def test_a_table_as_csv_has_what_is_shown_and_no_formulas() -> None:
    rows = [{"name": "=1+1", "lag": "–", "held": "12 s silent", "held_text": "w, 1: 12 s silent", "id": 1}]
    assert list(csv.reader(io.StringIO(as_csv(COLUMNS, rows)))) == [
        ["Stream", "Lag", "Held by"],
        ["'=1+1", "", "w, 1: 12 s silent"],
    ]


def test_a_table_as_json_has_null_for_what_shows_nothing() -> None:
    rows = [{"name": "größe", "lag": "–", "held": 3}]
    assert json.loads(as_json(COLUMNS, rows)) == [{"name": "größe", "lag": None, "held": 3}]
