"""What all benchmarks share: statistics, and the figures that `python -m benchmarks` closes with.

A benchmark prints its own table, and returns a `Report`. With `--figures FILE` it writes that as JSON as well, which is
how it comes back to the program that runs them all.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Figure:
    """What was measured, beside what, both with their units, and the first as a multiple of the second.

    `aim` says what we want, of the number or of the ratio. `value` is what was measured as a number, for what is
    computed from it.
    """

    what: str
    measured: str
    beside: str
    ratio: str
    aim: str = ""
    value: float | None = None

    @classmethod
    def of(cls, what: str, measured: float, beside: str, reference: float, unit: str, aim: str = "") -> Self:
        """Two numbers of the same unit. `beside` names what the second is of."""
        shown, ratio = f"{number(measured)} {unit}", number(measured / reference)
        return cls(what, shown, f"{beside}: {number(reference)}", ratio, aim, measured)

    @classmethod
    def lost(cls, what: str, lost: int, events: int, by_delay_s: Mapping[int, int]) -> Self:
        """Events that an exact watermark lost, and those of greatest event time − delay, which has no ratio to none."""
        guessed = ", ".join(f"−{delay} s: {each:,}" for delay, each in by_delay_s.items())
        return cls(what, f"{lost:,} of {events:,}", guessed, "")


@dataclass(frozen=True, slots=True)
class Report:
    """What a benchmark found, and what it could not measure: why, and how to get it."""

    figures: list[Figure] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    failed: bool = False  # it did not come to its end

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls.of(json.loads(path.read_text()))

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Self:
        """What JSON has of one."""
        return cls([Figure(**each) for each in found["figures"]], found.get("missing", []))


def number(value: float) -> str:
    """Three digits or fewer, or all of those before the point."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.2g}"


def percentile(values: Iterable[float], percent: int) -> float:
    """The least value that so many of a hundred do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def spread(values: Sequence[float]) -> str:
    return f"{number(min(values))}–{number(max(values))}"


def markdown(figures: Iterable[Figure]) -> Iterator[str]:
    """The closing table."""
    yield "| figure | measured | beside | ratio | aim |"
    yield "|---|--:|---|--:|---|"
    for each in figures:
        yield f"| {each.what} | {each.measured} | {each.beside} | {each.ratio} | {each.aim} |"


def median(values: Iterable[float]) -> float:
    return float(statistics.median(values))


def arguments(says: str | None, **defaults: int) -> argparse.ArgumentParser:
    """The options of a benchmark: `--figures`, and whole numbers with these defaults."""
    parser = argparse.ArgumentParser(description=(says or "").splitlines()[0])
    parser.add_argument("--figures", type=Path, metavar="FILE", help="where to write the closing figures, as JSON")
    for name, default in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default, metavar="N", help=f"{default}")
    return parser


def run(measure: Callable[[argparse.Namespace], Report], options: argparse.Namespace) -> None:
    """Measures, says what is missing, and writes the figures where they are wanted."""
    report = measure(options)
    for each in report.missing:
        print(f"not measured: {each}")
    if options.figures is not None:
        report.write(options.figures)
