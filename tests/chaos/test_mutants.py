"""The harness bites: a real controller with one planted bug is found out within a bounded number of kills.

All of them are tried with MUTANTS=all, which takes some ten minutes; else the few that are found fastest.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.checker import RULES
from tests.chaos.joint_faults import KINDS
from tests.chaos.joint_mutants import JOINT_MUTANTS
from tests.chaos.mutants import MUTANTS
from tests.chaos.processes import Launcher
from tests.chaos.run import Round, run_round
from tests.postgres import Postgres
from tests.served import ROOT

pytestmark = pytest.mark.full

ROUNDS = (3, 8, 8, 8, 8)  # kills in each; those that are found fastest are found by three
JOINT_ROUNDS = (2, 8, 8, 8, 8)  # faults in each; most bugs are found by two
JOINT_FASTEST = ["take_time_from_the_host"]
FASTEST = ["give_an_epoch_twice", "leave_a_writer_out_of_each_cut", "read_one_mark_too_far"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(MUTANTS) if os.environ.get("MUTANTS") == "all" else FASTEST)
def test_a_planted_bug_is_found(name: str, launcher: Launcher, tmp_path: Path) -> None:
    found: set[str] = set()
    for number, kills in enumerate(ROUNDS):
        round_ = Round("sqlite", number + 1, kills, harmful=number % 2 == 0, mutant=name)
        verdict = run_round(round_, launcher, None, tmp_path / f"round-{number}")
        found |= {violation.rule for violation in verdict.violations}
        if found & set(MUTANTS[name].rules):
            return
    pytest.fail(f"{name} was not found by {MUTANTS[name].rules} in {sum(ROUNDS)} kills, but by {found}")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(JOINT_MUTANTS) if os.environ.get("MUTANTS") == "all" else JOINT_FASTEST)
def test_a_bug_that_is_planted_in_several_controllers_is_found(
    name: str, launcher: Launcher, mortal_postgres: Postgres, tmp_path: Path
) -> None:
    mutant = JOINT_MUTANTS[name]
    found: set[str] = set()
    for number, faults in enumerate(JOINT_ROUNDS):
        round_ = Round("postgresql", number + 1, faults, number % 2 == 1, name, mutant.controllers, mutant.kinds)
        verdict = run_round(round_, launcher, mortal_postgres, tmp_path / f"round-{number}")
        found |= {violation.rule for violation in verdict.violations}
        if found & set(mutant.rules):
            return
    pytest.fail(f"{name} was not found by {mutant.rules} in {sum(JOINT_ROUNDS)} faults, but by {found}")


def test_planted_bugs_fit_the_functions_that_they_are_planted_into() -> None:
    planting = (
        "from tests.chaos.joint_mutants import JOINT_MUTANTS\nfrom tests.chaos.mutants import MUTANTS\n"
        "for each in (*MUTANTS.values(), *JOINT_MUTANTS.values()): each.plant()"
    )
    planted = subprocess.run([sys.executable, "-c", planting], cwd=ROOT, capture_output=True, text=True)
    assert planted.returncode == 0, planted.stderr


def test_every_mutant_names_rules_that_there_are() -> None:
    mutants = [*MUTANTS.values(), *JOINT_MUTANTS.values()]
    assert {rule for mutant in mutants for rule in mutant.rules} <= set(RULES)
    assert {kind for mutant in mutants for kind in mutant.kinds} <= set(KINDS)
