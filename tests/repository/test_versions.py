"""`make versions` runs on what it was given, or on every release of Spark that works."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tools.versions import SPARKS, parse


def test_without_a_version_it_runs_on_all_of_them() -> None:
    assert parse([]).sparks == [*SPARKS, version("pyspark")]


def test_it_runs_on_what_was_given() -> None:
    given = parse(["--set-up-only", "4.1.4"])
    assert (given.sparks, given.set_up_only) == (["4.1.4"], True)


def test_a_version_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["4.1.4", "3.5.9"])
    assert "there is no Spark 3.5.9 here: give 4.0.5, " in capsys.readouterr().err
