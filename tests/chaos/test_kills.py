"""Faults under load lose nothing and falsify nothing: a short run on each store.

`make chaos` runs longer ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.faults import EACH_KIND, FAIL_OVER
from tests.chaos.processes import Launcher
from tests.chaos.run import Round, Verdict, run_round
from tests.postgres import Postgres

SEED = 1
KILLS = 8
LOSS = ("kill", FAIL_OVER, "pause_in_transaction")


def told(verdict: Verdict) -> str:
    """What a failure shows: the seed, what replays it, and where the history is."""
    found = "\n".join(str(violation) for violation in verdict.violations)
    return f"{found}\n{verdict}\nagain: {verdict.round.command}\nhistory: {verdict.history}"


@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=pytest.mark.full)])
def test_kills_and_lost_answers_under_load_break_no_promise(
    store: str, launcher: Launcher, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    postgres: Postgres | None = request.getfixturevalue("mortal_postgres") if store == "postgresql" else None

    verdict = run_round(Round(store, SEED, KILLS, harmful=True), launcher, postgres, tmp_path / "round")

    assert not verdict.violations, told(verdict)
    assert verdict.kills >= KILLS
    assert verdict.outcomes["200"] > 0 and verdict.outcomes["unknown"] > 0


@pytest.mark.full
@pytest.mark.parametrize("kinds", [EACH_KIND, LOSS], ids=["each-kind", "fail-over"])
def test_faults_of_several_controllers_under_load_break_no_promise(
    kinds: tuple[str, ...], launcher: Launcher, mortal_postgres: Postgres, tmp_path: Path
) -> None:
    round_ = Round("postgresql", SEED, len(kinds), harmful=False, controllers=3, kinds=kinds)

    verdict = run_round(round_, launcher, mortal_postgres, tmp_path / "round")

    assert not verdict.violations, told(verdict)
    assert verdict.kills == len(kinds)
    assert verdict.outcomes["200"] > 0 and verdict.outcomes["unknown"] > 0
