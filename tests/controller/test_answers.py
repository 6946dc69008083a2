"""What is declared of a route is what it answers, what OpenAPI and the reference say, and who may call it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return found.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_the_document_has_all_that_it_refers_to_and_each_body(controller: Any) -> None:
    document = controller.call("GET", "/openapi.json")
    assert references(document) <= {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    changing = [
        (f"{method} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in ("put", "post", "patch")
    ]
    writer = "post /v1/streams/{stream}/writers/{writer}"
    without = {call for call, operation in changing if "requestBody" not in operation}
    assert without == {f"{writer}/idle", f"{writer}/exclude"}


def texts_and_numbers(document: Any, schema: Any, where: str) -> Iterator[tuple[str, Any]]:
    """What a schema takes of texts and whole numbers, with its place."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if schema.get("type") in ("string", "integer"):
        yield where, schema
    for each in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from texts_and_numbers(document, each, where)
    for name in ("items", "additionalProperties", "propertyNames"):
        if isinstance(schema.get(name), dict):
            yield from texts_and_numbers(document, schema[name], where)
    for name, each in schema.get("properties", {}).items():
        yield from texts_and_numbers(document, each, f"{where} {name}")


def test_the_document_bounds_each_text_and_number_that_a_call_takes(controller: Any) -> None:
    document = controller.call("GET", "/openapi.json")
    taken = list[tuple[str, Any]]()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            call = f"{method} {path}"
            for parameter in operation.get("parameters", ()):
                taken += texts_and_numbers(document, parameter["schema"], f"{call} {parameter['name']}")
            for content in operation.get("requestBody", {}).get("content", {}).values():
                taken += texts_and_numbers(document, content["schema"], call)
    assert len(taken) > 100
    # Generated clients take 32 bits for a number without a size.
    assert all(schema["format"] == "int64" for _, schema in taken if schema["type"] == "integer")
    bounds = {"pattern", "enum", "const", "minimum", "exclusiveMinimum"}
    free = {where for where, schema in taken if not bounds & schema.keys()}
    assert free == {
        "get /v1/streams/{stream}/marks/live last-event-id",
        "post /v1/streams/{stream}/time-window identity",
    }
