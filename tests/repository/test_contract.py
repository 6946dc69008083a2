"""The HTTP API keeps its contract: it grows, and what callers know of it stays."""

from __future__ import annotations

from typing import Any

import pytest

from tools.reference.contract import broken, broken_by_the_code, described

Document = dict[str, Any]


@pytest.fixture(scope="module")
def contract() -> Document:
    return described()


def document(*, version: str = "1.0.0", security: list[Any] | None = None, **operation: Any) -> Document:
    """An API with one route."""
    whole = {"responses": {"200": {"description": "done"}}, "security": security or [], **operation}
    return {"info": {"version": version}, "paths": {"/v1/things": {"put": whole}}}


def taking(schema: Any, *, required: bool = True) -> Document:
    return document(requestBody={"required": required, "content": {"application/json": {"schema": schema}}})


def answering(schema: Any) -> Document:
    return document(responses={"200": {"description": "done", "content": {"application/json": {"schema": schema}}}})


def shape(*required: str, **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required)}


def parameter(**more: Any) -> Document:
    return document(parameters=[{"in": "query", "name": "limit", "schema": {"type": "integer"}, **more}])


NUMBER = {"type": "integer"}
TEXT = {"type": "string"}
OR_NULL = {"anyOf": [NUMBER, {"type": "null"}]}
WORDS = {"enum": ["hold", "skip"]}


def test_the_code_breaks_nothing_of_the_contract_in_the_file() -> None:
    assert broken_by_the_code() == []


def test_the_contract_has_a_shape_for_every_answer_in_json_and_no_examples(contract: Document) -> None:
    assert contract["info"]["version"] == "1.0.0"
    for path, operations in contract["paths"].items():
        for operation in operations.values():
            for status, response in operation["responses"].items():
                assert status in ("202", "204") or response["content"], f"{path} says nothing of its {status}"
                for body in response.get("content", {}).values():
                    assert set(body) == {"schema"}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (taking(shape("a", a=NUMBER)), taking(shape("a", a=NUMBER, b=TEXT))),
        (taking(shape("a", a=NUMBER)), taking(shape("a", a=OR_NULL))),
        (taking(NUMBER), taking({"type": "number"})),
        (taking(WORDS), taking({"enum": ["hold", "skip", "drop"]})),
        (taking(NUMBER), taking(NUMBER, required=False)),
        (answering(shape("a", a=NUMBER)), answering(shape("a", "b", a=NUMBER, b=TEXT))),
        (answering(WORDS), answering({"enum": ["hold", "skip", "drop"]})),
        (document(), parameter()),
        (document(security=[{"token": []}]), document()),
        (parameter(), document(version="2.0.0")),
    ],
    ids=[
        "a field that may be sent",
        "null is taken",
        "a wider type",
        "a word that may be sent",
        "no body is needed",
        "a field of an answer",
        "a new word in an answer",
        "a parameter",
        "no token is needed",
        "another major version",
    ],
)
def test_a_contract_may_grow(old: Document, new: Document) -> None:
    assert broken(old, new) == []


CALL = "PUT /v1/things"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (document(), {"info": {"version": "1.1.0"}, "paths": {}}, f"{CALL} is gone"),
        (document(), document(security=[{"token": []}]), f"{CALL} needs a token now"),
        (parameter(), document(), f"{CALL}, parameter limit is gone"),
        (parameter(), parameter(required=True), f"{CALL}, parameter limit is required now"),
        (document(), taking(NUMBER), f"{CALL} needs a body now"),
        (taking(shape(a=NUMBER)), taking(shape()), f"{CALL}, body.a is gone"),
        (taking(shape(a=NUMBER)), taking(shape("a", a=NUMBER)), f"{CALL}, body.a is required now"),
        (taking(shape(a=NUMBER)), taking(shape("b", a=NUMBER, b=TEXT)), f"{CALL}, body.b is required now"),
        (taking(shape(a=TEXT)), taking(shape(a={**TEXT, "pattern": "x"})), f"{CALL}, body.a has other bounds"),
        (taking(shape(a=NUMBER)), taking(shape(a=TEXT)), f"{CALL}, body.a refuses integer"),
        (taking(shape(a=OR_NULL)), taking(shape(a=NUMBER)), f"{CALL}, body.a refuses null"),
        (taking(shape(a=NUMBER)), taking(shape(a={**NUMBER, "minimum": 1})), f"{CALL}, body.a has other bounds"),
        (taking(WORDS), taking({"enum": ["hold"]}), f'{CALL}, body refuses "skip"'),
        (
            taking(shape(a={**NUMBER, "default": 1})),
            taking(shape(a={**NUMBER, "default": 2})),
            f"{CALL}, body.a has another default",
        ),
        (answering(NUMBER), document(), f"{CALL}, answer 200 is application/json no more"),
        (answering(shape("a", a=NUMBER)), answering(shape()), f"{CALL}, answer 200.a is gone"),
        (answering(shape("a", a=NUMBER)), answering(shape(a=NUMBER)), f"{CALL}, answer 200.a may be left out now"),
        (answering(shape("a", a=NUMBER)), answering(shape("a", a=OR_NULL)), f"{CALL}, answer 200.a may be null"),
        (answering(WORDS), answering(TEXT), f"{CALL}, answer 200 may be string"),
    ],
)
def test_what_a_caller_would_miss_is_told(old: Document, new: Document, said: str) -> None:
    (line,) = broken(old, new)
    assert said in line


def test_a_shape_that_contains_itself_is_compared_to_its_end() -> None:
    def tree(leaf: Any) -> Document:
        node = {"$ref": "#/components/schemas/Node"}
        shapes = {"Node": shape("leaf", leaf=leaf, children={"type": "array", "items": node})}
        return answering(node) | {"components": {"schemas": shapes}}

    assert broken(tree(NUMBER), tree(NUMBER)) == []
    assert broken(tree(NUMBER), tree(TEXT)) == [f"{CALL}, answer 200.leaf may be string"]


def test_a_field_that_any_shape_loses_is_missed(contract: Document) -> None:
    shapes = contract["components"]["schemas"]
    for name, schema in shapes.items():
        for field in list(schema.get("properties", {}))[-1:]:
            fields = {each: of for each, of in schema["properties"].items() if each != field}
            less = {**contract, "components": {"schemas": {**shapes, name: {**schema, "properties": fields}}}}
            assert any(f".{field} is gone" in line for line in broken(contract, less)), f"{name}.{field}"
