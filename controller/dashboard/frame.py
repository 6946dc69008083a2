"""The frame of every page: the bar at the top, the theme, an update each second, and the alarm where none comes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from functools import partial
from html import escape
from pathlib import Path
from typing import Final

from fastapi import Request
from nicegui import events, ui

from controller.dashboard.limits import FIRST_UPDATE_S, LOST_S, PROBE_S, REFRESH_S, SILENT_S
from controller.dashboard.visitors import SIGN_IN, SIGNED_IN, THEME_COOKIE, Visitor
from controller.dashboard.zones import TO_OWN, TO_UTC, shown_in_zone, zone_of
from strandline.errors import Missing, StrandlineError, Unauthenticated

CONTROLLERS: Final = "/controllers"
JOURNAL: Final = "/journal"
LAG: Final = "/lag"
TOKENS: Final = "/tokens"
TOPOLOGY: Final = "/topology"
_SEEN: Final = "strandline_seen"
_TELL_SEEN: Final = f"""<script>
document.addEventListener("visibilitychange", () => emitEvent("{_SEEN}", !document.hidden))
</script>"""
# The script is part of the page, so that it runs even where nothing else can be had any more.
_WATCH: Final = Path(__file__).with_name("page.js").read_text()
_KEEP_FOCUS: Final = f"<script>{Path(__file__).with_name('focus.js').read_text()}</script>"
_STYLE: Final = """
:root { --sl-line: #e2e8f0; --sl-soft: #576579; --sl-card: #ffffff; --sl-ground: #f6f8fa; --sl-ink: #0f172a; }
.body--dark { --sl-line: #2b3648; --sl-soft: #9aa8bc; --sl-card: #141c2b; --sl-ground: #0b111c; --sl-ink: #e6edf6; }
body { background: var(--sl-ground) !important; color: var(--sl-ink); }
.nicegui-content { padding: 0; gap: 0; align-items: stretch; }
/* Quasar's classes for this are in an earlier layer than what the library says of its own rows and columns. */
.items-center { align-items: center; } .items-baseline { align-items: baseline; }
.sl-page { width: 100%; max-width: 1280px; margin: 0 auto; padding: 20px 24px 56px; gap: 20px; }
.sl-card { background: var(--sl-card); border: 1px solid var(--sl-line); border-radius: 12px; padding: 16px 18px;
  gap: 8px; position: relative; width: 100%; min-width: 0; }
.sl-soft { color: var(--sl-soft); font-size: 13px; }
.sl-h { font-size: 15px; font-weight: 650; letter-spacing: .01em; }
.sl-title { font-size: 24px; font-weight: 700; letter-spacing: -.01em; overflow-wrap: anywhere; }
.sl-number { font-size: 28px; font-weight: 700; line-height: 1.1; font-variant-numeric: tabular-nums; }
.sl-tile { gap: 2px; padding: 12px 16px; }
.sl-fact { font-size: 18px; font-weight: 650; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.sl-tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px; width: 100%; }
.sl-two { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); gap: 16px;
  width: 100%; }
.sl-bad { color: #dc2626; } .body--dark .sl-bad { color: #f87171; }
.sl-warn { color: #b45309; } .body--dark .sl-warn { color: #fbbf24; }
.sl-good { color: #047857; } .body--dark .sl-good { color: #34d399; }
.sl-stuck { border-left: 5px solid #dc2626; } .sl-held { border-left: 5px solid #f59e0b; }
.sl-fine { border-left: 5px solid #10b981; }
.sl-bar { background: var(--sl-card) !important; color: var(--sl-ink) !important;
  border-bottom: 1px solid var(--sl-line); box-shadow: none !important; padding: 8px 24px; gap: 16px;
  flex-wrap: nowrap; }
.sl-page a, .sl-link { color: #0f766e; text-decoration: none; font-weight: 600; }
.body--dark .sl-page a, .body--dark .sl-link { color: #2dd4bf; }
.sl-page a:hover { text-decoration: underline; }
.sl-page .q-table { width: 100%; }
.sl-page .q-table__card { background: transparent; box-shadow: none; color: inherit; }
.sl-page .q-table tbody td { font-variant-numeric: tabular-nums; border-color: var(--sl-line); }
.sl-page .q-table thead th { color: var(--sl-soft); font-weight: 600; border-color: var(--sl-line); }
.sl-page .q-table tbody td { overflow-wrap: anywhere; }
.sl-page .q-table tbody td.sl-moment, .sl-page .q-table tbody td.text-right { overflow-wrap: normal; }
.sl-page .q-table tbody td > a, .sl-page .q-table tbody td > div > a { display: inline-block; min-width: 12ch; }
.sl-page .nicegui-link, .sl-page .nicegui-label { overflow-wrap: anywhere; min-width: 0; }
.sl-heard { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
.sl-download { position: absolute !important; top: 8px; right: 8px; }
.sl-corner { position: absolute !important; top: 8px; right: 48px; }
.q-dialog .q-card { background: var(--sl-card); color: var(--sl-ink); border-radius: 12px; }
.sl-sort { all: unset; cursor: pointer; }
.sl-page .q-table__container { width: 100%; }
.body--dark { --q-primary: #2dd4bf !important; --q-negative: #f87171 !important; --q-secondary: #9aa8bc !important;
  --q-positive: #34d399 !important; --q-warning: #fbbf24 !important; }
/* In an earlier layer than Quasar's white, which is important too: so this one counts. */
@layer overrides {
  .body--dark .bg-positive, .body--dark .bg-warning, .body--dark .bg-negative, .body--dark .bg-primary {
    color: #0b111c !important; } }
.sl-page .q-table__bottom { border-color: var(--sl-line); }
.sl-lag { gap: 0; align-items: flex-end; text-align: right; }
.sl-diagram svg { display: block; max-height: 420px; }
.sl-diagram .nodeLabel, .sl-diagram text { color: var(--sl-ink) !important; fill: var(--sl-ink) !important; }
.sl-diagram .flowchart-link { stroke: var(--sl-soft) !important; }
.sl-diagram marker path { fill: var(--sl-soft) !important; stroke: var(--sl-soft) !important; }
.sl-page .q-table td, .sl-page .q-table th { padding-left: 8px; padding-right: 12px; }
.sl-page .q-btn .q-icon { font-size: 1.25em; }
.sl-page :focus-visible, .sl-bar :focus-visible { outline: 2px solid #0d9488; outline-offset: 2px; border-radius: 4px; }
.sl-flow { display: flex; align-items: center; overflow-x: auto; padding: 4px 2px; width: 0; min-width: 100%; }
.sl-flow ul { list-style: none; margin: 0; padding: 0; flex: none; }
.sl-flow li { display: flex; align-items: center; position: relative; padding: 4px 0; }
.sl-into, .sl-into ul { margin-right: 20px !important; position: relative; }
.sl-out ul { margin-left: 20px; position: relative; }
.sl-into li { justify-content: flex-end; padding-right: 20px; }
.sl-out ul li { padding-left: 20px; }
.sl-into::after, .sl-into ul::after, .sl-out ul::before, .sl-into li::after, .sl-out ul li::after {
  content: ""; position: absolute; top: calc(50% - 1px); width: 20px; height: 2px; background: var(--sl-soft); }
.sl-into::after, .sl-into ul::after { right: -20px; }
.sl-out ul::before { left: -20px; }
.sl-into li::after { right: 0; }
.sl-out ul li::after { left: 0; }
.sl-into li::before, .sl-out ul li::before { content: ""; position: absolute; top: 0; bottom: 0; width: 2px;
  background: var(--sl-soft); }
.sl-into li::before { right: 0; }
.sl-out ul li::before { left: 0; }
.sl-flow ul > li:first-child::before { top: calc(50% - 1px); }
.sl-flow ul > li:last-child::before { bottom: calc(50% - 1px); }
.sl-box { border: 1px solid var(--sl-soft); border-radius: 8px; padding: 6px 10px; width: max-content; max-width: 190px;
  overflow-wrap: anywhere; white-space: normal; text-align: left; background: var(--sl-card); position: relative; }
.sl-box > * { display: block; }
.sl-box > :not(a) { font-size: 13px; }
.sl-out ul > li > .sl-box::before, .sl-out > li > .sl-box::before, .sl-into ul + .sl-box::before {
  content: ""; position: absolute; left: -8px; top: calc(50% - 5px);
  border: 5px solid transparent; border-left: 7px solid var(--sl-soft); border-right: 0; }
.sl-flow > .sl-out:first-child > li > .sl-box::before { display: none; }
code, .sl-code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 13px; }
.sl-code { background: var(--sl-ground); border: 1px solid var(--sl-line); border-radius: 8px; padding: 8px 12px;
  overflow-x: auto; white-space: pre-wrap; overflow-wrap: anywhere; width: 100%; }
#sl-alarm { position: fixed; inset: 0 0 auto 0; z-index: 9000; background: #b91c1c; color: #fff; padding: 12px 24px;
  font-size: 16px; font-weight: 650; line-height: 1.4; overflow-wrap: anywhere; }
#sl-alarm div + div { font-variant-numeric: tabular-nums; font-weight: 400; }
.sl-stale .q-header { top: var(--sl-alarm) !important; }
.sl-stale .q-layout { padding-top: var(--sl-alarm); }
.sl-stale .sl-page, .sl-stale .sl-bar, .sl-stale .q-dialog, .sl-stale .q-notifications {
  filter: grayscale(1); opacity: .6; }
.nicegui-error-popup { display: none !important; }
@media (prefers-reduced-motion: reduce) { *, ::before, ::after {
  animation-duration: .01ms !important; animation-delay: 0s !important; animation-iteration-count: 1 !important;
  transition-duration: .01ms !important; transition-delay: 0s !important; scroll-behavior: auto !important; } }
@media (max-width: 600px) {
  .sl-page { padding: 14px 12px 40px; } .sl-bar { padding: 6px 12px; gap: 2px 8px; flex-wrap: wrap; }
  .sl-title { font-size: 20px; } .sl-hide-small { display: none; } .sl-number { font-size: 24px; }
  .sl-page .q-table tbody td, .sl-page .q-table thead th { padding: 4px 5px; }
  .sl-card { padding: 12px; } .sl-lag { align-items: flex-start; text-align: left; }
  .sl-tiles { grid-template-columns: repeat(auto-fit, minmax(130px, 1fr)); gap: 8px; } }
@media (max-width: 380px) { .sl-page .q-table tbody td.sl-moment { overflow-wrap: anywhere; } }
"""


log = logging.getLogger(__name__)


class Refresh:
    """Calls a function once a second while the page is visible, never twice at once. The page is told each time: while
    the function fails, or nothing comes, a line over its whole width says so (`page.js`)."""

    def __init__(self, update: Callable[[], Awaitable[None]]) -> None:
        self.trouble: Callable[[], str] = str  # what is wrong with the streams of the page, for its title and its icon
        self._update = update
        self._running = False
        self._client = ui.context.client
        self._timer = ui.timer(REFRESH_S, self.now, immediate=False)
        ui.on(_SEEN, self._seen)
        ui.add_head_html(_watch())
        ui.add_body_html(_TELL_SEEN + _KEEP_FOCUS)

    async def first(self) -> None:
        """Updates once. If that takes long, it continues in the background, and the page is shown before."""
        self._task = asyncio.create_task(self.now(), name="first update of a page")
        await asyncio.wait([self._task], timeout=FIRST_UPDATE_S)

    async def now(self) -> None:
        """Updates once."""
        if self._running:
            return
        self._running = True
        try:
            with shown_in_zone(self._client.request):
                await self._update()
            self._tell(f"strandline.fresh({json.dumps(self.trouble())})")
        except Unauthenticated:
            self._timer.active = False
            self._tell("strandline.signIn()")
        except Missing:
            self._timer.active = False
            self._tell("strandline.gone()")
        except StrandlineError as error:
            self._failed(f"{error}.")
        except Exception as error:
            log.exception("a page could not be brought up to date")
            self._failed(f"This page could not be brought up to date ({type(error).__name__}): the log says more.")
        finally:
            self._running = False

    def _failed(self, text: str) -> None:
        self._tell(f"strandline.failed({json.dumps(text)})")

    def _tell(self, call: str) -> None:
        _ = self._client.run_javascript(call)  # its answer is of no interest

    async def _seen(self, event: events.GenericEventArguments) -> None:
        """Updates the page only while the tab is visible: a hidden tab costs nothing."""
        self._timer.active = bool(event.args)
        if event.args:
            await self.now()


def _watch() -> str:
    given = {
        "silent-ms": SILENT_S * 1000,
        "lost-ms": LOST_S * 1000,
        "probe-ms": PROBE_S * 1000,
        "sign-in": SIGN_IN,
        "signed-in": SIGNED_IN,
    }
    attributes = " ".join(f'data-{name}="{escape(str(value))}"' for name, value in given.items())
    return f"<script {attributes}>{_WATCH}</script>"


@contextmanager
def frame(request: Request, visitor: Visitor, title: str) -> Iterator[None]:
    """The bar and the column that contain a page."""
    ui.add_css(_STYLE)
    ui.colors(
        primary="#0f766e",
        secondary="#475569",
        accent="#0891b2",
        positive="#047857",
        negative="#dc2626",
        warning="#b45309",
    )
    ui.page_title(f"{title} · Strandline")
    theme = ui.dark_mode({"dark": True, "light": False}.get(request.cookies.get(THEME_COOKIE, "")))
    with ui.header().classes("sl-bar items-center"):
        with ui.link(target="/").classes("sl-link row items-center no-wrap").style("gap: 8px"):
            ui.icon("waves", size="22px")
            ui.label("Strandline").style("font-size: 17px; font-weight: 700")
        ui.link("Lag", LAG).classes("sl-link")
        ui.link("Journal", JOURNAL).classes("sl-link")
        ui.link("Topology", TOPOLOGY).classes("sl-link")
        if visitor.may_see_every_stream:
            ui.link("Controllers", CONTROLLERS).classes("sl-link")
        if visitor.may_manage_tokens:
            ui.link("Tokens", TOKENS).classes("sl-link")
        ui.space()
        zone = zone_of(request)
        ui.button(f"times in {zone}", on_click=partial(_run, TO_OWN if zone is UTC else TO_UTC)).props(
            'flat dense no-caps size=13px color=secondary title="UTC, or the time of this browser"'
        )
        ui.button(icon="contrast", on_click=partial(_turn, theme)).props(
            'flat round dense color=secondary aria-label="Dark or light"'
        )
        if visitor.name is not None:
            ui.label(visitor.name).classes("sl-soft sl-hide-small")
            with ui.element("form").props('method=post action="/sign-out"'):
                ui.button("Sign out").props("flat dense type=submit color=secondary no-caps")
    with ui.column().classes("sl-page"), shown_in_zone(request):
        yield


def _run(script: str) -> None:
    _ = ui.run_javascript(script)  # which loads the page again, so that there is no answer


async def _turn(theme: ui.dark_mode) -> None:
    """Switches between dark and light; the browser remembers it for later pages."""
    dark = not theme.value if theme.value is not None else not await ui.run_javascript("Quasar.Dark.isActive")
    theme.set_value(dark)
    name = "dark" if dark else "light"
    await ui.run_javascript(f"document.cookie = '{THEME_COOKIE}={name}; path=/; max-age=31536000; samesite=strict'")
