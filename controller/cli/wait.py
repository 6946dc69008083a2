"""`strandline wait`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import sleep
from typing import Final

import click

from controller.cli.client import ControllerClient, answered, calls_controller
from controller.cli.options import duration, key_option, option, reading, stream_argument
from controller.cli.screen import Output, prints
from controller.operators.wording import Times, compact, holding, named, offsets, read_time
from controller.terminal import NOT_THERE_STATUS, Failure, remark, say
from strandline.client.calls import Call, marks_at
from strandline.client.http import monotonic_ms
from strandline.client.loop import Remote, drive
from strandline.client.retry import Pause
from strandline.client.time_wait import WAIT_UNTIL_BOUND_MS, WAIT_UNTIL_DEFAULT_MS, wait_until_there
from strandline.core.time_units import Unit, is_epoch, unit_of
from strandline.errors import StrandlineError, TimeNotReached
from strandline.wire.streams import JsonObject, MarksAt

WAIT_PRINTED_MS: Final = 60_000  # between two lines that say the same

WRITERS_NAMED = 5
WHAT_FOR: Final = "wait for all that is older: a whole number as notes have it, or a date such as 2026-01-31T12:00:00Z"


def moment_and_form(text: str) -> tuple[int, bool]:
    """A time that is waited for, and whether it is written as a number."""
    return reading(partial(read_time, up=True))(text), text.removeprefix("-").isdecimal()


@click.command(context_settings={"ignore_unknown_options": True})  # a time may be negative
@stream_argument
@click.argument("time", type=moment_and_form, required=False, help=WHAT_FOR)
@option("--until", "given", type=moment_and_form, metavar="TIME", help="the same as an option")
@key_option
@option(
    "--timeout",
    "timeout_ms",
    type=duration(WAIT_UNTIL_BOUND_MS),
    default=f"{WAIT_UNTIL_DEFAULT_MS // 3_600_000}h",
    metavar="SPAN",
    help="wait at most so long: seconds, or with a unit, as 90s, 15min, 2h, 1d",
)
@option("--allow-incomplete", is_flag=True, help="do not wait for writers that marks leave out, such as lost ones")
@option("--quiet", is_flag=True, help="print nothing while it waits")
@calls_controller
@prints
def command(
    client: ControllerClient,
    stream: str,
    time: tuple[int, bool] | None,
    given: tuple[int, bool] | None,
    key: str,
    timeout_ms: int,
    allow_incomplete: bool,
    quiet: bool,
    output: Output,
) -> None:
    """Wait until every event older than a time is there. Exits with 0 if it is, and with 3 if it is not in time.

    While it waits, standard error shows how far the stream has come and which writer holds it back.
    """
    last: JsonObject = {}
    times = output.times
    wanted = time or given
    if wanted is None or (time and given):
        raise click.UsageError("Name the TIME that is waited for, once, such as 2026-01-31T12:00:00Z.")
    until, is_number = wanted
    unit = unit_of(until) if is_number else None

    def ask(wait_ms: int) -> Call[MarksAt]:
        asked = marks_at(stream, until, key=key, wait_ms=wait_ms, allow_incomplete=allow_incomplete)
        answer = yield from answered(asked)
        last.update(answer.json)
        _check_unit(stream, until, unit, answer.value.reached, times)
        return answer.value

    job = wait_until_there(
        ask,
        stream=stream,
        key=key,
        time=until,
        timeout_ms=timeout_ms,
        allow_incomplete=allow_incomplete,
        on_wait=None if quiet else _reporting(client, stream, until, unit, times),
        now_ms=monotonic_ms,
    )

    def take(step: Remote | Pause) -> object:
        if isinstance(step, Remote):
            return client.run(step.call)
        sleep(step.pause_ms / 1000)
        return None

    try:
        found = drive(job, take)
    except TimeNotReached as error:
        if output.as_json:
            say(compact(last))
        raise Failure(_why(error, times), NOT_THERE_STATUS) from None
    output.show_line(last, lambda: _there(stream, until, found, times))


def _check_unit(stream: str, until: int, unit: Unit | None, reached: int | None, times: Times) -> None:
    """Raises Failure for a time in another unit, which is decades away from the stream's. Times may mean anything, so
    what the stream has come to decides."""
    if unit is not None and reached is not None and unit_of(reached) is not unit and is_epoch(reached):
        raise Failure(
            f"{until} looks like {unit.word}, and {stream} has come to {times.show(reached)}: give it in "
            f"milliseconds, or as a date"
        )


def _reporting(
    client: ControllerClient, stream: str, until: int, unit: Unit | None, times: Times
) -> Callable[[MarksAt | StrandlineError], None]:
    """Prints what is waited for: when somebody else holds time back, and else once in a while."""
    before: tuple[object, float] = (None, 0.0)

    def report(found: MarksAt | StrandlineError) -> None:
        nonlocal before
        if isinstance(found, StrandlineError):
            what: object = found.code
            text = client.explain(found)
        else:
            what = (found.there, found.held_by and found.held_by.writer, found.excluded)
            text = _waits_for(stream, found, times)
            if unit is not None and found.reached is None:
                text += f"; {until} looks like {unit.word}, and times are in milliseconds"
        now = monotonic_ms()
        if what != before[0] or now - before[1] >= WAIT_PRINTED_MS:
            before = what, now
            remark(f"waiting for {times.show(until)}: {text}")

    return report


def _waits_for(stream: str, found: MarksAt, times: Times) -> str:
    if found.there:
        return f"{stream} has come to {times.show(found.reached)}, without {named(found.excluded, WRITERS_NAMED)}"
    come = "has no time yet" if found.reached is None else f"has come to {times.show(found.reached)}"
    held = holding(found.held_by) if found.held_by is not None else "no writer counts: none noted, or all are left out"
    return f"{stream} {come}; {held}"


def _there(stream: str, until: int, found: MarksAt, times: Times) -> str:
    # Nothing older follows what lies below this mark; a sealed stream, or one at rest, has none that late.
    below = f", below {offsets(found.ceiling.cut)}" if found.ceiling is not None else ""
    without = "" if found.complete else f", without {named(found.excluded, WRITERS_NAMED)}"
    return f"{stream} has everything older than {times.show(until)}{below}{without}"


def _why(error: TimeNotReached, times: Times) -> str:
    what = f"everything older than {times.show(error.time)} is not there"
    if error.excluded:
        also = ", and the stream is sealed" if error.sealed else ""
        return f"{what}: what is there is without {named(error.excluded, WRITERS_NAMED)}{also} (see --allow-incomplete)"
    held = f", and {error.holder} holds it back" if error.holder is not None else ""
    return f"{what}: {error.stream} has come to {times.show(error.reached)}{held}"
