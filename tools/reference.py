"""Writes docs/reference from the code: the HTTP API, options, errors and limits; `--check` says which page is stale.

What a page says stands in the code, once: summaries and roles in the routes, help in the commands, sentences in the
errors, comments beside the limits. Who wants another sentence changes it there and calls `make reference`.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from controller.app import create_app
from controller.cli import make_parser
from controller.settings import Settings
from strandline.config import StreamConfig
from strandline.errors import StrandlineError
from strandline.protocol.problems import STATUS

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "reference"
NEW_STREAM = ("put", "/v1/streams/{stream}")
NOTICE = "<!-- Written by `make reference` from the code: change it there. -->"

ERROR_MODULES = (
    "strandline.errors",
    "strandline.protocol.errors",
    "logs.errors",
    "writer_client.errors",
    "spark_integration.errors",
)
LIMITS = {
    "strandline.limits": "Everywhere",
    "strandline.protocol.limits": "Calls and answers",
    "writer_client.limits": "Writers",
    "reader_client.limits": "Readers",
    "controller.limits": "The controller",
    "controller.dashboard.limits": "The dashboard",
}


def pages() -> dict[str, str]:
    """Each page by its file's name."""
    return {"http.md": http(), "options.md": options(), "errors.md": errors(), "limits.md": limits()}


def stale() -> list[str]:
    """The pages that are not what the code says, or are missing."""
    return [name for name, text in pages().items() if not _holds(FOLDER / name, text)]


def _holds(file: Path, text: str) -> bool:
    return file.is_file() and file.read_text() == text


def _page(title: str, introduction: str, parts: Iterable[str]) -> str:
    wrapped = textwrap.fill(introduction, 120, break_long_words=False, break_on_hyphens=False)
    return "\n\n".join([f"# {title}", NOTICE, wrapped, *parts]) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


# -- HTTP ------------------------------------------------------------------------------------------------------------


def http() -> str:
    """Each route with its role, parameters and body."""
    document = create_app(Settings()).openapi()
    schemas: dict[str, Any] = document["components"]["schemas"]
    sections: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            section = operation.get("tags", ["operations"])[0]
            sections.setdefault(section, []).append(_route(method, path, operation, schemas))
    introduction = (
        "JSON in and out. Every answer has the controller's clock in the header `Strandline-Time`; times are whole "
        "milliseconds, a position is an offset by segment. Unknown fields are refused. What goes wrong comes back as a "
        "problem, see [errors.md](errors.md). The same, for machines, is served at `/openapi.json`, and at `/docs` to "
        "look at. Roles count once there are tokens: [tokens-and-tls.md](../tokens-and-tls.md)."
    )
    return _page(
        "The HTTP API",
        introduction,
        (f"## {name.capitalize()}\n\n" + "\n\n".join(routes) for name, routes in sections.items()),
    )


def _route(method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    who = operation.get("description", "Open to everybody.")
    parts = [f"### `{method.upper()} {path}`", f"{operation['summary']}. {who}"]
    rows = [
        (
            _code(one["name"]),
            _kind(one["schema"], schemas),
            "yes" if one.get("required") else "",
            _default(one["schema"]),
        )
        for one in operation.get("parameters", ())
        if one["in"] == "query"
    ]
    if rows:
        parts.append(_table(("parameter", "type", "required", "default"), rows))
    # What a new stream is not told is as StreamConfig has it; the body alone does not say so.
    defaults = {field.name: field.default for field in fields(StreamConfig)} if (method, path) == NEW_STREAM else {}
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    parts += [
        _table(("field", "type", "required", "default"), rows)
        for rows in (_fields(shape, schemas, defaults) for shape in _shapes(body or {}, schemas))
        if rows
    ]
    return "\n\n".join(parts)


def _shapes(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The objects that a body may be."""
    if "$ref" in schema:
        yield from _shapes(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    elif "oneOf" in schema or "anyOf" in schema:
        for one in schema.get("oneOf") or schema["anyOf"]:
            yield from _shapes(one, schemas)
    elif "properties" in schema:
        yield schema


def _fields(
    shape: Mapping[str, Any], schemas: Mapping[str, Any], defaults: Mapping[str, object]
) -> list[tuple[str, str, str, str]]:
    required = shape.get("required", ())
    return [
        (
            _code(name),
            _kind(schema, schemas),
            "yes" if name in required else "",
            _default({"default": defaults[name]} if name in defaults else schema),
        )
        for name, schema in shape["properties"].items()
    ]


def _kind(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """What a value may be, in a few words."""
    if "$ref" in schema:
        return _kind(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_kind(one, schemas) for one in schema[several]))
    if "enum" in schema:
        return " or ".join(f'"{value}"' if isinstance(value, str) else str(value).lower() for value in schema["enum"])
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "properties" in schema:
        return "{" + ", ".join(schema["properties"]) + "}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_kind(schema['additionalProperties'], schemas)}"
    kind = schema.get("type", "any")
    kinds = list(kind) if isinstance(kind, list) else [kind]
    if "array" in kinds:
        kinds[kinds.index("array")] = f"list of {_kind(schema.get('items', {}), schemas)}"
    bounds = [
        f"{word} {schema[key]:,}".replace(",", " ")
        for key, word in (("minimum", "from"), ("maximum", "to"), ("maxItems", "at most"))
        if isinstance(schema.get(key), int) and abs(schema[key]) < 2**53 - 1
    ]
    return " or ".join(kinds) + (f", {' '.join(bounds)}" if bounds else "")


def _default(schema: Mapping[str, Any]) -> str:
    if "default" not in schema:
        return ""
    value = schema["default"]
    return "null" if value is None else _code(str(value).lower() if isinstance(value, bool) else str(value)) or '""'


# -- options ---------------------------------------------------------------------------------------------------------


def options() -> str:
    """Each command with its arguments and options."""
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("STRANDLINE_")}
    try:
        parts = [part for name, parser in _commands(make_parser()) for part in _command(name, parser)]
    finally:
        os.environ.update(kept)
    introduction = (
        "What each command of `strandline` takes. Every option is an environment variable as well; what is given on "
        "the command line comes first. How the commands are used is told in [command-line.md](../command-line.md)."
    )
    return _page("Options and environment variables", introduction, parts)


def _commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield command.prog, command
                yield from _commands(command)


def _command(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    yield f"## `{name}`\n\n{' '.join((parser.description or '').split())}"
    shown = [action for action in parser._actions if action.help and action.help != argparse.SUPPRESS]
    rows = [_option(parser, action) for action in shown if "--help" not in action.option_strings]
    if rows:
        yield _table(("option", "variable", "default", "meaning"), rows)


def _option(parser: argparse.ArgumentParser, action: argparse.Action) -> tuple[str, str, str, str]:
    text = parser._get_formatter()._expand_help(action)
    found = re.search(r"\s*\[(STRANDLINE_\w+)(?:; default: (.*))?\]$", text, re.DOTALL)
    meaning = " ".join((text[: found.start()] if found else text).split())
    shown = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    name = f"{action.option_strings[-1]} {shown}" if action.option_strings and action.nargs != 0 else ""
    name = name or (action.option_strings[-1] if action.option_strings else shown)
    return _code(name), _code(found[1] if found else ""), _code((found[2] or "") if found else ""), meaning


# -- errors ----------------------------------------------------------------------------------------------------------


def errors() -> str:
    """Each error under its family, whose docstring says what its members have in common."""
    families: dict[type[StrandlineError], list[type[StrandlineError]]] = {}
    for kind in _kinds():
        families.setdefault(kind.__mro__[1], []).append(kind)
    parts = []
    for family, kinds in families.items():
        said = " ".join((inspect.getdoc(family) or "").split())
        rows = [
            (_code(kind.code), str(STATUS.get(kind, "")), f"`{kind.__name__}`", _says(kind), _fields_of(kind))
            for kind in kinds
        ]
        title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", family.__name__).capitalize()
        if family is StrandlineError:
            title, said = "Of no family", "Each says what it is about."
        table = _table(("code", "status", "class", "what it says, and what to do", "fields"), rows)
        parts.append(f"## {title}\n\n{said}\n\n{table}")
    introduction = (
        "Each error has a code that stays, a sentence that names the offending value and what would be right, and "
        "fields for programs. Over HTTP it is a problem (RFC 9457) with the code and the fields beside `title`, "
        "`status` and `detail`; the clients raise it again as the class that is named here. Errors without a status "
        "never go over HTTP. In the sentences, {time} is a value, and [ ] what is said only where it applies. 503 "
        "and 504 mean the same everywhere: 503, nothing was done and it may work later, `Retry-After` says when; 504, "
        "nobody knows whether it was done."
    )
    return _page("Errors", introduction, parts)


def _kinds() -> list[type[StrandlineError]]:
    """Every error that has a code of its own."""
    found: dict[str, type[StrandlineError]] = {}
    for module in map(importlib.import_module, ERROR_MODULES):
        for kind in vars(module).values():
            if isinstance(kind, type) and issubclass(kind, StrandlineError) and "code" in vars(kind):
                found.setdefault(kind.__qualname__, kind)
    return [kind for kind in found.values() if kind is not StrandlineError]


def _fields_of(kind: type[StrandlineError]) -> str:
    return ", ".join(_code(field.name) for field in fields(kind))  # type: ignore[arg-type]  # every leaf is a dataclass


def _says(kind: type[StrandlineError]) -> str:
    """The sentence of an error as its source has it, with the names of values in place of them."""
    own = vars(kind).get("detail")
    said = _sentence(own.fget) if isinstance(own, property) and own.fget is not None else ""
    own_words = vars(kind).get("__doc__") or ""
    told = "" if own_words.startswith(f"{kind.__name__}(") else " ".join(own_words.split())
    return f"{told} *{said}*".strip() if told else said


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


# -- limits ----------------------------------------------------------------------------------------------------------


def limits() -> str:
    """Each limit of each module, under the headings that its comments make."""
    parts = [f"## {title}: `{module}`\n\n{_limits_of(module)}" for module, title in LIMITS.items()]
    introduction = (
        "Every queue, batch, body, wait and retry has a bound. Past one that a caller can meet, the answer is 413 or "
        "422 with the limit in the problem, or 503 where it will pass. The unit stands last in each name."
    )
    return _page("Limits", introduction, parts)


def _limits_of(name: str) -> str:
    module = importlib.import_module(name)
    assert module.__file__ is not None
    heading, remark = "", ""
    rows: dict[str, list[tuple[str, str, str]]] = {}
    for line in Path(module.__file__).read_text().splitlines():
        remark = f"{remark} {line[2:]}".strip() if line.startswith("# ") else remark if line else ""
        found = re.match(r"([A-Z][A-Z0-9_]*): Final.*?=.*?(?:\s{2}#\s(.*))?$", line)
        if found:
            heading, remark = remark or heading, ""
            value = _value(getattr(module, found[1]))
            rows.setdefault(heading, []).append((_code(found[1]), value, found[2] or ""))
    tables = ((about, _table(("limit", "value", "meaning"), entries)) for about, entries in rows.items())
    return "\n\n".join(f"**{about}**\n\n{table}" if about else table for about, table in tables)


def _value(value: object) -> str:
    return f"{value:,}".replace(",", " ") if isinstance(value, int | float) else _code(str(value))


def main() -> int:
    """Writes the pages, or with --check only says which are stale."""
    if "--check" in sys.argv[1:]:
        names = stale()
        for name in names:
            print(f"docs/reference/{name} is stale: make reference")
        return 1 if names else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
