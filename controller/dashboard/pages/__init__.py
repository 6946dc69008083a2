"""The pages: one module each."""

from __future__ import annotations

from fastapi import FastAPI

from controller.dashboard.pages import controllers, group, journal, lag, overview, stream, tokens, topology, writer


def add_pages(app: FastAPI) -> None:
    """Registers every page; they find the controller on the application."""
    for each in (overview, stream, writer, group, lag, journal, topology, controllers, tokens):
        each.add(app)
