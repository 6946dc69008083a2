"""Runs the steps of a writer's jobs: `do` waits, `do_async` awaits."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar, assert_never

from strandline.client.calls import clocked, note
from strandline.client.http import Connection
from strandline.client.loop import Local, Remote, drive, drive_async
from strandline.errors import ControllerAway
from writer_client.batches import Addressed, AsyncNotes
from writer_client.session import Job, Step

Value = TypeVar("Value")


def do(job: Job[Value], connection: Connection) -> Value:
    """Runs a job over a connection, in this thread."""
    try:
        return drive(job, lambda step: _take(step, connection))
    except ControllerAway as error:
        raise error.with_traceback(None) from None  # where it arose in here tells nobody anything


def _take(step: Step, connection: Connection) -> Any:
    match step:
        case Remote(call):
            return connection.run(call)
        case Addressed(stream, noted):
            return connection.run(clocked(note(stream, noted)))
        case Local(work):
            return work()
        case _:
            assert_never(step)


async def do_async(job: Job[Value], notes: AsyncNotes) -> Value:
    """Runs a job over a shared connection; calls the log in other threads."""
    try:
        return await drive_async(job, lambda step: _take_async(step, notes))
    except ControllerAway as error:
        raise error.with_traceback(None) from None


async def _take_async(step: Step, notes: AsyncNotes) -> Any:
    match step:
        case Remote(call):
            return await notes.run(call)
        case Addressed():
            return await notes.send(step)
        case Local(work):
            return await asyncio.to_thread(work)
        case _:
            assert_never(step)
