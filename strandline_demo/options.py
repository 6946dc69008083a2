"""The options of `strandline demo`. Standard library only, so that `--help` is quick."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strandline_demo.settings import (
    DELAY_DEFAULT_MS,
    DURATION_DEFAULT_MS,
    OUTAGE_DEFAULT_MS,
    PORT_DEFAULT,
    RATE_DEFAULT,
    SKEW_DEFAULT_MS,
    DemoSettings,
)

OUT_DEFAULT: Final = "strandline-demo.png"
PORTS: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What was asked for: the world, and where things go."""

    settings: DemoSettings
    out: Path
    port: int
    keep: bool


def add_knobs(parser: argparse.ArgumentParser, environment: Mapping[str, str] = os.environ) -> None:
    """Adds the options. Each is an environment variable as well, STRANDLINE_ and its name."""

    def add(name: str, kind: Callable[[str], Any], default: object, metavar: str, text: str) -> None:
        variable = f"STRANDLINE_{name.upper()}"
        # argparse passes a default that is text through `kind`, so a bad variable is told like a bad option.
        given = environment.get(variable, str(default))
        text = f"{text} [{variable}; default: {default}]".replace("%", "%%")
        parser.add_argument(f"--{name}", type=kind, default=given, metavar=metavar, help=text)

    add("rate", int, RATE_DEFAULT, "N", "events a second that each of the four writers gets")
    add("skew", _milliseconds, f"{SKEW_DEFAULT_MS / 1000:g}", "S", "seconds that the slow writer's events are late")
    add("outage", _milliseconds, f"{OUTAGE_DEFAULT_MS / 1000:g}", "S", "seconds that the offline writer is away")
    add("duration", _milliseconds, f"{DURATION_DEFAULT_MS / 1000:g}", "S", "seconds that events happen for")
    add(
        "delay", _milliseconds, f"{DELAY_DEFAULT_MS / 1000:g}", "S",
        "seconds of delay that the plain withWatermark is given",
    )  # fmt: skip
    add("seed", int, 1, "N", "another seed is another world; the same one is the same events")
    add("out", Path, OUT_DEFAULT, "FILE", "where the picture goes (PNG)")
    add("port", _port, PORT_DEFAULT, "P", "the controller's port; where it is taken, another is used")
    kept = environment.get("STRANDLINE_KEEP", "").strip().lower() in ("1", "true", "yes", "on")
    text = "leave the controller running for a look round, and keep the log, the store and all output [STRANDLINE_KEEP]"
    parser.add_argument("--keep", action="store_true", default=kept, help=text)


def chosen(options: argparse.Namespace) -> Choices:
    """The options as values. Raises InvalidKnob."""
    settings = DemoSettings(
        rate=options.rate, skew_ms=options.skew, outage_ms=options.outage, duration_ms=options.duration,
        delay_ms=options.delay, seed=options.seed,
    )  # fmt: skip
    return Choices(settings=settings, out=options.out, port=options.port, keep=options.keep)


def _milliseconds(text: str) -> int:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return round(seconds * 1000)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > PORTS:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 to {PORTS}, 0 for any that is free")
    return int(text)
