"""Pages that need nothing but themselves: the library is missing or cannot start, there is no page, or one failed."""

from __future__ import annotations

from html import escape
from typing import Final

from fastapi.responses import HTMLResponse

_PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} · Strandline</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root {{ color-scheme: light dark;
--line: #e2e8f0; --card: #ffffff; --ground: #f6f8fa; --ink: #0f172a; --link: #0f766e }}
@media (prefers-color-scheme: dark) {{
:root {{ --line: #2b3648; --card: #141c2b; --ground: #0b111c; --ink: #e6edf6; --link: #2dd4bf }} }}
body {{ font: 15px/1.55 system-ui, sans-serif; background: var(--ground); color: var(--ink); margin: 0 }}
main {{ max-width: 34rem; margin: 12vh auto 0; padding: 20px 24px; background: var(--card);
border: 1px solid var(--line); border-radius: 12px }}
h1 {{ font-size: 22px; margin: 0 0 8px }} a {{ color: var(--link) }} p {{ overflow-wrap: anywhere }}
pre {{ background: var(--ground); border: 1px solid var(--line); border-radius: 8px; padding: 8px 12px }}
</style></head><body><main><h1>{title}</h1>{body}</main></body></html>
"""
_MISSING: Final = """<p>The controller is running. Its dashboard is not installed here; it comes with</p>
<pre>pip install 'strandline[dashboard]'</pre><p>and the next start of <code>strandline serve</code>.
The same can be seen in a terminal: <code>strandline watch</code>. The API describes itself at
<a href="/docs">/docs</a>.</p>"""
_NO_SHARED_MEMORY: Final = """<p>The controller is running. Its dashboard needs shared memory: let the controller's user
write to <code>/dev/shm</code> and start it again. The same can be seen in a terminal:
<code>strandline watch</code>. The API describes itself at <a href="/docs">/docs</a>.</p>"""
_BACK: Final = '<p><a href="/">To the overview</a></p>'


async def missing() -> HTMLResponse:
    """The dashboard is not installed."""
    return HTMLResponse(_PAGE.format(title="Strandline", body=_MISSING))


async def no_shared_memory() -> HTMLResponse:
    """The dashboard's library cannot start."""
    return HTMLResponse(_PAGE.format(title="Strandline", body=_NO_SHARED_MEMORY))


def no_page(path: str) -> HTMLResponse:
    """There is nothing at a path."""
    body = f"<p>There is no page at <code>{escape(path)}</code>.</p>{_BACK}"
    return HTMLResponse(_PAGE.format(title="Not here", body=body), status_code=404)


def failed(error: Exception) -> HTMLResponse:
    """A page could not be made."""
    name = escape(type(error).__name__)
    body = f"<p>This page could not be made ({name}). The controller's log says more.</p>{_BACK}"
    return HTMLResponse(_PAGE.format(title="That went wrong", body=body), status_code=500)
