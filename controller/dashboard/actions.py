"""What an administrator can do on a page: each action is confirmed first, and its result is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from controller.controller import Controller
from controller.dashboard.visitors import Visitor
from controller.dashboard.widgets import heading
from controller.format import Times
from controller.records.journal import Act
from strandline.core.config import SETTINGS, Setting, StreamConfig
from strandline.errors import InvalidConfig, StrandlineError

Doing = Callable[[], Awaitable[str]]


async def confirm(question: str, consequence: str, button: str, do: Doing) -> None:
    """Asks the visitor, then does it and shows the result or the error."""
    with ui.dialog() as dialog, ui.card().style("max-width: 480px; gap: 12px"):
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


async def exclude(controller: Controller, stream: str, writer: str, who: Visitor) -> str:
    who.check_acting(stream)
    act = Act("excluded", who.name, {"writer": writer})
    await controller.streams.change(stream, lambda each, now: each.exclude(writer, now), act)
    return f"{writer} is excluded: marks go on without it, and name it"


async def include(controller: Controller, stream: str, writer: str, who: Visitor) -> str:
    who.check_acting(stream)
    act = Act("included", who.name, {"writer": writer})
    await controller.streams.change(stream, lambda each, now: each.include(writer, now), act)
    return f"{writer} is included again"


async def ask_exclude(controller: Controller, stream: str, writer: str, who: Visitor) -> None:
    await confirm(
        f"Exclude {writer}?",
        "Time goes on without it at once. What it writes below the marks' time will be late, and every mark names it "
        "until it is included or registers again.",
        "Exclude",
        lambda: exclude(controller, stream, writer, who),
    )


async def ask_include(controller: Controller, stream: str, writer: str, who: Visitor) -> None:
    await confirm(
        f"Include {writer} again?",
        "It counts again from its last note on. Time may stand still until it has caught up.",
        "Include",
        lambda: include(controller, stream, writer, who),
    )


async def evaluate(controller: Controller, stream: str, key: str, who: Visitor) -> str:
    who.check_acting(stream)
    mark, holder, _ = await controller.streams.evaluate(stream, key)
    if mark is not None:
        return f"mark {mark.seq} was made, at {Times().show(mark.time)}"
    return "no mark is possible" + (f": {holder.writer} holds time back" if holder and holder.writer else "")


async def configure(controller: Controller, stream: str, settings: dict[str, Any], who: Visitor) -> str:
    who.check_acting(stream)
    act = Act("configured", who.name, settings)
    await controller.streams.change(stream, lambda each, now: each.configure(settings, now), act)
    return "the configuration is changed: " + ", ".join(f"{name} = {value}" for name, value in settings.items())


FORM = [setting for setting in SETTINGS.values() if not setting.says.stays]


async def edit(config: StreamConfig) -> dict[str, Any] | None:
    """Shows a form with the settings; returns those that were changed, or None if the visitor cancelled."""
    fields: dict[str, ui.number | ui.select] = {}
    with ui.dialog() as dialog, ui.card().style("width: 560px; max-width: 96vw; gap: 8px"):
        heading("Change the configuration")
        with ui.column().classes("w-full").style("max-height: 62vh; overflow-y: auto; gap: 6px; flex-wrap: nowrap"):
            for setting in FORM:
                fields[setting.name] = _field(setting, getattr(config, setting.name))
        with ui.row().classes("w-full justify-end"):
            ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat no-caps color=secondary")
            ui.button("Save", on_click=lambda: dialog.submit(True)).props("unelevated no-caps")
    sure = await dialog
    given = {name: field.value for name, field in fields.items()}
    dialog.delete()
    return changed(config, given) if sure else None


def _field(setting: Setting, value: Any) -> ui.number | ui.select:
    """The field of the form for a setting."""
    made = (
        ui.number(setting.name, value=value, format="%d")
        if setting.choices is None
        else ui.select([str(choice) for choice in setting.choices], label=setting.name, value=str(value))
    )
    made.props(f'dense hint="{setting.says.meaning}"').classes("w-full")
    return made


def changed(config: StreamConfig, given: dict[str, Any]) -> dict[str, Any]:
    """The settings that differ from the configuration. Raises InvalidConfig for a value that is no whole number."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, float):
            if value != int(value):
                raise InvalidConfig(name=name, value=value, wanted="a whole number")
            value = int(value)
        if value != getattr(config, name):  # a choice is equal to its text
            found[name] = value
    return found
