"""What happened to streams and reader groups."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from controller.http.callers import Over, permit
from controller.http.dependencies import DEFAULT_LIMIT, Limit, Seq, Served
from controller.http.shapes import shaped_router
from controller.operators.journal_reads import JournalSlice
from controller.storage.journal import StoredEntry
from strandline.access import Role
from strandline.wire.journal import JournalEntry, JournalPage

router = shaped_router("journal")


@router.get("/v1/streams/{stream}/journal", summary="What happened to a stream", dependencies=permit(Role.READER))
async def of_stream(stream: str, controller: Served, after: Seq = 0, limit: Limit = DEFAULT_LIMIT) -> JournalPage:
    return _shaped(await controller.journals.of_stream(stream, after, limit))


@router.get(
    "/v1/reader-groups/{group}/journal",
    summary="What happened to a reader group",
    dependencies=permit(Role.READER, Over.GROUP),
)
async def of_group(group: str, controller: Served, after: Seq = 0, limit: Limit = DEFAULT_LIMIT) -> JournalPage:
    return _shaped(await controller.journals.of_group(group, after, limit))


def _shaped(page: JournalSlice) -> JournalPage:
    return JournalPage(tuple(JournalEntry(**_fields(entry)) for entry in page.entries), page.next, page.omitted)


def _fields(entry: StoredEntry) -> dict[str, Any]:
    """The fields of a JournalEntry."""
    return {each.name: getattr(entry, each.name) for each in fields(entry)}
