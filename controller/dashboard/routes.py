"""The dashboard's routes: pages, their parts, dialogs, files and signing in. Adds them to the application, at `/`."""

from __future__ import annotations

import importlib.util
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, tzinfo
from functools import cache, partial
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from urllib.parse import parse_qs
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import httpx
import msgspec
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.responses import Response

from controller.dashboard.acts import ACTS, ACTS_WITH_CALLS, Act
from controller.dashboard.history import History
from controller.dashboard.limits import FORM_BYTES, SIGN_IN_BYTES
from controller.dashboard.pages.administration import controllers_page, tokens_page
from controller.dashboard.pages.group import group_page
from controller.dashboard.pages.overview import overview_page
from controller.dashboard.pages.page import Page, View
from controller.dashboard.pages.stream import stream_page
from controller.dashboard.pages.writer import writer_page
from controller.dashboard.tables import Address
from controller.dashboard.visitors import SIGN_IN, Visitor, signed_in, signed_out, to_sign_in, visitor_of
from controller.http.browser_gate import path_within
from controller.http.browser_policies import OWN_PAGE
from controller.http.middleware import failure
from controller.http.problems import answer_with, is_nowhere, not_routed
from controller.http.request_bodies import decode, read_body
from controller.http.responses import answer
from controller.operators.wording import ZONE
from strandline.client.calls import Call
from strandline.client.calls import Response as Answered
from strandline.errors import (
    BadJson,
    BadRequest,
    Denied,
    InvalidName,
    Missing,
    StrandlineError,
    Unauthenticated,
    UnknownPath,
)
from strandline.wire.shapes import decoder_of

if TYPE_CHECKING:
    import jinja2

Value = TypeVar("Value")
Making: TypeAlias = Callable[[View], Awaitable[Page]]

PART: Final = "strandline-part"  # the header with which a page asks for its main part
ZONE_COOKIE: Final = "strandline_zone"
THEME_COOKIE: Final = "strandline_theme"
_THEMES: Final = frozenset({"dark", "light"})
# Their answers stay JSON problems where the API has no such path, or no such method.
_OF_THE_API: Final = ("/v1", "/healthz", "/readyz", "/metrics", "/docs", "/openapi.json")
_PAGE: Final = {"Content-Security-Policy": OWN_PAGE, "Cache-Control": "no-store"}
_MISSING: Final = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Strandline</title></head><body>
<h1>Strandline</h1><p>The controller is running. Its dashboard is not installed here; it comes with</p>
<pre>pip install '.[dashboard]'</pre><p>and the next start of <code>strandline serve</code>.
The same can be seen in a terminal: <code>strandline watch</code>. The API describes itself at
<a href="/docs">/docs</a>.</p></body></html>"""


def is_installed() -> bool:
    try:
        return importlib.util.find_spec("jinja2") is not None
    except ModuleNotFoundError:
        return False


def add_dashboard(app: FastAPI) -> None:
    """Adds the dashboard, or a page that says how to get it."""
    if not is_installed():
        app.add_route("/", _missing, include_in_schema=False)
        return
    templates()  # made now, where nobody waits for it
    app.include_router(router)
    app.mount("/static", _Files(packages=[("controller.dashboard", "static")]))

    @app.exception_handler(404)
    async def not_here(request: Request, error: HTTPException) -> Response:
        """A page for a path without one."""
        if is_nowhere(request, error) and request.method == "GET" and not _is_of_the_api(path_within(request.scope)):
            return _elsewhere(request)
        return await not_routed(request, error)


def _is_of_the_api(path: str) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in _OF_THE_API)


async def _missing(_request: Request) -> HTMLResponse:
    return HTMLResponse(_MISSING, headers=_PAGE)


@cache
def templates() -> jinja2.Environment:
    """All templates, compiled."""
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.PackageLoader("controller.dashboard"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in made.list_templates():
        made.get_template(name)
    return made


class _Files(StaticFiles):
    """Scripts, styles and icons, of which a browser asks each time whether they are new."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        found = super().file_response(*args, **options)
        found.headers["Cache-Control"] = "no-cache"
        return found


router = APIRouter(include_in_schema=False)


# -- pages -------------------------------------------------------------------------------------------------------------


async def _show(request: Request, make: Making) -> Response:
    """A page, or its main part alone."""
    is_part = PART in request.headers
    ZONE.set(_zone_of(request))
    try:
        who = visitor_of(request)
    except Unauthenticated:
        if is_part:
            raise  # the page leads its visitor to the form
        return to_sign_in(request)
    address = Address(request)
    try:
        base = str(request.base_url).rstrip("/")
        view = View(app=request.app, who=who, address=address, base=base, history=_history(request))
        page = await make(view)
    except StrandlineError as error:
        if is_part:
            raise
        return _refused(request, who, error)
    except Exception as error:  # a fault of ours, which is logged, and of which callers get no more than its kind
        if is_part:
            raise
        return _refused(request, who, failure(error, request.scope))
    trouble = f"⚠ {page.trouble} · " if page.trouble else ""
    title = f"{trouble}{page.title} · Strandline"
    return _drawn(request, page.template, {**page.shows, "title": title, "trouble": page.trouble, "who": who})


def _history(request: Request) -> History:
    state = request.app.state
    if getattr(state, "history", None) is None:
        state.history = History(state.controller)
    found: History = state.history
    return found


def _refused(request: Request, who: Visitor, error: StrandlineError) -> Response:
    """A page for what does not exist, is not for this visitor, or is not known at this moment."""
    heading = "Refused"
    if isinstance(error, Unauthenticated) and who.grant is None:
        heading = "No token yet"
    elif isinstance(error, (Missing, InvalidName)):
        heading = "Not here"
    elif isinstance(error, Denied):
        heading = "Not for this token"
    elif error.status >= 500:
        heading = "Not known at this moment"
    shows = {"title": f"{heading} · Strandline", "heading": heading, "reason": str(error), "who": who}
    return _drawn(request, "refused.html", {**shows, "live": error.status >= 500}, error.status)


def _drawn(request: Request, template: str, shows: Mapping[str, Any], status: int = 200) -> HTMLResponse:
    zone = ZONE.get()
    theme = request.cookies.get(THEME_COOKIE, "")
    of_all = {
        "part": PART in request.headers,
        "path": request.url.path,
        "theme": theme if theme in _THEMES else "",
        "zone": str(getattr(zone, "key", "UTC")),
        "trouble": "",
        "live": True,
        "who": None,
    }
    text = templates().get_template(template).render({**of_all, **shows})
    return HTMLResponse(text, status_code=status, headers=_PAGE)


def _zone_of(request: Request) -> tzinfo:
    """The zone that the visitor chose, which the browser names in a cookie; UTC for one that is not known here."""
    name = request.cookies.get(ZONE_COOKIE, "")
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):  # also for a name that is a folder of zones
        return UTC


def _page(make: Callable[..., Awaitable[Page]]) -> Callable[[Request], Awaitable[Response]]:
    """The handler of a page; what its path names are the maker's arguments after the view."""

    async def show(request: Request) -> Response:
        return await _show(request, lambda view: make(view, *request.path_params.values()))

    return show


_PAGES: Final[Mapping[str, Callable[..., Awaitable[Page]]]] = {
    "/": overview_page,
    "/streams/{stream}": stream_page,
    "/streams/{stream}/writers/{writer}": writer_page,
    "/reader-groups/{group}": group_page,
    "/controllers": controllers_page,
    "/tokens": tokens_page,
}
for _path, _make in _PAGES.items():
    router.add_api_route(_path, _page(_make))


# -- dialogs -----------------------------------------------------------------------------------------------------------


@router.get("/acts/{name}")
async def ask(request: Request, name: str) -> Response:
    """The dialog of an act. One without fields has its plan with it."""
    act = await _act(request, name)
    plan = None if act.fields else msgspec.json.encode(act.plan({})).decode()
    return _drawn(request, "act.html", {"act": act, "plan": plan, "path": f"/acts/{name}?{request.url.query}"})


@router.post("/acts/{name}")
async def plan(request: Request, name: str) -> Response:
    """What a filled-in dialog would do: the call of the API in words and as it is, or what is wrong."""
    act = await _act(request, name)
    body = await read_body(request, FORM_BYTES, as_json=True)
    try:
        texts = decode(decoder_of(dict[str, str]).decode, body)
    except msgspec.ValidationError as error:
        raise BadJson(reason=str(error)) from None
    return answer(act.plan(texts))


async def _act(request: Request, name: str) -> Act:
    who, about = visitor_of(request), dict(request.query_params)
    ZONE.set(_zone_of(request))

    async def ask(call: Call[Value]) -> Value:
        """Makes a call of the API in this process, as the visitor."""
        asked = next(call)
        headers = {} if who.token is None else {"Authorization": f"Bearer {who.token}"}
        transport = httpx.ASGITransport(request.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
            found = await client.request(asked.method, asked.path)
        try:
            call.send(Answered(found.status_code, {}, found.content))
        except StopIteration as done:
            value: Value = done.value
            return value
        raise BadRequest(reason="it takes more than one call")

    makers: Mapping[str, Callable[..., Act | Awaitable[Act]]] = {
        **ACTS,
        **{each: partial(make, ask) for each, make in ACTS_WITH_CALLS.items()},
    }
    try:
        make = makers[name]
        signature(make).bind(**about)  # the names of what it is about are its arguments
    except (KeyError, TypeError):
        raise UnknownPath(path=request.url.path) from None
    act = make(**about)
    return act if isinstance(act, Act) else await act


# -- signing in --------------------------------------------------------------------------------------------------------


@router.get(SIGN_IN)
async def show_sign_in(request: Request, next: str = "/", wrong: str = "", ended: str = "") -> Response:
    """The form for a token."""
    shows = {"title": "Sign in · Strandline", "next": next, "wrong": bool(wrong), "ended": bool(ended), "live": False}
    return _drawn(request, "sign_in.html", shows)


@router.post(SIGN_IN)
async def sign_in(request: Request) -> Response:
    """Checks a token, and redirects to the requested page."""
    given = parse_qs((await read_body(request, SIGN_IN_BYTES)).decode("latin-1"))
    token, next = (given.get(name, [""])[0].strip() for name in ("token", "next"))
    return signed_in(request, token, next)


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    return signed_out(request)


def _elsewhere(request: Request) -> Response:
    try:
        who = visitor_of(request)
    except Unauthenticated:
        return RedirectResponse(SIGN_IN, status_code=303)
    error = UnknownPath(path=request.url.path)
    if PART in request.headers:
        return answer_with(request, error)
    return _refused(request, who, error)
