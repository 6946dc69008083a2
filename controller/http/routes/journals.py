"""What happened to streams and reader groups."""

from __future__ import annotations

from fastapi import Response

from controller.http.declared import Routes, RuleScope
from controller.http.dependencies import DEFAULT_LIMIT, Limit, Seq, Served
from controller.http.responses import answer
from controller.status.journal_reads import JournalSlice
from strandline.access import Role
from strandline.wire.journal import JournalEntry, JournalPage

router = Routes("journal")


@router.declare("GET /v1/streams/{stream}/journal", "What happened to a stream", Role.READER, gives=[JournalPage])
async def of_stream(stream: str, controller: Served, after: Seq = 0, limit: Limit = DEFAULT_LIMIT) -> Response:
    return answer(_shaped(await controller.journals.of_stream(stream, after, limit)))


@router.declare(
    "GET /v1/reader-groups/{group}/journal",
    "What happened to a reader group",
    Role.READER,
    RuleScope.GROUP,
    gives=[JournalPage],
)
async def of_group(group: str, controller: Served, after: Seq = 0, limit: Limit = DEFAULT_LIMIT) -> Response:
    return answer(_shaped(await controller.journals.of_group(group, after, limit)))


def _shaped(page: JournalSlice) -> JournalPage:
    entries = tuple(
        JournalEntry(seq=entry.seq, at=entry.at, topic=entry.topic, kind=entry.kind, by=entry.by, details=entry.details)
        for entry in page.entries
    )
    return JournalPage(entries, page.next, page.omitted)
