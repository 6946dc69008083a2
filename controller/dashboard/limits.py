"""The bounds of the dashboard, the unit last."""

from typing import Final

SIGN_IN_BYTES: Final = 4_096  # of the form with a token
FORM_BYTES: Final = 65_536  # of what a dialog was filled in with
PAGE_ROWS: Final = 25  # of a table
ROWS_A_PAGE: Final = (10, 25, 50, 100)  # that a visitor can choose from
FILTER_CHARACTERS: Final = 300  # of what a table is filtered by
FILTER_ROWS: Final = 10  # with more of them a table has a filter
CHART_POINTS: Final = 240  # of a line in a chart
CHART_STRIPS: Final = 60  # of a chart, each of which shows its value when it is pointed at
CHART_LEAST_MS: Final = 60_000  # the least time that a chart of a young stream shows
SETTLED_MS: Final = 2_000  # so long ago all marks of a moment are in the store
PAST_REFRESH_MS: Final = 5_000  # how old marks and journals on a page may be, besides its newest
HISTORY_REST: Final = 20  # times as long as reading took, if that is longer
HISTORY_SHARED: Final = 64  # marks and journals that pages share, of streams
JOURNAL_READ: Final = 300  # the newest entries, of which refusals of one kind become one
JOURNAL_SHOWN: Final = 60  # of those, the newest
GROUP_JOURNAL_READ: Final = 500  # entries, to find the changes of backlog among them
INCOMPLETE_SHOWN: Final = 40  # the newest incomplete marks
NOTES_SHOWN: Final = 30  # the newest of a writer
NAMED_WRITERS: Final = 5  # in one cell
ATTENTION_STREAMS: Final = 2  # of one cause that have a card each, above the table; more have one together
ATTENTION_CARDS: Final = 6
ATTENTION_NAMES: Final = 5  # on the card of many streams
