"""What a run of the tests closes with: what ran, what was skipped and why, and how to get it."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import NoReturn

import pytest

TO_RUN = "; to run them: "


def skip(what: str, how: str) -> NoReturn:
    """Skips for the lack of `what`; `how` it is got is shown at the end."""
    pytest.skip(f"{what}{TO_RUN}{how}")


def skip_but_under_ci(what: str, how: str) -> NoReturn:
    """The same for what continuous integration has to have: there its lack is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what}{TO_RUN}{how}")
    skip(what, how)


def closing_lines(ran: Iterable[str], skipped: Iterable[tuple[str, str]], width: int = 100) -> Iterator[str]:
    """`ran` are the files of the tests that ran, `skipped` those of the tests that did not, each with its reason."""
    folders = Counter(_folder(file) for file in ran)
    if folders:
        counted = ", ".join(f"{folder} {count}" for folder, count in sorted(folders.items()))
        yield from textwrap.wrap(f"ran: {counted}", width, subsequent_indent="     ", break_on_hyphens=False)
    causes: dict[str, Counter[str]] = {}
    for file, reason in skipped:
        causes.setdefault(reason.removeprefix("Skipped: "), Counter())[_folder(file)] += 1
    if not causes:
        yield "skipped: nothing"
    for reason, places in sorted(causes.items()):
        what, _, how = reason.partition(TO_RUN)
        counted = ", ".join(f"{folder} {count}" for folder, count in sorted(places.items()))
        yield f"skipped: {counted}"
        yield f"    why: {what}"
        if how:
            yield f"    to run them: {how}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    stats = terminalreporter.stats
    ran = [report.nodeid for name in ("passed", "failed") for report in stats.get(name, [])]
    skipped = [(report.nodeid, report.longrepr[2]) for report in stats.get("skipped", [])]
    if ran or skipped:
        terminalreporter.section("what ran and what did not")
        for line in closing_lines(ran, skipped):
            terminalreporter.write_line(line)


def _folder(nodeid: str) -> str:
    """The concern that a test is about: its folder below `tests`."""
    path = PurePath(nodeid.partition("::")[0])
    return path.parts[1] if path.parts[0] == "tests" and len(path.parts) > 2 else path.name
