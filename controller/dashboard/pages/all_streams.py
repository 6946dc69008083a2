"""The page of the journals of all streams."""

from __future__ import annotations

from controller.dashboard.journal import TOPICS, journals_table
from controller.dashboard.pages.page import Page, View
from controller.operators.journal_reads import JOURNAL_WORDS
from controller.storage.journal import Wanted
from strandline.access import EVERYTHING
from strandline.wire.journal import TOPICS as ALL_TOPICS


async def journal_page(view: View) -> Page:
    """The journals of all streams, with search."""
    address = view.address
    topic, search = address.get("topic"), address.get("search")
    words = tuple(each for each in search.split() if each.isprintable())[:JOURNAL_WORDS]
    topics = (topic,) if topic in ALL_TOPICS else ()
    pattern = EVERYTHING if view.who.grant is None else view.who.grant.pattern
    found = await view.history.search(Wanted(patterns=(pattern,), topics=topics, words=words))
    table = journals_table(address, found, view.now)
    shows = {
        "keeps": address.others("search", "topic", "entries.page"),
        "search": search,
        "topic": topic,
        "topics": [(each, TOPICS[each]) for each in ALL_TOPICS],
        "entries": table,
        "empty": "Nothing in the journals fits." if words or topics else "Nothing has happened yet.",
    }
    return Page("journal.html", "Journal", shows)
