"""Static pages without state: the sign-in form, and the pages for errors."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from types import MappingProxyType
from typing import Final

from fastapi.responses import HTMLResponse

from controller.http.browser_policies import PLAIN_PAGE

_PAGE: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title} · Strandline</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root {{ color-scheme: light dark;
--line: #e2e8f0; --card: #ffffff; --ground: #f6f8fa; --ink: #0f172a; --link: #0f766e; --bad: #dc2626 }}
@media (prefers-color-scheme: dark) {{
:root {{ --line: #2b3648; --card: #141c2b; --ground: #0b111c; --ink: #e6edf6; --link: #2dd4bf; --bad: #f87171 }} }}
body {{ font: 15px/1.55 system-ui, sans-serif; background: var(--ground); color: var(--ink); margin: 0 }}
main {{ max-width: 34rem; margin: 12vh auto 0; padding: 20px 24px; background: var(--card);
border: 1px solid var(--line); border-radius: 12px }}
h1 {{ font-size: 22px; margin: 0 0 8px }} a {{ color: var(--link) }} p {{ overflow-wrap: anywhere }}
pre {{ background: var(--ground); border: 1px solid var(--line); border-radius: 8px; padding: 8px 12px;
white-space: pre-wrap }}
label {{ display: block; margin: 14px 0 4px; font-weight: 600 }} .bad {{ color: var(--bad) }}
.token {{ width: 100%; box-sizing: border-box; font: inherit; padding: 9px 12px; border-radius: 8px;
border: 1px solid var(--line); background: var(--ground); color: var(--ink) }}
button {{ font: inherit; font-weight: 600; margin: 14px 0; padding: 8px 18px; border: 0; border-radius: 8px;
background: var(--link); color: var(--card); cursor: pointer }}
:focus-visible {{ outline: 2px solid var(--link); outline-offset: 2px }}
</style></head><body><main><h1>{title}</h1>{body}</main></body></html>
"""
_MISSING: Final = """<p>The controller is running. Its dashboard is not installed here; it comes with</p>
<pre>pip install 'strandline[dashboard]'</pre><p>and the next start of <code>strandline serve</code>.
The same can be seen in a terminal: <code>strandline watch</code>. The API describes itself at
<a href="/docs">/docs</a>.</p>"""
_NO_SHARED_MEMORY: Final = """<p>The controller is running. Its dashboard needs shared memory: let the controller's user
write to <code>/dev/shm</code> and start it again. The same can be seen in a terminal:
<code>strandline watch</code>. The API describes itself at <a href="/docs">/docs</a>.</p>"""
_SIGN_IN: Final = """<p>This controller asks for a token. A reader's token shows its streams; with an
administrator's one may act as well.</p>{wrong}<form method="post" action="{action}"><label for="token">Token</label>
<input id="token" class="token" name="token" type="password" autocomplete="current-password" autofocus required>
<input name="next" type="hidden" value="{next}"><button>Sign in</button></form>
<p>An administrator makes a token with:</p><pre>strandline token create NAME --role reader</pre>"""
_WRONG: Final = """<p class="bad" role="alert">That token is not known here, was revoked, or is only for writing.</p>"""
_ENDED: Final = """<p class="bad" role="alert">You were signed out: your token was revoked, or has expired.</p>"""
_TOO_MANY: Final = """<p>{count} pages of this dashboard are open, which is the most that there can be. Close some, and
load this one again.</p>"""
_BACK: Final = '<p><a href="/">To the overview</a></p>'


async def missing() -> HTMLResponse:
    """The dashboard is not installed."""
    return _page("Strandline", _MISSING)


async def no_shared_memory() -> HTMLResponse:
    """The dashboard's library cannot start."""
    return _page("Strandline", _NO_SHARED_MEMORY)


def sign_in(action: str, next: str, *, wrong: bool, ended: bool) -> HTMLResponse:
    """The form for a token, which goes to `action`; `next` is the page after it. `wrong`: the last token was
    refused; `ended`: it was valid, and no longer is."""
    body = _SIGN_IN.format(action=action, next=escape(next), wrong=_WRONG if wrong else _ENDED if ended else "")
    return _page("Sign in", body, headers={"Cache-Control": "no-store"})


def too_many(count: int) -> HTMLResponse:
    """No further page can be opened."""
    return _page("Too many pages", _TOO_MANY.format(count=count), 503, headers={"Retry-After": "5"})


def no_page(path: str) -> HTMLResponse:
    """There is nothing at a path."""
    body = f"<p>There is no page at <code>{escape(path)}</code>.</p>{_BACK}"
    return _page("Not here", body, 404)


def failed(error: Exception) -> HTMLResponse:
    """A page could not be made."""
    name = escape(type(error).__name__)
    body = f"<p>This page could not be made ({name}). The controller's log says more.</p>{_BACK}"
    return _page("That went wrong", body, 500)


def _page(title: str, body: str, status: int = 200, headers: Mapping[str, str] = MappingProxyType({})) -> HTMLResponse:
    given = {"Content-Security-Policy": PLAIN_PAGE, **headers}
    return HTMLResponse(_PAGE.format(title=title, body=body), status_code=status, headers=given)
