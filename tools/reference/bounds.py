"""Limits, under headings from the comments of their modules."""

from __future__ import annotations

import importlib
import re

from tools.reference.text import code, items, number, page, source_of

LIMITS = {
    "strandline.limits": "The contract",
    "controller.limits": "What callers may take of a controller",
}


def limits() -> str:
    """Each limit of each module, under headings from its comments."""
    parts = [f"## {title}: `{module}`\n\n{_limits_of(module)}" for module, title in LIMITS.items()]
    introduction = (
        "What a caller can make grow has a bound. Past it the answer is 413 or 422 with the limit in the problem, or "
        "503 if a later call may succeed. What only tunes our own code stands beside its use. The unit is last in "
        "each name."
    )
    return page("Limits", introduction, parts)


def _limits_of(name: str) -> str:
    module = importlib.import_module(name)
    heading, remark = "", ""
    rows: dict[str, list[tuple[str, str]]] = {}
    for line in map(str.strip, source_of(name).splitlines()):
        remark = f"{remark} {line[2:]}".strip() if line.startswith("# ") else remark if line else ""
        found = re.match(r"([A-Z][A-Z0-9_]*): Final.*?=.*?(?:\s{2}#\s(.*))?$", line)
        found = found or re.match(r"(\w+): (?:int|float) = .*?(?:\s{2}#\s(.*))$", line)  # a field of `Limits`
        if found and found[1] != "DEFAULT_LIMITS":
            heading, remark = remark or heading, ""
            value = _value(getattr(module, found[1], None) or getattr(module.DEFAULT_LIMITS, found[1]))
            rows.setdefault(heading, []).append((f"{code(found[1])} {value}", found[2] or ""))
    lists = ((about, items(entries)) for about, entries in rows.items())
    return "\n\n".join(f"**{about}**\n\n{text}" if about else text for about, text in lists)


def _value(value: object) -> str:
    return number(value) if isinstance(value, int | float) else code(str(value))
