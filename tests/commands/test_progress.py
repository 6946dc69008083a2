"""Long work says on a terminal how far it is, and nowhere else."""

from __future__ import annotations

import io
import time

import pytest

from controller.terminal import progress, remark


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def work(stderr: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("sys.stderr", stderr)
    rows, until = 0, time.monotonic() + 30
    with progress(lambda: f"checked {rows} rows", every_s=0.01):
        while rows < 1_000 and time.monotonic() < until and "1" not in stderr.getvalue():
            rows += 1
            time.sleep(0.001)
    return stderr.getvalue().splitlines()


def test_a_terminal_is_told_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = work(Terminal(), monkeypatch)
    assert lines and all(each.startswith("checked ") and each.endswith(" rows") for each in lines)


def test_a_file_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert work(io.StringIO(), monkeypatch) == []


def test_no_line_on_standard_error_has_a_secret(capsys: pytest.CaptureFixture[str]) -> None:
    remark("waiting: postgresql://anna:sesame@db/strandline is away; the token was slt_Zm9vYmFyZm9vYmFy")
    said = capsys.readouterr().err
    assert said.startswith("waiting: postgresql://anna:…@db/strandline") and "sesame" not in said and "Zm9v" not in said
