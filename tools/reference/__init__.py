"""Writes docs/reference from the code; `python -m tools.reference --check` lists the pages that are stale.

The content of a page is in the code, once: summaries and roles in the routes, help in the metrics, sentences in the
errors, comments beside settings. To change a sentence, change it there and run `make reference`.
"""

from __future__ import annotations

from pathlib import Path

from tools.reference.contract import contract
from tools.reference.measured import metrics
from tools.reference.problems import errors
from tools.reference.routes import http
from tools.reference.settings import options

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "reference"


def pages() -> dict[str, str]:
    """The pages by file name."""
    return {
        "errors.md": errors(),
        "http.md": http(),
        "metrics.md": metrics(),
        "openapi.json": contract(),
        "options.md": options(),
    }


def stale() -> list[str]:
    """The pages that differ from the code, or are missing."""
    return [name for name, text in pages().items() if not _holds(FOLDER / name, text)]


def _holds(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text() == text
