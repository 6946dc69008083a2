"""Whatever happens, no mark and no window claims what is not so, marks never go back, and time moves on."""

import hashlib
import os
import subprocess
import sys
from collections import Counter
from functools import cache

import pytest

from tests.simulation import soak
from tests.simulation.soak import run_seed
from tests.simulation.world import World

BATCH = 100
# The same histories each time. `make soak` has 10 000 of them, and then those of an hour.
SEEDS = int(os.environ.get("SIMULATION_SEEDS", "500"))
# What soaks found, one history in ten thousand or in a million.
FOUND = {
    "a writer that was forgotten comes back in one of its keys": 3_006_674,
    "another one, while nobody is forgotten any more": 3_046_496,
    "a closed writer says that it is idle": 3_010_460,
    "a writer that was forgotten registers without its keys": 3_026_775,
    "a lost writer that was closed without its epoch comes back": 10_729,
    "a writer times out at once as it registers, and the store is away": 3_035_739,
    "a writer that was forgotten notes another key, and leaves out what it noted": 143_416,
    "a writer that was forgotten registers in another key": 151_789,
    "an old note of a writer that was forgotten comes when it is idle again": 264_238,
    "an operator closes a tail reporter that is idle, and it is forgotten": 439_952,
    "all are idle while the controller's clock is ahead of the host's": 43_336,
    "the host's clock leaps while the controller's goes slower, and the controller stands still": 692_871,
    "a writer registers without a key in a stream that has other keys, and one was forgotten": 897_707,
    "an operator shortens the timeout, and a writer is lost at once": 31_504_313,
}
FOUND_IN_TRANSACTIONS = {
    "a plan is given up in an open transaction": 20_024_201,
    "an operator shortens the timeout, and a writer is forgotten earlier": 41_136_275,
    "at the end, a writer is told of one segment after another that it noted more before": 41_482_645,
}


@cache  # the first histories are asked for twice
def counted(first: int) -> Counter[str]:
    """Runs a batch of histories; returns how often there was what to prove."""
    return sum((run_seed(seed) for seed in range(first, first + BATCH)), Counter())


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_no_history_claims_falsely_and_time_resumes_after_faults(first: int) -> None:
    assert counted(first)["mark"]


@pytest.mark.parametrize("seed", FOUND.values(), ids=FOUND)
def test_a_rare_history_claims_nothing_falsely(seed: int) -> None:
    run_seed(seed)


@pytest.mark.parametrize("seed", FOUND_IN_TRANSACTIONS.values(), ids=FOUND_IN_TRANSACTIONS)
def test_a_rare_history_with_transactions_claims_nothing_falsely(seed: int) -> None:
    run_seed(seed, transactions=True)


def test_the_histories_hold_all_that_there_is_to_prove() -> None:
    counts = sum((counted(first) for first in range(0, 5 * BATCH, BATCH)), Counter[str]())
    wanted = {
        "mark": 2000,
        "mark, incomplete": 500,
        "mark, newest known": 200,
        "missed, named": 300,
        "missed, forgotten": 20,
        "missed, told before": 1,
        "forgotten, closed": 100,
        "forgotten, lost": 100,
        "debt settled": 50,
        "rest told": 20,
        "restart": 50,
        "paused": 50,
        "store away": 50,
        "clock set": 200,
        "clock followed": 100,
        "fenced": 50,
        "time_went_back": 5,
        "position_went_back": 5,
        "unknown_segment": 20,
    }
    assert {name: counts[name] for name, least in wanted.items() if counts[name] < least} == {}


def test_no_note_passes_a_transaction_that_is_open() -> None:
    counts = sum((run_seed(seed, transactions=True) for seed in range(SEEDS // 4)), Counter())
    assert counts["mark"] > SEEDS
    assert counts["committed"] > SEEDS


def test_a_soak_shares_its_seeds_among_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert soak.main(["--seeds", "3:8", "--processes", "2"]) == 0
    assert capsys.readouterr().out.startswith("5 seeds in ")


def digest(seeds: range) -> str:
    marks = hashlib.sha256()
    for seed in seeds:
        world = World(seed)
        world.run()
        for key, seen in world.checker.marks.items():
            marks.update(repr((key, [each.mark for each in seen])).encode())
    return marks.hexdigest()


def test_equal_input_gives_equal_marks_whatever_order_python_hashes_in() -> None:
    script = "import test_simulation; print(test_simulation.digest(range(40)))"
    here = os.path.dirname(__file__)
    found = set()
    for hash_seed in ("1", "2"):
        environment = os.environ | {
            "PYTHONHASHSEED": hash_seed,
            "PYTHONPATH": os.pathsep.join([here, os.path.dirname(here), os.getcwd()]),
        }
        run = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=120
        )
        found.add(run.stdout)
    assert len(found) == 1
