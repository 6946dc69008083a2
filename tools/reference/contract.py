"""The contract of the HTTP API: an OpenAPI document in a file, and what a change to it would break.

The file is what a controller serves at `/openapi.json`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from controller.app import create_app
from controller.settings import Settings
from tools.reference.text import laid_out

FILE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "openapi.json"

Document = Mapping[str, Any]
Schema = Mapping[str, Any]

_AT_LEAST: Final = ("minimum", "exclusiveMinimum", "minItems", "minLength", "minProperties")
_AT_MOST: Final = ("maximum", "exclusiveMaximum", "maxItems", "maxLength", "maxProperties")


def contract() -> str:
    """The contract as the file has it."""
    return laid_out(described()) + "\n"


def described() -> dict[str, Any]:
    """The contract as the code has it."""
    return create_app(Settings()).openapi()


def broken_by_the_code(file: Path = FILE) -> list[str]:
    """What callers of the contract in a file would miss in what the code has now."""
    return broken(json.loads(file.read_text()), described()) if file.is_file() else []


def broken(old: Document, new: Document) -> list[str]:
    """What a caller who knows `old` would miss in `new`, one line each; nothing if the major version was raised.

    The contract may grow: routes, parameters and fields that may be left out, fields and words of answers, wider
    bounds. Rules that the document has only as prose, such as the role that a call needs, are not compared.
    """
    if _major(old) != _major(new):
        return []
    after = _operations(new)
    comparison = _Comparison(old, new)
    return list(
        dict.fromkeys(
            line
            for call, operation in _operations(old).items()
            for line in (comparison.operation(call, operation, after[call]) if call in after else [f"{call} is gone"])
        )
    )


def _major(document: Document) -> str:
    version: str = document["info"]["version"]
    return version.partition(".")[0]


def _operations(document: Document) -> dict[str, Any]:
    return {
        f"{method.upper()} {path}": operation
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }


class _Comparison:
    """Two documents. Of what callers send, all that was taken has to be taken; of what is answered, all that is
    answered has to be something that was answered before."""

    def __init__(self, old: Document, new: Document) -> None:
        self._old: Schema = old.get("components", {}).get("schemas", {})
        self._new: Schema = new.get("components", {}).get("schemas", {})
        self._under_way: set[tuple[str, str, bool]] = set()

    def operation(self, call: str, old: Document, new: Document) -> Iterator[str]:
        """What the new form of a call breaks."""
        if not old.get("security") and new.get("security"):
            yield f"{call} needs a token now"
        yield from self._parameters(call, old.get("parameters", ()), new.get("parameters", ()))
        yield from self._body(call, old.get("requestBody", {}), new.get("requestBody", {}))
        for status, response in old["responses"].items():
            if status not in new["responses"]:
                yield f"{call} no longer answers {status}"
                continue
            offered = new["responses"][status].get("content", {})
            yield from self._content(f"{call}, answer {status}", response.get("content", {}), offered, sent=False)

    def _parameters(self, call: str, old: Iterable[Document], new: Iterable[Document]) -> Iterator[str]:
        before = {(each["in"], each["name"]): each for each in old}
        after = {(each["in"], each["name"]): each for each in new}
        for key, parameter in after.items():
            if parameter.get("required") and not before.get(key, {}).get("required"):
                yield f"{call}, parameter {key[1]} is required now"
        for key, parameter in before.items():
            place = f"{call}, parameter {key[1]}"
            if key not in after:
                yield f"{place} is gone"
            else:
                yield from self._schema(place, parameter["schema"], after[key]["schema"], sent=True)

    def _body(self, call: str, old: Document, new: Document) -> Iterator[str]:
        if new.get("required") and not old.get("required"):
            yield f"{call} needs a body now"
        yield from self._content(f"{call}, body", old.get("content", {}), new.get("content", {}), sent=True)

    def _content(self, place: str, old: Document, new: Document, *, sent: bool) -> Iterator[str]:
        for media_type, body in old.items():
            if media_type not in new:
                yield f"{place} is {media_type} no more"
            else:
                yield from self._schema(place, body["schema"], new[media_type]["schema"], sent=sent)

    def _schema(self, place: str, old: Schema, new: Schema, *, sent: bool) -> Iterator[str]:
        key = (str(old.get("$ref")), str(new.get("$ref")), sent)
        if "$ref" in old and "$ref" in new:
            if key in self._under_way:  # a shape that contains itself
                return
            self._under_way.add(key)
        if sent and "default" in old and ("default" not in new or old["default"] != new["default"]):
            yield f"{place} has another default"
        befores, afters = list(_forms(old, self._old)), list(_forms(new, self._new))
        narrow, wide = (befores, afters) if sent else (afters, befores)
        for name, form in narrow:
            others = [each for shape, each in wide if name and shape == name] or [each for _, each in wide]
            pairs = [(form, each) if sent else (each, form) for each in others]
            found = {id(pair): list(self._form(place, *pair, sent=sent)) for pair in pairs}
            if [] not in found.values():
                alike = [found[id(pair)] for pair in pairs if _kind(pair[0]) == _kind(pair[1])]
                yield from alike[0] if len(alike) == 1 else [f"{place} {'refuses' if sent else 'may be'} {_kind(form)}"]
        self._under_way.discard(key)

    def _form(self, place: str, old: Schema, new: Schema, *, sent: bool) -> Iterator[str]:
        """What is broken by one form of a value in place of another."""
        narrow, wide = (old, new) if sent else (new, old)
        if wide.get("type") is not None and narrow.get("type") not in _TYPES_OF.get(wide["type"], {wide["type"]}):
            yield f"{place} is {_kind(new)}"
            return
        if "enum" in wide and "enum" not in narrow:
            yield f"{place} is {_kind(new)}"
        elif sent and "enum" in wide:  # an answer may have words that are new
            yield from (f"{place} refuses {json.dumps(each)}" for each in narrow["enum"] if each not in wide["enum"])
        if not _within(narrow, wide):
            yield f"{place} has other bounds"
        needed = set(wide.get("required", ())) - set(narrow.get("required", ()))
        for name, field in old.get("properties", {}).items():
            if name not in new.get("properties", {}):
                yield f"{place}.{name} is gone"
            else:
                if name in needed:
                    yield f"{place}.{name} {'is required now' if sent else 'may be left out now'}"
                yield from self._schema(f"{place}.{name}", field, new["properties"][name], sent=sent)
        yield from (f"{place}.{name} is required now" for name in sorted(needed) if name not in old["properties"])
        for inner, shown in (("additionalProperties", "*"), ("items", "[]")):
            if isinstance(old.get(inner), Mapping) and isinstance(new.get(inner), Mapping):
                yield from self._schema(f"{place}.{shown}", old[inner], new[inner], sent=sent)


_TYPES_OF: Final = {"number": {"integer", "number"}}  # what is also of a type


def _forms(schema: Schema, schemas: Schema, name: str = "") -> Iterator[tuple[str, Schema]]:
    """A schema as its alternatives, each with one type and with the name of its shape if it has one."""
    if "$ref" in schema:
        shape = schema["$ref"].rpartition("/")[2]
        yield from _forms(schemas[shape], schemas, shape)
    elif several := schema.get("oneOf") or schema.get("anyOf"):
        for one in several:
            yield from _forms(one, schemas)
    elif isinstance(schema.get("type"), list):
        yield from ((name, {**schema, "type": each}) for each in schema["type"])
    elif "const" in schema:
        yield name, {"type": "string", "enum": [schema["const"]]}
    elif "enum" in schema:
        yield name, {"type": "string", **schema}
    else:
        yield name, schema


def _kind(form: Schema) -> str:
    return "one of several words" if "enum" in form else form.get("type", "anything")


def _within(narrow: Schema, wide: Schema) -> bool:
    if "pattern" in wide and narrow.get("pattern") != wide["pattern"]:
        return False
    return all(each not in wide or (each in narrow and narrow[each] >= wide[each]) for each in _AT_LEAST) and all(
        each not in wide or (each in narrow and narrow[each] <= wide[each]) for each in _AT_MOST
    )
