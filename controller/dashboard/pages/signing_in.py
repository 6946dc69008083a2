"""Where a token is given."""

from __future__ import annotations

from fastapi import FastAPI, Request
from nicegui import ui

from controller.dashboard.frame import frame
from controller.dashboard.visiting import SIGN_IN, Visitor


def add(_app: FastAPI) -> None:
    @ui.page(SIGN_IN)
    def page(request: Request, next: str = "/", wrong: str = "") -> None:
        card = "max-width: 460px; margin: 8vh auto 0; gap: 14px; padding: 28px"
        with frame(request, Visitor(None, may_act=False), "Sign in"), ui.column().classes("sl-card").style(card):
            ui.label("Sign in").classes("sl-title").props("role=heading aria-level=1")
            ui.label("This controller asks for a token. A reader's shows its streams, who has an admin's may act.")
            if wrong:
                ui.label("That token is not known here, was revoked, or is only for writing.").classes("sl-bad").props(
                    "role=alert"
                )
            with (
                ui.element("form").props(f'method=post action="{SIGN_IN}"').classes("w-full column").style("gap: 12px")
            ):
                ui.input("Token", password=True).props("outlined name=token autofocus autocomplete=current-password")
                ui.element("input").props["type"] = "hidden"
                with ui.element("input") as target:
                    target.props["type"], target.props["name"], target.props["value"] = "hidden", "next", next
                ui.button("Sign in").props("type=submit unelevated no-caps")
            ui.label("An administrator makes one with:").classes("sl-soft")
            ui.label("strandline token create NAME --role reader").classes("sl-code")
