"""Errors, by family, with their sentences."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields

from strandline.errors import StrandlineError
from strandline.wire.problems import HINTS
from tools.reference.text import code, items, page

ERROR_MODULES = (
    "strandline.errors",
    "strandline.logs.errors",
    "writer_client.errors",
    "reader_client.errors",
    "spark_integration.errors",
)


def errors() -> str:
    """Each error under its family, with the family's docstring."""
    families: dict[type[StrandlineError], list[type[StrandlineError]]] = {}
    for kind in dict.fromkeys(_kinds()):
        families.setdefault(kind.__mro__[1], []).append(kind)
    parts = []
    for family, kinds in families.items():
        wording = " ".join((inspect.getdoc(family) or "").split())
        title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", family.__name__).capitalize()
        if family is StrandlineError:
            title, wording = "Without a family", "The other errors."
        parts.append(f"## {title}\n\n{wording}\n\n{items(map(_item, kinds))}")
    introduction = (
        "Each error has a stable code, a sentence that names the offending value and what would be right, and fields "
        "for programs. Over HTTP it is a problem (RFC 9457) with the code and the fields beside `title`, `status` and "
        "`detail`; the clients raise it as the class that is named here, which is below the class of its family. "
        "Errors without a status never go over HTTP. All can be imported from `strandline`, as "
        "`from strandline import Fenced`, and those of Spark from `spark_integration.errors`. "
        "A sentence stands here if it is always the same but for {values}. "
        "[What to do with an answer](../how-to/other-languages.md#what-to-do-with-an-answer) goes by its status."
    )
    return page("Errors", introduction, parts)


def _kinds() -> Iterator[type[StrandlineError]]:
    """Every error with a code of its own."""
    for module in map(importlib.import_module, ERROR_MODULES):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, StrandlineError) and not kind.is_family():
                yield kind


def _item(kind: type[StrandlineError]) -> tuple[str, str, str]:
    status = f"{kind.status}, " if kind in HINTS else ""
    about = vars(kind).get("__doc__") or ""
    about = "" if about.startswith(f"{kind.__name__}(") else " ".join(about.split())
    sentence = kind.says.replace("!r}", "}").replace("{{", "{").replace("}}", "}")
    names = [code(field.name) for field in fields(kind)]
    return (
        f"{code(kind.code)} ({status}{code(kind.__name__)})",
        " ".join(filter(None, (about, sentence and f"*{sentence}*"))),
        f"fields {', '.join(names)}" if names else "",
    )
