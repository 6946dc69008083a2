"""The page of a stream: which writer holds time back, its lag, its writers, groups, segments and journal."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from controller.cluster.records import Kind
from controller.controller import Controller
from controller.dashboard.actions import Acts
from controller.dashboard.dialogs import ask, ask_about
from controller.dashboard.frame import Refresh, frame
from controller.dashboard.journal_cards import IncompleteCard, JournalCard, JournalNews
from controller.dashboard.labels import rate, state_of
from controller.dashboard.limits import INCOMPLETE_SHOWN, JOURNAL_READ
from controller.dashboard.pages.stream_cards import (
    Charts,
    FlowCard,
    GroupsCard,
    HolderCard,
    KeysCard,
    SegmentsCard,
    WritersCard,
)
from controller.dashboard.tables import keep, key_label
from controller.dashboard.visitors import Visitor, to_sign_in, visitor
from controller.dashboard.widgets import (
    BADGE_COLOURS,
    SMALL,
    gone,
    heading,
    menu,
    served_by,
    show_server,
    tiles,
)
from controller.dashboard.zones import shown_in_zone
from controller.format import counts
from controller.records.journal import INCOMPLETE
from controller.status.status_view import StatusView, StatusViews
from controller.status.stream_status import KeyStatus, StreamDetails
from strandline.core.note import DEFAULT_KEY
from strandline.core.writer import WriterState
from strandline.errors import NotOwner, StrandlineError

_TILES = ("Marks a second", "Writers", "Notes", "Late notes", "Refused", "Incomplete marks")


def add(app: FastAPI) -> None:
    @ui.page("/streams/{stream}")
    async def page(request: Request, stream: str) -> RedirectResponse | None:
        who = visitor(request)
        if who is None:
            return to_sign_in(request)
        statuses: StatusViews = app.state.status
        status = statuses.seen_by(who.viewer)
        with frame(request, who, stream):
            try:
                who.check(stream)
                await status.of_stream(stream)
            except NotOwner:
                pass  # the page says so, and goes on when some controller serves it
            except StrandlineError as error:
                gone(error)
                return None
            key = request.query_params.get("key", DEFAULT_KEY)
            view = StreamPage(app.state.controller, status, who, Acts(app, who), stream, key)
            refresh = Refresh(view.update)
            view.build(str(request.base_url).rstrip("/"), app.state.grafana_url)
            refresh.trouble = view.trouble
        await refresh.first()
        return None


class StreamPage:
    """The page of one visitor."""

    def __init__(
        self, controller: Controller, status: StatusView, who: Visitor, acts: Acts, stream: str, key: str
    ) -> None:
        self._controller = controller
        self._status = status
        self._acts = acts
        self._who = who
        self._name = stream
        self._keys = [key]  # until the stream says which it has
        self._key = key
        self._news = JournalNews()

    def build(self, base: str, grafana_url: str | None) -> None:
        with ui.row().classes("items-center full-width").style("gap: 8px 12px"):
            heading(self._name, level=1)
            self._state = ui.badge().props("outline")
            self._server = served_by()
            ui.space()
            self._select = ui.select(self._key_labels(), value=self._key, label="Time key").props("dense outlined")
            self._select.on_value_change(self._turn_key)
            if grafana_url is not None:
                ui.link("Grafana", grafana_url.replace("{stream}", self._name), new_tab=True)
            if self._who.may_act:
                ui.button("Evaluate now", icon="bolt", on_click=self._evaluate).props(SMALL)
                ui.button("Configure", icon="tune", on_click=self._configure).props(SMALL)
                acts, name = self._acts, self._name
                menu(
                    "More",
                    {
                        "Split or merge segments": lambda: ask_about(acts.scale(name)),
                        "Drop a segment": lambda: ask(acts.drop_segment(name)),
                        "Truncate": lambda: ask(acts.truncate(name)),
                        "Seal": lambda: ask(acts.seal(name)),
                        "Delete": lambda: ask(acts.delete_stream(name)),
                    },
                )
        self._holder = HolderCard(self._name, self._who, self._ask_exclude)
        with ui.column().classes("full-width").style("gap: 6px"):
            self._tiles = tiles(*_TILES)
            ui.label("Notes, refusals and incomplete marks are counted since the stream was made.").classes("sl-soft")
        self._charts = Charts(self._controller, self._name)
        self._flow = FlowCard(self._status, self._who)
        self._keys_card = KeysCard()
        self._writers = WritersCard(self._name, base, self._who)
        with ui.element("div").classes("sl-two"):
            self._groups = GroupsCard(self._name, self._who)
            self._incomplete = IncompleteCard()
        self._segments = SegmentsCard()
        self._journal = JournalCard()
        self._trouble = ""

    def trouble(self) -> str:
        """What is wrong with the stream, for the title."""
        return self._trouble

    async def update(self) -> None:
        self._who.check(self._name)
        now = self._controller.clock.now()
        show_server(self._server, self._status.served_by(Kind.STREAM, self._name))
        details = await self._status.of_stream(self._name)
        state = details.stream.state
        self._trouble = state.text if state.stands_still else ""
        groups = (await self._status.of_groups((self._name,))).groups
        self._show_keys(details)
        key = next((each for each in details.stream.keys if each.key == self._key), None)
        if key is not None:
            self._show_state(details, key)
            self._holder.show(details.stream, key)
            await self._flow.show(details, key, groups)
            await self._charts.show(key, self._groups.lowers(groups, self._key), now)
        self._groups.show(groups, self._key, key)
        await self._read_journal(details.last_entry, now)
        self._writers.show(details, self._key, now)
        self._segments.show(details, now)

    def _show_state(self, details: StreamDetails, key: KeyStatus) -> None:
        look = details.stream
        word, colour = state_of(look)
        self._state.set_text(word)
        self._state.props(f"color={BADGE_COLOURS.get(colour, 'secondary')}")
        refused = sum(look.refusals.values())
        codes = ", ".join(f"{count} {code}" for code, count in sorted(look.refusals.items()))
        self._tiles["Marks a second"].show(rate(key.marks_per_second))
        self._tiles["Writers"].show(str(sum(key.writers.values())), more=counts(look.writers))
        self._tiles["Notes"].show(f"{look.notes:,}")
        behind = key.writers.get(WriterState.BEHIND, 0)
        late = f"{behind:,} {'writer is' if behind == 1 else 'writers are'} below the marks" if behind else ""
        self._tiles["Late notes"].show(f"{look.late_notes:,}", "sl-warn" if look.late_notes else "", late)
        self._tiles["Refused"].show(f"{refused:,}", "sl-warn" if refused else "", codes)
        incomplete = key.incomplete_marks
        self._tiles["Incomplete marks"].show(f"{incomplete:,}", "sl-warn" if incomplete else "")

    def _show_keys(self, details: StreamDetails) -> None:
        keys = [each.key for each in details.stream.keys]
        if keys != self._keys and keys:
            self._keys = keys
            if self._key not in keys:
                self._key = keys[0]
            self._select.set_options(self._key_labels(), value=self._key)
        self._select.set_visibility(len(keys) > 1)
        self._keys_card.show(details.stream)

    def _key_labels(self) -> dict[str, str]:
        return {key: key_label(key) for key in self._keys}

    async def _read_journal(self, last: int, now: int) -> None:
        journals = self._controller.journals
        if self._news.has_come(last):
            self._journal.show(await journals.newest_of_stream(self._name, JOURNAL_READ), now)
            incomplete = await journals.newest_of_stream(self._name, 2 * INCOMPLETE_SHOWN, topics=(INCOMPLETE,))
            self._incomplete.show(incomplete, now)

    # -- what a visitor does -------------------------------------------------------------------------------------

    async def _turn_key(self, event: Any) -> None:
        if event.value != self._key:
            self._key = event.value
            keep(ui.context.client, {"key": self._key or None})
            with shown_in_zone(ui.context.client.request):
                await self.update()

    async def _ask_exclude(self, writer: str) -> None:
        await ask(self._acts.exclude(self._name, writer))

    async def _evaluate(self) -> None:
        await ask(self._acts.evaluate(self._name, self._key))

    async def _configure(self) -> None:
        await ask_about(self._acts.configure(self._name))
