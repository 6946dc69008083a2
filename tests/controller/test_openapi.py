"""What the controller says of itself."""

from typing import Any


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        found = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return found.union(*map(references, value.values()))
    if isinstance(value, list):
        return set().union(*map(references, value))
    return set()


def test_the_document_has_every_route_the_hot_ones_too(controller: Any) -> None:
    document = controller.call("GET", "/openapi.json")

    calls = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert {("POST", "/v1/streams/{stream}/notes"), ("POST", "/v1/notes"), ("PUT", "/v1/streams/{stream}")} <= calls
    assert {("PUT", "/v1/reader-groups/{group}/readers/{reader}"), ("GET", "/readyz")} <= calls


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


def test_the_pages_for_people_are_there(controller: Any) -> None:
    page = controller.request("GET", "/docs")
    assert page.headers["content-type"].startswith("text/html") and "/v1/streams/{stream}/notes" in page.text
