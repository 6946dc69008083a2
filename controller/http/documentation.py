"""The OpenAPI document as a page, which has no script, and loads nothing from another address.

The pages that FastAPI has need a bundle of scripts, and a policy that allows scripts within a page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from typing import Any, Final

from controller.http.browser_policies import PLAIN_PAGE

HEADERS: Final = {"Content-Security-Policy": PLAIN_PAGE}

_PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Strandline · HTTP API</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root {{ color-scheme: light dark; font: 15px/1.55 system-ui, sans-serif }}
body {{ max-width: 60rem; margin: 0 auto; padding: 20px 24px 56px }}
summary {{ cursor: pointer; overflow-wrap: anywhere }} pre {{ overflow-x: auto }}
</style></head><body><h1>Strandline</h1>
<p>For machines: <a href="/openapi.json">/openapi.json</a>. A call from a terminal:
<code>curl -X PUT localhost:8433/v1/streams/orders -d '{{"segments": 2}}'</code>; once there are tokens, with
<code>-H 'Authorization: Bearer …'</code>.</p>{calls}<h2>Schemas</h2>{schemas}</body></html>
"""


def page(document: Mapping[str, Any]) -> str:
    """The page of an OpenAPI document: each call and each schema, as JSON that unfolds."""
    calls = "".join(
        _folded(f"<b>{method.upper()}</b> <code>{path}</code> {escape(operation['summary'])}", operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    )
    schemas = document["components"]["schemas"].items()
    return _PAGE.format(
        calls=calls, schemas="".join(_folded(f'<code id="{name}">{name}</code>', of) for name, of in schemas)
    )


def _folded(head: str, described: Any) -> str:
    text = escape(json.dumps(described, indent=2, ensure_ascii=False), quote=False)
    linked = re.sub(r'"#/components/schemas/(\w+)"', r'<a href="#\1">\1</a>', text)
    return f"<details><summary>{head}</summary><pre>{linked}</pre></details>"
