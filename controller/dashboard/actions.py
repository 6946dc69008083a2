"""What an administrator does from a page: asked for, confirmed, done through the services, and told."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from nicegui import ui

from controller.controller import Controller
from controller.dashboard.visitors import Visitor
from controller.dashboard.widgets import heading
from controller.format import Times
from controller.records.journal import Act
from strandline.core.config import StreamConfig
from strandline.errors import InvalidConfig, StrandlineError

Doing = Callable[[], Awaitable[str]]


async def confirm(question: str, consequence: str, button: str, do: Doing) -> None:
    """Asks; then does it and says what came of it, or why not."""
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
    """Does something and says what came of it, or why not."""
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
    return f"{writer} is brought back"


async def ask_exclude(controller: Controller, stream: str, writer: str, who: Visitor) -> None:
    await confirm(
        f"Exclude {writer}?",
        "Time goes on without it at once. What it writes below the marks' time will be late, and every mark names it "
        "until it is brought back or registers again.",
        "Exclude",
        lambda: exclude(controller, stream, writer, who),
    )


async def ask_include(controller: Controller, stream: str, writer: str, who: Visitor) -> None:
    await confirm(
        f"Bring {writer} back?",
        "It counts again from its last note on, so time may stand until it has caught up.",
        "Bring back",
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


# What may be changed while a stream runs, whether null is a value, and what it means.
SETTINGS: dict[str, tuple[bool, str]] = {
    "writer_timeout_ms": (True, "a writer silent for so long is let go; empty: never"),
    "min_writers": (False, "no mark before so many have noted"),
    "mark_interval_ms": (True, "at least so long between marks; empty: only on demand"),
    "max_ahead_ms": (True, "times further ahead of the clock are refused; empty: no limit"),
    "idle_lag_ms": (False, "how far behind the clock a stream at rest follows"),
    "clock_skew_ms": (False, "taken off reported times, for brokers that keep their own clock"),
    "forget_after_ms": (False, "how long marks go on naming a lost writer, before it may be forgotten"),
    "max_writers": (False, "one writer more is refused; closed and forgotten ones do not count"),
    "mark_retention_ms": (True, "marks are kept so long; empty: all above the head"),
}


async def edit(config: StreamConfig) -> dict[str, Any] | None:
    """A form with the settings; returns those that were changed, None where it was given up."""
    fields: dict[str, ui.number] = {}
    with ui.dialog() as dialog, ui.card().style("width: 560px; max-width: 96vw; gap: 8px"):
        heading("Change the configuration")
        with ui.column().classes("w-full").style("max-height: 62vh; overflow-y: auto; gap: 6px; flex-wrap: nowrap"):
            late = ui.select(["hold", "skip"], label="late_writers", value=str(config.late_writers)).classes("w-full")
            for name, (_, meaning) in SETTINGS.items():
                fields[name] = (
                    ui.number(name, value=getattr(config, name), format="%d")
                    .props(f'dense hint="{meaning}"')
                    .classes("w-full")
                )
        with ui.row().classes("w-full justify-end"):
            ui.button("Cancel", on_click=lambda: dialog.submit(False)).props("flat no-caps color=secondary")
            ui.button("Save", on_click=lambda: dialog.submit(True)).props("unelevated no-caps")
    sure = await dialog
    given = {name: field.value for name, field in fields.items()} | {"late_writers": late.value}
    dialog.delete()
    return changed(config, given) if sure else None


def changed(config: StreamConfig, given: dict[str, Any]) -> dict[str, Any]:
    """The settings that differ from what they are. Raises InvalidConfig for one that is no whole number."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, float):
            if value != int(value):
                raise InvalidConfig(name=name, value=value, wanted="a whole number")
            value = int(value)
        now = getattr(config, name)
        if value != (str(now) if name == "late_writers" else now):
            found[name] = value
    return found
