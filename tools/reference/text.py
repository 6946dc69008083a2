"""The layout of reference pages."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

JSON_COLUMNS = 110
NOTICE = "<!-- Written by `make reference` from the code: change it there. -->"


def page(title: str, introduction: str, parts: Iterable[str]) -> str:
    return "\n\n".join([f"# {title}", NOTICE, wrapped(introduction), *parts]) + "\n"


def wrapped(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def items(rows: Iterable[Sequence[str]]) -> str:
    """A list, each item of it a name and what is said of it, for what a table would have empty cells."""
    return "\n".join(
        "- " + ": ".join(filter(None, (name, "; ".join(filter(None, details))))) for name, *details in rows
    )


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def number(value: float) -> str:
    return f"{value:,}".replace(",", " ")


def json_block(value: object) -> str:
    """JSON as a block of a page, no line of it longer than it has to be."""
    return f"```json\n{laid_out(value)}\n```"


def laid_out(value: object) -> str:
    """JSON with as few lines as its width allows."""
    return _json(value, 0)


def _json(value: object, depth: int) -> str:
    short = json.dumps(value)
    if len(short) + 2 * depth <= JSON_COLUMNS or not isinstance(value, dict | list) or not value:
        return short
    pad = "  " * (depth + 1)
    if isinstance(value, dict):
        inner = [f"{pad}{json.dumps(name)}: {_json(each, depth + 1)}" for name, each in value.items()]
        return "{\n" + ",\n".join(inner) + "\n" + pad[2:] + "}"
    return "[\n" + ",\n".join(pad + _json(each, depth + 1) for each in value) + "\n" + pad[2:] + "]"


def commented(module: str, name: str) -> Iterator[tuple[str, str]]:
    """Each field of a class with the comment above it."""
    body = inspect.getsource(importlib.import_module(module)).partition(f"\nclass {name}")[2]
    remark = ""
    for line in body.splitlines()[1:]:
        if line and not line.startswith(" "):
            return
        if line.startswith("    # "):
            remark = f"{remark} {line[6:]}".strip()
        elif found := re.match(r"    (\w+): ", line):
            yield found[1], remark
            remark = ""
        elif line.startswith("    def "):
            return
