"""The harness bites: a real controller with one planted bug is found out within a bounded number of kills.

All of them are tried with MUTANTS=all, which takes some ten minutes; else the few that are found fastest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.checker import RULES
from tests.chaos.mutants import MUTANTS
from tests.chaos.processes import Launcher
from tests.chaos.run import Round, run_round
from tests.chaos.several_faults import FAIL_OVER
from tests.postgres import Postgres
from tests.served import ROOT

pytestmark = pytest.mark.full

ROUNDS = (3, 8, 8, 8, 8)  # kills in each; those that are found fastest are found by three
STRUCK_ROUNDS = 4  # of several controllers, with so many faults each: a fail-over can be had once in each
STRUCK = 6
FASTEST = [
    "answer_from_memory_without_a_look",
    "give_an_epoch_twice",
    "leave_a_writer_out_of_each_cut",
    "read_one_mark_too_far",
]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(MUTANTS) if os.environ.get("MUTANTS") == "all" else FASTEST)
def test_a_planted_bug_is_found(name: str, launcher: Launcher, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    mutant, found = MUTANTS[name], set[str]()
    postgres: Postgres | None = request.getfixturevalue("mortal_postgres") if mutant.kinds else None
    for number, round_ in enumerate(_rounds(name)):
        verdict = run_round(round_, launcher, postgres, tmp_path / f"round-{number}")
        found |= {violation.rule for violation in verdict.violations}
        if found & set(mutant.rules):
            return
    pytest.fail(f"{name} was not found by {mutant.rules}, but by {found}")


def _rounds(name: str) -> Iterator[Round]:
    kinds = MUTANTS[name].kinds
    if not kinds:
        for number, kills in enumerate(ROUNDS):
            yield Round("sqlite", number + 1, kills, harmful=number % 2 == 0, mutant=name)
        return
    for number in range(STRUCK_ROUNDS):
        struck = 1 if FAIL_OVER in kinds else STRUCK
        yield Round("postgresql", number + 1, struck, harmful=False, mutant=name, controllers=3, kinds=kinds)


def test_planted_bugs_fit_the_functions_that_they_are_planted_into() -> None:
    planting = "from tests.chaos.mutants import MUTANTS\nfor each in MUTANTS.values(): each.plant()"
    planted = subprocess.run([sys.executable, "-c", planting], cwd=ROOT, capture_output=True, text=True)
    assert planted.returncode == 0, planted.stderr


def test_every_mutant_names_rules_that_there_are() -> None:
    assert {rule for mutant in MUTANTS.values() for rule in mutant.rules} <= set(RULES)
