"""Errors, by family, with their sentences."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping
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
    for kind in _kinds():
        families.setdefault(kind.__mro__[1], []).append(kind)
    parts = []
    for family, kinds in families.items():
        wording = " ".join((inspect.getdoc(family) or "").split())
        rows = [
            (f"{code(kind.code)} ({_status(kind)}{code(kind.__name__)})", _wording(kind), _fields_of(kind))
            for kind in kinds
        ]
        title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", family.__name__).capitalize()
        if family is StrandlineError:
            title, wording = "Without a family", "The other errors."
        parts.append(f"## {title}\n\n{wording}\n\n{items(rows)}")
    introduction = (
        "Each error has a stable code, a sentence that names the offending value and what would be right, and fields "
        "for programs. Over HTTP it is a problem (RFC 9457) with the code and the fields beside `title`, `status` and "
        "`detail`; the clients raise it as the class that is named here, which is below the class of its family. "
        "Errors without a status never go over HTTP. All can be imported from `strandline`, as "
        "`from strandline import Fenced`, and those of Spark from `spark_integration.errors`. "
        "In the sentences, {time} is a value, and [ ] encloses text that "
        "is only there when it applies. 503 and 504 mean the same everywhere: 503, nothing was done and a retry after "
        "`Retry-After` may succeed; 504, it is not known whether it was done."
    )
    tree = "\n".join((StrandlineError.__name__, *_tree(StrandlineError, list(families))))
    return page("Errors", introduction, [f"```text\n{tree}\n```", *parts])


def _kinds() -> list[type[StrandlineError]]:
    """Every error with a code of its own."""
    found: dict[str, type[StrandlineError]] = {}
    for module in map(importlib.import_module, ERROR_MODULES):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, StrandlineError) and not kind.is_family():
                found.setdefault(kind.__qualname__, kind)
    return list(found.values())


def _tree(kind: type[StrandlineError], among: Collection[type[StrandlineError]], indent: str = "") -> Iterator[str]:
    """The classes below one of them, each on a line below its parent; families first."""
    below = [each for each in kind.__subclasses__() if any(issubclass(one, each) for one in among)]
    below.sort(key=lambda each: (not each.is_family(), each.__name__))
    for each in below:
        is_last = each is below[-1]
        yield f"{indent}{'└── ' if is_last else '├── '}{each.__name__}"
        yield from _tree(each, among, indent + ("    " if is_last else "│   "))


def _status(kind: type[StrandlineError]) -> str:
    return f"{kind.status}, " if kind in HINTS else ""


def _fields_of(kind: type[StrandlineError]) -> str:
    names = [code(field.name) for field in fields(kind)]
    return f"fields {', '.join(names)}" if names else ""


def _wording(kind: type[StrandlineError]) -> str:
    """The sentence of an error from its source, with names in place of values."""
    own = vars(kind).get("detail")
    wording = kind.says.replace("!r}", "}").replace("{{", "{").replace("}}", "}")
    if isinstance(own, property) and own.fget is not None:
        wording = _sentence(own.fget)
    own_words = vars(kind).get("__doc__") or ""
    own_wording = "" if own_words.startswith(f"{kind.__name__}(") else " ".join(own_words.split())
    wording = wording.replace("][", "]\\[")  # two brackets side by side would be a link
    return f"{own_wording} *{wording}*".strip() if own_wording else wording


def _sentence(function: Callable[..., str]) -> str:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    named: dict[str, ast.expr] = {}
    returned: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named[node.targets[0].id] = node.value
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and node.value is not None:
            returned.append(_text(node.value, named))
    return " / ".join(returned)


def _text(node: ast.expr, named: Mapping[str, ast.expr]) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text(value, named) for value in values)
        case ast.FormattedValue(value=value):
            return _text(value, named)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return f"{{{name}}}"
        case ast.Name(id=name) if name in named:
            return _text(named[name], {other: value for other, value in named.items() if other != name})
        case ast.IfExp(body=body, orelse=ast.Constant(value="")):
            return f"[{_text(body, named)}]"
        case ast.IfExp(body=body, orelse=orelse):
            return f"[{_text(body, named)}; else {_text(orelse, named)}]"
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _text(left, named) + _text(right, named)
        case ast.BinOp(op=ast.Sub(), left=ast.Attribute(attr=left), right=ast.Attribute(attr=right)):
            return f"{{{left} - {right}}}"
        case _:
            inner = next(
                (each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute) and _is_self(each)), "…"
            )
            return f"{{{inner}}}"


def _is_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"
