"""`strandline check`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from controller.cli.options import json_option, option
from controller.cli.store import database_option, store_failures
from controller.operators.wording import indented
from controller.terminal import Failure, progress, say
from strandline.errors import StrandlineError
from strandline.logs.inspection import FAULTS_SHOWN, LOG_REMEDIES, LogInspection

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from controller.storage.inspection import Inspection, StoreFault
    from strandline.logs.inspection import LogFault

WRONG_STATUS = 1
UNREAD_STATUS = 2


@click.command
@database_option
@option("--log", type=click.Path(path_type=Path), metavar="FILE", help="an embedded log to read in place of a store")
@json_option
def command(database: str, log: Path | None, as_json: bool) -> int:
    """Read a whole store, or an embedded log, and say what is wrong with it. Nothing is changed.

    Others may go on with it. The command exits with 0 where all is well, with 1 where something is wrong, and with 2
    where it cannot be looked at.
    """
    return _check_store(database, as_json) if log is None else _check_log(log, as_json)


def _check_log(log: Path, as_json: bool) -> int:
    found = _Faults(as_json, LOG_REMEDIES)
    try:
        inspection = LogInspection(log)
    except StrandlineError as error:
        raise Failure(str(error), UNREAD_STATUS) from None
    try:
        with progress(lambda: f"checked {inspection.events:,} events"):
            for fault in inspection.faults():
                found.add(fault)
    finally:
        inspection.close()
    counts = {"segments": inspection.segments, "events": inspection.events}
    found.conclude(str(log), counts)
    return WRONG_STATUS if found.kinds else 0


def _check_store(database: str, as_json: bool) -> int:
    with store_failures(UNREAD_STATUS):
        from controller.storage.inspection import REMEDIES, Inspection, opened
        from controller.storage.kinds import parse_url
        from controller.storage.refusals import shown

        found = _Faults(as_json, REMEDIES)
        with opened(database) as connection:
            inspection = Inspection(connection)
            with _progress_of(inspection):
                for fault in inspection.faults():
                    found.add(fault)
    counts = {"streams": inspection.streams, "reader_groups": inspection.groups, "rows": inspection.rows}
    found.conclude(shown(parse_url(database)), counts)
    return WRONG_STATUS if found.kinds else 0


def fault_of(database: str) -> str | None:
    """What is wrong with a store or a backup, in a sentence; None where it is sound, or of another version's schema."""
    from controller.storage.inspection import Inspection, opened
    from controller.storage.refusals import WrongSchema

    try:
        with opened(database) as connection:
            inspection = Inspection(connection)
            with _progress_of(inspection):
                found = next(inspection.faults(), None)
    except WrongSchema:
        return None
    return None if found is None else str(found)


def _progress_of(inspection: Inspection) -> AbstractContextManager[None]:
    return progress(lambda: f"checked {inspection.rows:,} rows of {inspection.streams:,} streams")


class _Faults:
    """The faults that were found: each is printed at once, or at the end with --json."""

    def __init__(self, as_json: bool, remedies: Mapping[Any, str]) -> None:
        """`remedies` say what to do, by the kind of fault."""
        self.kinds: Counter[str] = Counter()
        self._json = as_json
        self._remedies = remedies
        self._shown: list[dict[str, Any]] = []

    def add(self, fault: StoreFault | LogFault) -> None:
        self.kinds[fault.kind] += 1
        if self.kinds.total() > FAULTS_SHOWN:
            return
        if self._json:
            self._shown.append({**asdict(fault), "detail": str(fault)})
        else:
            say(str(fault))

    def conclude(self, store: str, counts: dict[str, int]) -> None:
        total = self.kinds.total()
        remedies = [remedy for kind, remedy in self._remedies.items() if self.kinds[kind]]
        if self._json:
            report = {"store": store, **counts, "faults": self._shown, "faults_found": total, "remedies": remedies}
            say(indented(report))
            return
        if total > FAULTS_SHOWN:
            say(f"… and {total - FAULTS_SHOWN:,} more")
        for remedy in remedies:
            say(remedy)
        checked = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())
        say(f"{store}: {f'{total:,} faults' if total else 'nothing is wrong'} ({checked})")
