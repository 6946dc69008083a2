"""What an administrator can do on a page: each action is confirmed first, and its result is shown."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from nicegui import ui

from controller.controller import Controller
from controller.dashboard.durations import duration_text, read_duration
from controller.dashboard.visitors import Visitor
from controller.dashboard.widgets import heading
from controller.format import Times
from controller.records.journal import Act
from controller.status.status_view import StatusView
from strandline.client.calls import stream_path, writer_path
from strandline.core.config import SETTINGS, Setting, StreamConfig
from strandline.core.mark import Mark
from strandline.errors import StrandlineError
from strandline.wire.streams import WireMark, read_evaluated, read_stream

Doing = Callable[[], Awaitable[str]]


async def confirm(question: str, consequence: str, button: str, do: Doing) -> None:
    """Asks the visitor, then does it and shows the result or the error."""
    with ui.dialog().props('aria-label="Are you sure"') as dialog, ui.card().style("max-width: 480px; gap: 12px"):
        heading(question)
        ui.label(consequence)
        with ui.row().classes("w-full justify-end"):
            ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat no-caps color=secondary")
            ui.button(button, on_click=lambda: dialog.submit(True)).props("unelevated no-caps color=negative autofocus")
    sure = await dialog
    dialog.delete()
    if sure:
        await tell(do)


async def tell(do: Doing) -> None:
    """Does something and shows the result or the error."""
    try:
        ui.notify(await do(), type="positive")
    except StrandlineError as error:
        ui.notify(str(error), type="negative", multi_line=True, timeout=10_000, close_button="Close")


class Acts:
    """What a visitor may do. It is done where the stream is served, which may be at another controller."""

    def __init__(self, controller: Controller, status: StatusView, who: Visitor) -> None:
        self._controller = controller
        self._status = status
        self._who = who

    async def ask_exclude(self, stream: str, writer: str) -> None:
        await confirm(
            f"Exclude {writer}?",
            "Time goes on without it at once. What it writes below the marks' time will be late, and every mark names "
            "it until it is included or registers again.",
            "Exclude",
            lambda: self.exclude(stream, writer),
        )

    async def ask_include(self, stream: str, writer: str) -> None:
        await confirm(
            f"Include {writer} again?",
            "It counts again from its last note on. Time may stand still until it has caught up.",
            "Include",
            lambda: self.include(stream, writer),
        )

    async def exclude(self, stream: str, writer: str) -> str:
        self._who.check_acting(stream)
        if await self._status.pass_on(stream, "POST", _exclusion(stream, writer)) is None:
            act = Act("excluded", self._who.name, {"writer": writer})
            await self._controller.streams.change(stream, lambda each, now: each.exclude(writer, now), act)
        return f"{writer} is excluded: marks go on without it, and name it"

    async def include(self, stream: str, writer: str) -> str:
        self._who.check_acting(stream)
        if await self._status.pass_on(stream, "DELETE", _exclusion(stream, writer)) is None:
            act = Act("included", self._who.name, {"writer": writer})
            await self._controller.streams.change(stream, lambda each, now: each.include(writer, now), act)
        return f"{writer} is included again"

    async def evaluate(self, stream: str, key: str) -> str:
        self._who.check_acting(stream)
        mark: Mark | WireMark | None
        body = await self._status.pass_on(stream, "POST", f"{stream_path(stream)}/marks", {"key": key})
        if body is None:
            mark, holder, _ = await self._controller.streams.evaluate(stream, key)
        else:
            evaluated = read_evaluated(body)
            mark, holder = evaluated.mark, evaluated.held_by
        if mark is not None:
            return f"mark {mark.seq} was made, at {Times().show(mark.time)}"
        return "no mark is possible" + (f": {holder.writer} holds time back" if holder and holder.writer else "")

    async def config(self, stream: str) -> StreamConfig:
        """The configuration of a stream."""
        self._who.check_acting(stream)
        body = await self._status.pass_on(stream, "GET", stream_path(stream))
        if body is None:
            return (await self._controller.streams.get(stream)).stream.config
        return read_stream(body).config

    async def configure(self, stream: str, settings: dict[str, Any]) -> str:
        self._who.check_acting(stream)
        if await self._status.pass_on(stream, "PATCH", stream_path(stream), settings) is None:
            act = Act("configured", self._who.name, settings)
            await self._controller.streams.change(stream, lambda each, now: each.configure(settings, now), act)
        return "the configuration is changed: " + ", ".join(f"{name} = {value}" for name, value in settings.items())


def _exclusion(stream: str, writer: str) -> str:
    return f"{writer_path(stream, writer)}/exclude"


FORM = [setting for setting in SETTINGS.values() if not setting.says.stays]


async def edit(config: StreamConfig) -> dict[str, Any] | None:
    """Shows a form with the settings; returns those that were changed, or None if the visitor cancelled. A value that
    cannot be is refused where it stands, and the form stays open."""
    fields: dict[str, ui.input | ui.select] = {}
    settings = ui.dialog().props('aria-label="Change the configuration"')
    with settings as dialog, ui.card().style("width: 560px; max-width: 96vw; gap: 8px"):
        heading("Change the configuration")
        with ui.column().classes("w-full").style("max-height: 62vh; overflow-y: auto; gap: 6px; flex-wrap: nowrap"):
            for setting in FORM:
                fields[setting.name] = _field(setting, getattr(config, setting.name))

        def save() -> None:
            wrong = [each for each in fields.values() if not each.validate()]  # each of them says what is wrong
            if not wrong:
                dialog.submit(True)

        with ui.row().classes("w-full justify-end"):
            ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat no-caps color=secondary")
            ui.button("Save", on_click=save).props("unelevated no-caps")
    sure = await dialog
    given = {name: field.value for name, field in fields.items()}
    dialog.delete()
    return changed(config, given) if sure else None


def _field(setting: Setting, value: Any) -> ui.input | ui.select:
    """The field of the form for a setting."""
    made = (
        ui.input(setting.name, value=as_text(setting, value), validation=lambda text: refusal(setting, text))
        if setting.choices is None
        else ui.select([str(choice) for choice in setting.choices], label=setting.name, value=str(value))
    )
    made.props(f'dense hint="{setting.says.meaning}"').classes("w-full")
    return made


def _is_duration(setting: Setting) -> bool:
    return setting.name.endswith("_ms")


def as_text(setting: Setting, value: Any) -> str:
    """A value as it stands in the form."""
    return duration_text(value) if _is_duration(setting) else str(value)


def read_text(setting: Setting, text: str | None) -> Any:
    """The value that a text of the form means. Raises ValueError with a sentence for the visitor."""
    given, says = (text or "").strip(), setting.says
    if setting.choices is not None:
        return given
    if not given:
        if setting.or_null:
            return None
        raise ValueError("this cannot be empty")
    if _is_duration(setting):
        value = read_duration(given)
    else:
        if re.fullmatch(r"-?[0-9]{1,18}", given) is None:
            raise ValueError("not a whole number")
        value = int(given)
    shown = partial(as_text, setting)
    if value < says.least:
        raise ValueError(f"at least {shown(says.least)}")
    if says.most is not None and value > says.most:
        raise ValueError(f"at most {shown(says.most)}")
    return value


def refusal(setting: Setting, text: str | None) -> str | None:
    """What is wrong with a text of the form; None if nothing is."""
    try:
        read_text(setting, text)
    except ValueError as error:
        return str(error)
    return None


def changed(config: StreamConfig, given: Mapping[str, str | None]) -> dict[str, Any]:
    """The settings that differ from the configuration, by the texts of the form."""
    values = {setting.name: read_text(setting, given[setting.name]) for setting in FORM if setting.name in given}
    return {name: value for name, value in values.items() if value != getattr(config, name)}
