"""The outcome of a run without Spark: Strandline's windows, and what a watermark with a delay would have lost.

The latter is arithmetic on the events of the log, in batches as a query with a trigger reads them. Before each batch,
the watermark is the greatest event time of all batches before, less the delay. A row whose window ends at the
watermark or before is dropped. `Assessment` compares one event after the other; so each batch goes through it by event
time, and no event of a batch makes another one of it late.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from reader_client.log_checks.assessment import Arrival, Assessed, Assessment
from strandline_demo.outcome import EmittedWindows, Events, aligned, count_text, window_of
from strandline_demo.world import WINDOW_MS, DemoSettings

BATCH_MS: Final = 500  # as the trigger of the demo with Spark
BAR: Final = 24  # characters
KEPT, LOST = "█", "░"
FOOT: Final = f"""
Wait: from the end of a window to the moment at which its reader had it.
Lost: with that delay. This is arithmetic by Spark's rule on the same events, not
Spark itself: there is a batch each {BATCH_MS / 1000:g} s, its watermark is the greatest event
time of all batches before, less the delay, and a row is dropped if its window
has ended by then. Open: no later event moved that watermark past the end."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window: the events that the log has of it, those that Strandline's window had, how long after its end that
    came (None if it never did), and for each delay how many rows would have been lost."""

    begin_ms: int  # after the start of the world
    events: int
    emitted: int
    wait_ms: int | None
    lost: tuple[int, ...]

    @property
    def name(self) -> str:
        return f"{self.begin_ms / 1000:3g} – {(self.begin_ms + WINDOW_MS) / 1000:g} s"


@dataclass(frozen=True, slots=True)
class Comparison:
    """The windows of a run, by time, and what the delays would have made of all events. `repeated` are the begins of
    windows that came more than once."""

    windows: tuple[Window, ...]
    repeated: tuple[int, ...]
    delays: Assessed
    shown_delay_ms: int  # the one in the chart

    @property
    def faults(self) -> list[str]:
        """What is not as Strandline promises: a window without some of its events, or with more, or a second time."""
        wrong = [
            f"the window {window.name.strip()} has {window.emitted} of its {window.events} events"
            for window in self.windows
            if window.emitted != window.events
        ]
        return wrong + [f"the window that begins at {begin / 1000:g} s came more than once" for begin in self.repeated]

    def table(self) -> str:
        """A line for each window, the sums, and the meaning of the words."""
        spans = [each.wait_ms for each in self.windows if each.wait_ms is not None]
        waits = self.delays.waits or (None,) * len(self.delays.delays_ms)  # none if no delay closed a window
        lost = [f"lost: {delay_ms / 1000:g} s" for delay_ms in self.delays.delays_ms]
        rows = [
            ["window", "events", "Strandline", "wait", *lost],
            *(
                [
                    each.name,
                    count_text(each.events),
                    count_text(each.emitted),
                    _span(each.wait_ms),
                    *map(count_text, each.lost),
                ]
                for each in self.windows
            ),
            [
                *("all", count_text(sum(each.events for each in self.windows))),
                *(count_text(sum(each.emitted for each in self.windows)), ""),
                *map(count_text, self.delays.total.late),
            ],
            [
                *("median wait", "", "", _span(round(median(spans)) if spans else None)),
                *(_span(None if each is None else each.median_ms) for each in waits),
            ],
            [
                *("longest wait", "", "", _span(max(spans, default=None))),
                *(_span(None if each is None else each.most_ms) for each in waits),
            ],
            [
                *("open at the end", "", "", count_text(len(self.windows) - len(spans))),
                *(count_text(len(self.windows) - (0 if each is None else each.windows)) for each in waits),
            ],
        ]
        lines = aligned(rows, "  ")
        ruled, last = "─" * len(lines[0]), len(self.windows) + 1
        return "\n".join([lines[0], ruled, *lines[1:last], ruled, *lines[last:], FOOT])

    def chart(self) -> str:
        """A bar for each window, as Strandline closed it and as the delay would have."""
        place = self.delays.delays_ms.index(self.shown_delay_ms)
        most = max((each.events for each in self.windows), default=1)
        title = f"a delay of {self.shown_delay_ms / 1000:g} s ({KEPT} kept, {LOST} lost)"
        width = max((len(each.name) for each in self.windows), default=0)
        lines = [f"{'':{width}}   {'Strandline':{BAR}}   {title}"]
        for each in self.windows:
            exact = _bar(min(each.emitted, each.events), each.events, most)
            lost = each.lost[place]
            said = f" {count_text(lost)} lost" if lost else ""
            lines.append(f"{each.name:{width}}   {exact:{BAR}}   {_bar(each.events - lost, each.events, most)}{said}")
        return "\n".join(lines)


def compare(settings: DemoSettings, start_ms: int, events: Events, emitted: EmittedWindows) -> Comparison:
    """Compares the windows with the log, and counts what delays would have lost: the one of the settings, half of it
    and twice of it."""
    delays = sorted({settings.delay_ms // 2, settings.delay_ms, settings.delay_ms * 2})
    assessed = assess(events, delays)
    lost = {int(each.whose or 0): each.late for each in assessed.partitions}
    truth = Counter(window_of(time_ms) for time_ms, _ in events)
    found = {start: (count, at_ms) for start, count, at_ms in emitted}
    windows = []
    for start in sorted(truth.keys() | found.keys()):
        count, at_ms = found.get(start, (0, None))
        wait_ms = None if at_ms is None else at_ms - start - WINDOW_MS
        none_lost = (0,) * len(delays)
        windows.append(Window(start - start_ms, truth[start], count, wait_ms, lost.get(start, none_lost)))
    times = Counter(start - start_ms for start, _, _ in emitted)
    repeated = tuple(begin for begin, count in sorted(times.items()) if count > 1)
    return Comparison(tuple(windows), repeated, assessed, settings.delay_ms)


def assess(events: Events, delays_ms: Sequence[int]) -> Assessed:
    """What each delay would lose of the events; its partitions are the windows, by their starts."""
    windows = len({window_of(time_ms) for time_ms, _ in events})
    assessment = Assessment(delays_ms, window_ms=WINDOW_MS, by_window=True, names=windows + 1)
    for batch, time_ms in sorted((appended_ms // BATCH_MS, time_ms) for time_ms, appended_ms in events):
        assessment.take(Arrival(str(window_of(time_ms)), time_ms, arrived=(batch + 1) * BATCH_MS))
    return assessment.result()


def _bar(kept: int, events: int, most: int) -> str:
    """A lost event is always seen, however few there are."""
    full = round(BAR * events / most)
    shown = BAR * kept // most if kept < events else full
    return KEPT * shown + LOST * (full - shown)


def _span(milliseconds: int | None) -> str:
    return "never" if milliseconds is None else f"{milliseconds / 1000:.1f} s"
