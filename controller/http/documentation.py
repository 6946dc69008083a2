"""The OpenAPI document as a page, which has no script, and loads nothing from another address."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

from controller.http.browser_policies import PLAIN_PAGE

HEADERS: Final = {"Content-Security-Policy": PLAIN_PAGE}


_PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} · HTTP API</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root {{ color-scheme: light dark;
--line: #e2e8f0; --card: #ffffff; --ground: #f6f8fa; --ink: #0f172a; --soft: #64748b; --link: #0f766e }}
@media (prefers-color-scheme: dark) {{ :root {{
--line: #2b3648; --card: #141c2b; --ground: #0b111c; --ink: #e6edf6; --soft: #9aa8bc; --link: #2dd4bf }} }}
body {{ font: 15px/1.55 system-ui, sans-serif; background: var(--ground); color: var(--ink); margin: 0 }}
main {{ max-width: 60rem; margin: 0 auto; padding: 20px 24px 56px }}
a {{ color: var(--link) }} h2 {{ text-transform: capitalize; margin: 32px 0 8px }}
details {{ background: var(--card); border: 1px solid var(--line); border-radius: 8px; margin: 6px 0;
padding: 8px 12px }}
summary {{ cursor: pointer; overflow-wrap: anywhere }} summary b {{ display: inline-block; min-width: 4.5em }}
summary span {{ color: var(--soft) }} code, pre {{ font: 13px/1.5 ui-monospace, monospace }}
pre {{ background: var(--ground); border-radius: 8px; padding: 8px 12px; overflow-x: auto }}
table {{ border-collapse: collapse; margin: 8px 0 }} td, th {{ text-align: left; padding: 2px 16px 2px 0;
vertical-align: top }} th {{ color: var(--soft); font-weight: normal }}
</style></head><body><main><h1>{title}</h1><p>{summary}</p>
<p>For machines: <a href="/openapi.json">/openapi.json</a>. A call from a terminal:
<code>curl -X PUT {example} -d '{{"segments": 2}}'</code>; once there are tokens, with
<code>-H 'Authorization: Bearer …'</code>.</p>{sections}<h2>Schemas</h2>{schemas}</main></body></html>
"""
_EXAMPLE: Final = "localhost:8433/v1/streams/orders"


def page(document: Mapping[str, Any]) -> str:
    """The page of an OpenAPI document."""
    sections: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            section = operation.get("tags", ["operations"])[0]
            sections.setdefault(section, []).append(_operation(method, path, operation))
    schemas = document["components"]["schemas"].items()
    return _PAGE.format(
        title=escape(document["info"]["title"]),
        summary=escape(document["info"].get("summary", "")),
        example=_EXAMPLE,
        sections="".join(f"<h2>{escape(name)}</h2>{''.join(parts)}" for name, parts in sections.items()),
        schemas="".join(_folded(name, f"<code>{escape(name)}</code>", _json(schema)) for name, schema in schemas),
    )


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    head = f"<b>{method.upper()}</b><code>{escape(path)}</code> <span>{escape(operation['summary'])}</span>"
    parts = [f"<p>{escape(operation.get('description', 'Open to everybody.'))}</p>"]
    rows = "".join(_parameter(one) for one in operation.get("parameters", ()))
    if rows:
        parts.append(f"<table><tr><th>parameter<th>in<th>required<th>schema</tr>{rows}</table>")
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<p>Body, as <code>{escape(media_type)}</code>:</p>{_json(content['schema'])}")
    answers = "".join(
        f"<tr><td><code>{escape(str(status))}</code><td>{escape(answer['description'])}{_content(answer)}</tr>"
        for status, answer in operation["responses"].items()
    )
    parts.append(f"<table><tr><th>answer<th></tr>{answers}</table>")
    return _folded(operation.get("operationId", f"{method} {path}"), head, "".join(parts))


def _content(answer: Mapping[str, Any]) -> str:
    """The description of an answer, and examples."""
    parts = []
    for content in answer.get("content", {}).values():
        parts.append(_json(content["schema"]))
        for name, example in content.get("examples", {}).items():
            parts.append(f"<details><summary>{escape(name)}</summary>{_json(example['value'])}</details>")
    return "".join(parts)


def _parameter(parameter: Mapping[str, Any]) -> str:
    about = escape(parameter.get("description", ""))
    cells = (
        f"<code>{escape(parameter['name'])}</code>",
        escape(parameter["in"]),
        "yes" if parameter.get("required") else "",
        f"<code>{escape(json.dumps(parameter['schema']))}</code> {about}",
    )
    return f"<tr>{''.join(f'<td>{cell}' for cell in cells)}</tr>"


def _folded(name: str, head: str, body: str) -> str:
    return f'<details id="{escape(name)}"><summary>{head}</summary>{body}</details>'


def _json(schema: Any) -> str:
    """A schema as text, with links to the schemas that it refers to."""
    return f"<pre>{''.join(_linked(json.dumps(schema, indent=2)))}</pre>"


def _linked(text: str) -> Iterator[str]:
    before, *rest = text.split('"#/components/schemas/')
    yield escape(before)
    for each in rest:
        name, _, after = each.partition('"')
        yield f'<a href="#{escape(name)}">{escape(name)}</a>{escape(after)}'
