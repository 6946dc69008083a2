"""What happened to streams and reader groups. Only durable entries are returned."""

from __future__ import annotations

from controller.commit.journal import Journal
from controller.http.callers import Over, permit
from controller.http.dependencies import DEFAULT_LIMIT, Limit, Seq, Served
from controller.http.shapes import shaped_router
from controller.lifecycle import Controller
from controller.storage.journal import journal_entries
from strandline.access import Role
from strandline.wire.journal import JournalPage

router = shaped_router("journal")


@router.get("/v1/streams/{stream}/journal", summary="What happened to a stream", dependencies=permit(Role.READER))
async def of_stream(stream: str, controller: Served, after: Seq = 0, limit: Limit = DEFAULT_LIMIT) -> JournalPage:
    return await _page(controller, (await controller.streams.get(stream)).journal, after, limit)


@router.get(
    "/v1/reader-groups/{group}/journal",
    summary="What happened to a reader group",
    dependencies=permit(Role.READER, Over.GROUP),
)
async def of_group(group: str, controller: Served, after: Seq = 0, limit: Limit = DEFAULT_LIMIT) -> JournalPage:
    return await _page(controller, (await controller.groups.get(group)).journal, after, limit)


async def _page(controller: Controller, journal: Journal, after: int, limit: int) -> JournalPage:
    omitted = journal.omitted
    found = await controller.store.read(journal_entries, journal.table, journal.name, limit + 1, after=after)
    following = found[limit - 1].seq if len(found) > limit else None
    return JournalPage(tuple(found[:limit]), following, omitted)
