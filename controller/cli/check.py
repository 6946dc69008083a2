"""`strandline check`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from controller.cli.options import json_option
from controller.cli.store import database_option, store_failures
from controller.operators.wording import indented
from controller.terminal import progress, say

if TYPE_CHECKING:
    from controller.operators.store_check import StoreCheck

WRONG_STATUS = 1
UNREAD_STATUS = 2
REMEDY = "Restore a backup; or delete the streams and reader groups that are named here, and begin again."


@click.command
@database_option
@json_option
def command(database: str, as_json: bool) -> int:
    """Load a whole store, and say what of it cannot be read. Nothing is changed.

    Others may go on with it. The command exits with 0 where all is well, with 1 where something is wrong, and with 2
    where it cannot be looked at.
    """
    with store_failures(UNREAD_STATUS):
        from controller.operators.store_check import fault_text
        from controller.storage.kinds import parse_url
        from controller.storage.refusals import shown

        check, store = _checked(database), shown(parse_url(database))
    if as_json:
        faults = [{**each.values, "detail": fault_text(each)} for each in check.faults]
        say(indented({"store": store, **check.checked, "faults": faults}))
    else:
        counts = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in check.checked.items())
        found = f"{len(check.faults):,} faults" if check.faults else "nothing is wrong"
        say(*map(fault_text, check.faults), *[REMEDY] * bool(check.faults), f"{store}: {found} ({counts})")
    return WRONG_STATUS if check.faults else 0


def fault_of(database: str) -> str | None:
    """What is wrong with a store or a backup, in a sentence; None where it is sound, or of another version's schema."""
    from controller.operators.store_check import fault_text
    from controller.storage.refusals import WrongSchema

    try:
        return next(map(fault_text, _checked(database).faults), None)
    except WrongSchema:
        return None


def _checked(database: str) -> StoreCheck:
    from controller.operators.store_check import StoreCheck
    from controller.storage.database import looking_into

    with looking_into(database) as connection:
        check = StoreCheck(connection)
        with progress(lambda: f"checked {check.checked['streams']:,} streams"):
            check.run()
    return check
