"""The core says what the rules say, call by call, whatever the history; restored in the middle it goes on the same."""

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.drawn import batches
from tests.model.pair import MODEL, Drawn, Pair
from tests.served import ROOT


@given(st.data())
def test_the_core_and_the_plain_rules_agree_on_everything(data: st.DataObject) -> None:
    pair = Pair(Drawn(data))
    for _ in range(data.draw(st.integers(1, 40))):
        pair.step()


@pytest.mark.parametrize("seeds", batches(500, 500, 100))
def test_they_agree_on_long_histories_too(seeds: range) -> None:
    MODEL.histories(seeds)


def test_equal_calls_give_equal_marks_whatever_order_python_hashes_in() -> None:
    found = set()
    for hash_seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        words = [sys.executable, "-m", "tests.drawn", "model", "20"]
        run = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        found.add(run.stdout)
    assert len(found) == 1
