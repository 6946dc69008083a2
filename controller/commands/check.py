"""Read a whole store, and say what is wrong with it. It changes nothing, and a controller may go on serving.

It exits with 0 where all is well, with 1 where something is wrong, and with 2 where it cannot be looked at.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any

from controller.commands.asking import add_json
from controller.commands.backup import add_database
from controller.commands.options import Failure, say

if TYPE_CHECKING:
    from controller.storage.inspection import Fault, Kind

HELP = "read a whole store, and say what is wrong with it"
WRONG_STATUS = 1
UNREAD_STATUS = 2


def add_options(parser: argparse.ArgumentParser) -> None:
    add_database(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    try:
        from controller.storage.database import parse_url, shown
        from controller.storage.inspection import Inspection, opened
        from controller.storage.refusals import StoreRefused
    except ModuleNotFoundError as missing:
        raise Failure(f"{missing.name} is not installed: pip install 'strandline[controller]'", UNREAD_STATUS) from None
    found = _Found(options.json)
    try:
        with opened(options.database) as connection:
            inspection = Inspection(connection)
            for fault in inspection.faults():
                found.add(fault)
    except StoreRefused as refused:
        raise Failure(str(refused), UNREAD_STATUS) from None
    counts = {"streams": inspection.streams, "reader_groups": inspection.groups, "rows": inspection.rows}
    found.conclude(shown(parse_url(options.database)), counts)
    return WRONG_STATUS if found.kinds else 0


def fault_of(database: str) -> str | None:
    """What is wrong with a store or a backup, in a sentence; None where it is sound, or of another version's schema."""
    from controller.storage.inspection import Inspection, opened
    from controller.storage.refusals import WrongSchema

    try:
        with opened(database) as connection:
            found = next(Inspection(connection).faults(), None)
    except WrongSchema:
        return None
    return None if found is None else str(found)


class _Found:
    """The faults that were found: each is told at once, or at the end with --json."""

    def __init__(self, as_json: bool) -> None:
        self.kinds: Counter[Kind] = Counter()
        self._json = as_json
        self._shown: list[dict[str, Any]] = []

    def add(self, fault: Fault) -> None:
        from dataclasses import asdict

        from controller.limits import FAULTS_SHOWN

        self.kinds[fault.kind] += 1
        if self.kinds.total() > FAULTS_SHOWN:
            return
        if self._json:
            self._shown.append({**asdict(fault), "detail": str(fault)})
        else:
            say(str(fault))

    def conclude(self, store: str, counts: dict[str, int]) -> None:
        from controller.limits import FAULTS_SHOWN
        from controller.storage.inspection import REMEDIES
        from controller.wording import indented

        total = self.kinds.total()
        remedies = [REMEDIES[kind] for kind in REMEDIES if self.kinds[kind]]
        if self._json:
            told = {"store": store, **counts, "faults": self._shown, "faults_found": total, "remedies": remedies}
            say(indented(told))
            return
        if total > FAULTS_SHOWN:
            say(f"… and {total - FAULTS_SHOWN:,} more")
        for remedy in remedies:
            say(remedy)
        looked = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in counts.items())
        say(f"{store}: {f'{total:,} faults' if total else 'nothing is wrong'} ({looked})")
