"""The bounds of the dashboard, the unit last."""

from typing import Final

REFRESH_S: Final = 1.0  # between two updates of an open page
FIRST_UPDATE_S: Final = 1.0  # a page is shown without its numbers when they take longer
SILENT_S: Final = 6.0  # without an update, before a page says that the controller does not answer
LOST_S: Final = 2.5  # the same where the page's channel is closed
PROBE_S: Final = 4.0  # between two tries of such a page to reach a controller, and how long one may take
RECONNECT_S: Final = 10.0  # a page whose channel closed may go on where it was; later it loads itself again
PAGES: Final = 100  # open at once, over all visitors
PAGE_OPENING_S: Final = 20.0  # a page whose channel is not open by then makes room for another one
CHANNELS: Final = 200  # between pages and the controller; a page that is loaded again has two for a moment
CHANNEL_BYTES: Final = 262_144  # of one message from a page
SIGN_IN_BYTES: Final = 4_096  # of the form with a token
PAGE_ROWS: Final = 25  # of a table
ROWS_A_PAGE: Final = (10, 25, 50, 100)  # that a visitor can choose from
LAST_PAGE: Final = 1_000_000  # of a table, that an address can name
FILTER_CHARACTERS: Final = 300  # of what a table is filtered by
CHART_POINTS: Final = 240  # of a line in a chart
CHART_LEAST_MS: Final = 60_000  # the least time that a chart of all that is kept shows
RANGE_LEAST_MS: Final = 5_000  # of time that a visitor zooms in to
SETTLED_MS: Final = 2_000  # so long ago all marks of a moment are in the store
LAG_POINTS: Final = 120  # of the lag of one of all streams
LAG_STREAMS_TOGETHER: Final = 10  # whose lag is read in one go
LAG_KEYS: Final = 8  # of a stream, by name
LAG_LINES: Final = 8  # in the chart with those that were furthest behind

FLOW_WRITERS: Final = 8  # drawn before their stream; the others are one box
FLOW_BRANCHES: Final = 8  # reader groups of a stream, or streams that a group writes; the others are one box
FLOW_STREAMS_IN_LINE: Final = 3  # of streams that lead to each other, in one picture
FLOW_WAIT_S: Final = 0.2  # for all streams and groups, before a stream's page is shown with those from before
SEGMENTS_UNFOLDED: Final = 24  # as many are drawn one by one; of more, boxes stand for several
SEGMENT_PARTS: Final = 8  # boxes of a row of segments that is folded, or of a box that is unfolded
SEGMENT_BOXES: Final = 100  # in one picture
SEGMENT_NAME_CHARACTERS: Final = 24  # of a segment's name in a picture
JOURNAL_READ: Final = 300  # the newest entries, of which refusals of one kind become one
JOURNALS_READ: Final = 2_000  # the newest entries of all streams that fit a search
JOURNALS_REFRESH_MS: Final = 5_000  # between two reads of these
JOURNALS_REST: Final = 20  # times as long as a read took, if that is longer
JOURNAL_SHOWN: Final = 60  # of those, the newest
DURATION_CHARACTERS: Final = 60  # of a duration in a form
EXPORT_ROWS: Final = 20_000  # of a table, as CSV or JSON
EXPORT_SLICE_ROWS: Final = 200  # between two turns of others, while they are made
TOKENS_READ_MS: Final = 10_000  # how old the page of the tokens may be where none was made or revoked
NOTES_SHOWN: Final = 30  # the newest of a writer
NAMED_WRITERS: Final = 5  # in one cell
ATTENTION_STREAMS: Final = 4  # shown large, above the table
FILTER_ROWS: Final = 10  # with more of them a table has a filter
CHART_REFRESH_MS: Final = 5_000  # a chart with new marks is drawn so often
CHART_IDLE_MS: Final = 30_000  # and one without them, since time goes on
CHART_GROUPS: Final = 6  # whose windows are drawn beside the marks
INCOMPLETE_SHOWN: Final = 40  # the newest incomplete marks
GROUP_JOURNAL_READ: Final = 500  # entries, to find the changes of backlog among them
