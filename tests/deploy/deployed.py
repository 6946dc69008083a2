"""The files under `deploy` as values, and what the product says about them."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Any

import click
import yaml

from controller.cli import load, strandline

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
COMPOSE = DEPLOY / "compose" / "compose.yaml"
UNIT = DEPLOY / "systemd" / "strandline.service"
ENVIRONMENT = DEPLOY / "systemd" / "strandline.env"
ADMIN = DEPLOY / "systemd" / "strandline-admin"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PROGRAM = "/opt/strandline/bin/strandline"  # as unit and script have it


def manifest(name: str) -> Any:
    return yaml.safe_load((DEPLOY / "kubernetes" / f"{name}.yaml").read_text())


def compose() -> Any:
    return yaml.safe_load(COMPOSE.read_text())


def unit(text: str | None = None) -> dict[str, list[str]]:
    """The settings of a unit, each with its values in their order."""
    found: dict[str, list[str]] = {}
    for line in (UNIT.read_text() if text is None else text).splitlines():
        if line and not line.startswith(("#", "[")):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def assignments(lines: list[str]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in lines)


def environment_file(*, with_comments: bool) -> dict[str, str]:
    """What the example sets, or with comments also what it could set."""
    lines = ENVIRONMENT.read_text().splitlines()
    lines = [line.removeprefix("#") for line in lines] if with_comments else lines
    return assignments([line for line in lines if line.startswith("STRANDLINE_")])


def variables(command: str) -> set[str]:
    """The environment variables of a command."""
    named = [each.envvar for each in load(command).params]
    return {each for each in named if isinstance(each, str)}


def check_command(words: list[str]) -> None:
    """Raises a ClickException if `strandline` does not take these words. Nothing is run."""
    context: click.Context = strandline.make_context("strandline", list(words[:1]))
    found: click.Command = load(words[0])
    rest = words[1:]
    while isinstance(found, click.Group):
        context = found.make_context(found.name, rest[:1], parent=context)
        _, inner, rest = found.resolve_command(context, rest)
        assert inner is not None
        found = inner
    found.make_context(found.name, rest, parent=context)


def script_properties() -> list[str]:
    """The properties that the script gives to systemd-run."""
    words = shlex.split(ADMIN.read_text(), comments=True)
    return [word.removeprefix("--property=") for word in words if word.startswith("--property=")]
