"""What was measured last, kept in docs/measured.json, and the table of docs/benchmarks.md, which is made from it.

    python -m benchmarks.record

writes it again, after the way that it looks was changed; `python -m benchmarks --record` keeps what it
measured, and does the same.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from benchmarks.figures import Figure, Report, markdown
from benchmarks.servers import ROOT

FILE: Final = Path("docs/measured.json")
PAGE: Final = Path("docs/benchmarks.md")
TABLE: Final = re.compile(r"(<!-- table: results -->\n).*?(<!-- end of table -->)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Record:
    """The last report of each part of the benchmarks, and the day on which it was measured."""

    parts: dict[str, tuple[str, Report]]

    @classmethod
    def read(cls, root: Path = ROOT) -> Self:
        found = json.loads((root / FILE).read_text())
        return cls({name: (part["measured"], Report.of(part)) for name, part in found.items()})

    def write(self, root: Path = ROOT) -> None:
        """Writes the file, and the table of the page."""
        found = {
            name: {"measured": day, "figures": [asdict(each) for each in report.figures]}
            for name, (day, report) in self.parts.items()
        }
        (root / FILE).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
        (root / PAGE).write_text(with_table((root / PAGE).read_text(), self))

    def with_part(self, name: str, report: Report, day: str, order: Sequence[str]) -> Self:
        """The record with this report in place of an earlier one of the part; parts are in this order."""
        parts = {**self.parts, name: (day, report)}
        return type(self)({each: parts[each] for each in order if each in parts})

    @property
    def figures(self) -> list[Figure]:
        return [figure for _, report in self.parts.values() for figure in report.figures]


def keep(name: str, report: Report, order: Sequence[str]) -> None:
    """Keeps what a part reports, unless it lacks something."""
    if not report.missing:
        Record.read().with_part(name, report, time.strftime("%Y-%m-%d"), order).write()


def with_table(page: str, record: Record) -> str:
    """The page with its table."""
    lines = "\n".join(["", *results(record), "", ""])
    return TABLE.sub(lambda found: f"{found[1]}{lines}{found[2]}", page)


def results(record: Record) -> Iterator[str]:
    """All figures, and when they were measured."""
    yield from markdown(record.figures)
    yield ""
    days: dict[str, list[str]] = {}
    for name, (day, _) in record.parts.items():
        days.setdefault(day, []).append(f"`{name}`")
    for day, names in sorted(days.items()):
        yield f"- Measured on {day}: {', '.join(names)}."


if __name__ == "__main__":
    Record.read().write()
