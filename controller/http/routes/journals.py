"""What happened to streams and reader groups."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Annotated, Any, Final, TypeAlias

from fastapi import Query
from pydantic import WithJsonSchema

from controller.http.callers import Calling, Over, permit
from controller.http.dependencies import DEFAULT_LIMIT, Limit, Seq, Served
from controller.http.shapes import shaped_router
from controller.operators.journal_reads import JOURNAL_SEARCH_CHARACTERS, JOURNAL_WORDS, JournalSlice
from controller.storage.journal import EntryPlace, StoredEntry, Wanted
from strandline.access import EVERYTHING, PATTERN, Role
from strandline.errors import InvalidParameter
from strandline.limits import TIME_BOUND_MS
from strandline.names import NAME
from strandline.wire.journal import TOPICS, JournalEntry, JournalPage, JournalsPage, StreamJournalEntry

router = shaped_router("journal")

Topic: TypeAlias = Annotated[str, WithJsonSchema({"type": "string", "enum": list(TOPICS)})]

_PLACE: Final = re.compile(rf"(\d{{1,16}})\.(\d{{1,16}})\.((?:{NAME.pattern})?)")


@router.get(
    "/v1/journal", summary="What happened to all streams, newest first", dependencies=permit(Role.READER, Over.EACH)
)
async def of_all(
    controller: Served,
    caller: Calling,
    topic: Annotated[list[Topic], Query(description="only on these topics", default_factory=list)],
    stream: Annotated[str, Query(description="only of streams that this name, or pattern with *, fits")] = EVERYTHING,
    search: Annotated[str, Query(description="only with these words, in any order, anywhere in an entry")] = "",
    since: Annotated[
        int | None,
        Query(ge=0, lt=TIME_BOUND_MS, description="only of this moment or later, in milliseconds since 1970"),
    ] = None,
    until: Annotated[int | None, Query(ge=0, lt=TIME_BOUND_MS, description="only of before this moment")] = None,
    before: Annotated[str, Query(description="the page begins after this place: the `next` of the page before")] = "",
    limit: Limit = DEFAULT_LIMIT,
) -> JournalsPage:
    if PATTERN.fullmatch(stream) is None:
        raise InvalidParameter(name="stream", value=stream, wanted="a name, in which * stands for any characters")
    for each in topic:
        if each not in TOPICS:
            raise InvalidParameter(name="topic", value=each, wanted=f"one of {', '.join(TOPICS)}")
    words = tuple(search.split())
    if len(search) > JOURNAL_SEARCH_CHARACTERS or len(words) > JOURNAL_WORDS:
        wanted = f"at most {JOURNAL_WORDS} words, of {JOURNAL_SEARCH_CHARACTERS} characters together"
        raise InvalidParameter(name="search", value=search, wanted=wanted)
    if not all(word.isprintable() for word in words):
        raise InvalidParameter(name="search", value=search, wanted="words of characters that can be printed")
    patterns = (stream,) if caller.grant is None else (stream, caller.grant.pattern)
    wanted_entries = Wanted(patterns=patterns, topics=tuple(topic), words=words, since=since, until=until)
    found = await controller.journals.of_all(wanted_entries, _place(before), limit)
    entries = tuple(StreamJournalEntry(stream=name, **_fields(entry)) for name, entry in found.entries)
    following = found.next
    return JournalsPage(entries, None if following is None else f"{following.at}.{following.seq}.{following.stream}")


def _place(before: str) -> EntryPlace | None:
    if not before:
        return None
    found = _PLACE.fullmatch(before)
    if found is None:
        raise InvalidParameter(name="before", value=before, wanted="the `next` of the page before")
    return EntryPlace(int(found[1]), found[3], int(found[2]))


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
