"""What the controller says of itself."""

from typing import Any


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return found.union(*map(references, value.values()))
    if isinstance(value, list):
        return set().union(*map(references, value))
    return set()


def test_everything_the_document_refers_to_is_in_it(controller: Any) -> None:
    document = controller.call("GET", "/openapi.json")

    assert references(document) <= {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert "#/components/schemas/Problem" in references(document)


def test_every_call_that_changes_something_with_a_body_describes_it(controller: Any) -> None:
    document = controller.call("GET", "/openapi.json")

    without = {
        f"{method} {path}"
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method in ("put", "post", "patch") and "requestBody" not in operation
    }
    assert without == {
        "post /v1/streams/{stream}/writers/{writer}/idle",
        "post /v1/streams/{stream}/writers/{writer}/exclude",
    }
