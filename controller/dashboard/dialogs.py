"""The one dialog in which a page asks before it does something.

An act names the thing and says what follows. If it has fields, the form comes first; then the dialog says in words what
is about to be done. What is refused is said in the dialog, which stays open with all that was entered.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from nicegui import ui

from controller.dashboard.fields import Field
from controller.dashboard.widgets import code, heading
from controller.storage.refusals import StoreRefused
from strandline.errors import StrandlineError

Values: TypeAlias = Mapping[str, Any]

_REFUSALS: Final = (StrandlineError, StoreRefused)


def _nothing_more(_values: Values) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Something that a visitor may do. `do` gets the values of the fields by name, and returns what was done, in words.

    `says` puts the values into words before they are used, and raises ValueError for what they cannot be together.
    With `typed`, the visitor has to type this name first. `then` is the page to go to when it is done. With `keep`,
    what `do` returns is shown below this sentence until the visitor closes the dialog.
    """

    question: str
    consequence: str
    button: str
    do: Callable[[Values], Awaitable[str]]
    fields: Sequence[Field] = ()
    says: Callable[[Values], str] = _nothing_more
    typed: str | None = None
    then: str | None = None
    keep: str | None = None


async def ask(act: Act) -> bool:
    """Asks the visitor, does it, and shows the result; returns whether it was done."""
    return await _Dialog(act).run()


async def ask_about(making: Awaitable[Act]) -> bool:
    """The same for an act that has to be looked up first; what goes wrong there is shown too."""
    try:
        act = await making
    except _REFUSALS as error:
        ui.notify(str(error), type="negative", multi_line=True, timeout=10_000, close_button="Close")
        return False
    return await ask(act)


class _Dialog:
    """First the form, if the act has fields, then the question."""

    def __init__(self, act: Act) -> None:
        self._act = act
        self._values: dict[str, Any] = {}
        self._fields: dict[str, ui.input | ui.select] = {}
        self._typed: ui.input | None = None
        self._kept = False
        self._dialog = ui.dialog()
        self._dialog.props["aria-label"] = act.question
        with self._dialog, ui.card().style("width: 560px; max-width: 96vw; gap: 12px"):
            heading(act.question)
            self._form = ui.column().classes("full-width")
            self._form.style("max-height: 62vh; overflow-y: auto; gap: 6px; flex-wrap: nowrap")
            with self._form:
                for field in act.fields:
                    self._fields[field.name] = _drawn(field)
            with ui.column().classes("full-width").style("gap: 12px") as self._question:
                self._says = ui.label().style("white-space: pre-line; overflow-wrap: anywhere; font-weight: 600")
                ui.label(act.consequence).style("overflow-wrap: anywhere")
                if act.typed is not None:
                    self._typed = ui.input(f"Type {act.typed} to confirm").props("dense outlined autofocus")
                    self._typed.props("autocomplete=off spellcheck=false").classes("full-width")
                    self._typed.on_value_change(self._show_whether_typed)
            self._wrong = ui.label().classes("sl-bad").props("role=alert").style("overflow-wrap: anywhere")
            with ui.row().classes("full-width justify-end"):
                self._cancel = ui.button("Cancel", on_click=lambda: self._dialog.submit(self._kept))
                self._back = ui.button("Back", on_click=self._show_form)
                for each in (self._cancel, self._back):
                    each.props("flat no-caps color=secondary")
                self._next = ui.button("Continue", on_click=self._read).props("unelevated no-caps")
                self._sure = ui.button(act.button, on_click=self._do).props("unelevated no-caps color=negative")
                if act.typed is None:
                    self._sure.props("autofocus")
        if act.fields:
            self._show_form()
        else:
            self._show_question("")

    async def run(self) -> bool:
        done = await self._dialog
        self._dialog.delete()
        return bool(done)

    def _show_form(self) -> None:
        self._show(form=True)

    def _show_question(self, says: str) -> None:
        self._says.set_text(says)
        self._says.set_visibility(bool(says))
        self._show(form=False)
        self._show_whether_typed()

    def _show(self, *, form: bool) -> None:
        self._say("")
        self._form.set_visibility(form)
        self._next.set_visibility(form)
        self._question.set_visibility(not form)
        self._sure.set_visibility(not form)
        self._back.set_visibility(not form and bool(self._act.fields))

    def _say(self, wrong: str) -> None:
        self._wrong.set_text(wrong)
        self._wrong.set_visibility(bool(wrong))

    def _show_whether_typed(self) -> None:
        self._sure.set_enabled(self._is_typed())

    def _is_typed(self) -> bool:
        return self._typed is None or (self._typed.value or "").strip() == self._act.typed

    def _read(self) -> None:
        """Goes on to the question. A value that cannot be is refused where it stands."""
        wrong = [each for each in self._fields.values() if not each.validate()]  # each of them says what is wrong
        if wrong:
            return
        self._values = {
            field.name: field.read((self._fields[field.name].value or "").strip()) for field in self._act.fields
        }
        try:
            says = self._act.says(self._values)
        except (ValueError, *_REFUSALS) as error:
            self._say(str(error))
        else:
            self._show_question(says)

    async def _do(self) -> None:
        if not self._is_typed():
            return
        self._say("")
        self._wait(True)  # nobody closes the dialog before it is known what came of it
        self._leave(self._act.then is not None)
        try:
            done = await self._act.do(self._values)
        except _REFUSALS as error:
            self._leave(False)
            self._say(str(error))
        else:
            if self._act.keep is not None:
                self._keep(self._act.keep, done)
                return
            ui.notify(done, type="positive", multi_line=True)
            if self._act.then is not None:
                ui.navigate.to(self._act.then)
            self._dialog.submit(True)
        finally:
            self._wait(False)

    def _leave(self, does: bool) -> None:
        """Tells the page whether it is about to go elsewhere."""
        _ = ui.run_javascript(f"strandline.leaves({json.dumps(does)})")

    def _keep(self, sentence: str, kept: str) -> None:
        """Shows what can be seen only once."""
        self._question.clear()
        with self._question:
            ui.label(sentence)
            code(kept, "Copy it")
        self._sure.set_visibility(False)
        self._back.set_visibility(False)
        self._cancel.set_text("Close")
        self._kept = True

    def _wait(self, waiting: bool) -> None:
        stays = waiting or self._kept
        _ = self._dialog.props("persistent" if stays else "", remove="" if stays else "persistent")
        self._sure.props("loading" if waiting else "", remove="" if waiting else "loading")
        for each in (self._cancel, self._back):
            each.set_enabled(not waiting)


def _drawn(field: Field) -> ui.input | ui.select:
    made = (
        ui.input(field.name, value=field.value, validation=field.refusal)
        if field.choices is None
        else ui.select(list(field.choices), label=field.name, value=field.value)
    )
    made.props["hint"] = field.hint
    made.props("dense").classes("full-width")
    return made
