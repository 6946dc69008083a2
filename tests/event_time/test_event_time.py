"""PDP-26: event time out of ingestion time."""

import pickle

import pytest

from strandline.core.event_time_lag import EventTimeLag
from strandline.errors import InvalidConfig

MINUTE_MS = 60_000
TWELVE = 12 * 60 * MINUTE_MS


def test_at_12_00_a_lag_of_five_minutes_gives_11_55() -> None:
    assert EventTimeLag(5 * MINUTE_MS).apply(TWELVE) == TWELVE - 5 * MINUTE_MS


def test_no_watermark_stays_none() -> None:
    assert EventTimeLag(5).apply(None) is None


def test_a_lag_reaches_no_further_back_than_time_does() -> None:
    assert EventTimeLag(2**53 - 1).apply(-5) == 1 - 2**53


@pytest.mark.parametrize("lag", [-1, 1.5, True, "5", None])
def test_a_lag_must_be_a_whole_number(lag: object) -> None:
    with pytest.raises(InvalidConfig, match="max_event_time_lag_ms"):
        EventTimeLag(lag)  # type: ignore[arg-type]  # what is refused is the wrong type too


@pytest.mark.parametrize("watermark", [1.5, "5", True, 2**53])
def test_a_watermark_that_is_no_time_is_refused(watermark: object) -> None:
    with pytest.raises(InvalidConfig, match="watermark"):
        EventTimeLag(5).apply(watermark)  # type: ignore[arg-type]  # what is refused is the wrong type too


def test_a_lag_survives_pickling() -> None:
    assert pickle.loads(pickle.dumps(EventTimeLag(5))) == EventTimeLag(5)
