"""Visitors of the dashboard, and their rights. A visitor signs in with a token, kept in a cookie that scripts cannot
read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.requests import HTTPConnection
from starlette.responses import Response

from controller.dashboard import plain_pages
from controller.dashboard.limits import SIGN_IN_BYTES
from controller.http.request_bodies import read_body
from controller.status.status_view import Viewer
from controller.tokens import NOT_KNOWN, Tokens
from strandline.access import EVERYTHING, Grant, Role
from strandline.errors import Forbidden, Unauthenticated

COOKIE: Final = "strandline_token"
SIGN_IN: Final = "/sign-in"
SIGNED_IN: Final = "/signed-in"
THEME_COOKIE: Final = "strandline_theme"

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Visitor:
    """A visitor of the dashboard. `name` is the token's name, or None if there are no tokens. As a `viewer` the visitor
    is known to other controllers."""

    name: str | None
    may_act: bool
    grant: Grant | None = None
    tokens: Tokens | None = None
    viewer: Viewer = field(default_factory=Viewer)

    def may_see(self, stream: str) -> bool:
        return self.grant is None or self.grant.allows(stream)

    def may_see_all(self, streams: Iterable[str]) -> bool:
        return self.grant is None or all(map(self.grant.allows, streams))

    def check(self, *streams: str) -> None:
        """Raises Unauthenticated once the token is no longer valid, and Forbidden for a stream outside its pattern."""
        if self.tokens is not None and not self.tokens.still_allows(self.grant):
            raise Unauthenticated(reason=NOT_KNOWN)
        for stream in streams:
            if self.grant is not None and not self.grant.allows(stream):
                grant, needs = self.grant, Role.READER
                raise Forbidden(role=grant.role, call="see this", pattern=grant.pattern, needs=needs, stream=stream)

    @property
    def may_see_every_stream(self) -> bool:
        return self.grant is None or self.grant.allows_every_stream

    def check_every_stream(self) -> None:
        """Like `check`, for what is about all streams."""
        self.check()
        if self.grant is not None and not self.may_see_every_stream:
            raise self._refused("see this", Role.READER)

    @property
    def may_manage_tokens(self) -> bool:
        """Whether the visitor may see, create and revoke tokens: with an administrator's for every stream. Without
        tokens nobody may: the first one is made where the store is."""
        return self.grant is not None and self.may_act and self.may_see_every_stream

    def check_tokens(self, call: str) -> None:
        """Like `check`, for tokens."""
        self.check()
        if self.grant is not None and not self.may_manage_tokens:
            raise self._refused(call, Role.ADMIN)

    def _refused(self, call: str, needs: Role) -> Forbidden:
        assert self.grant is not None
        pattern = self.grant.pattern
        return Forbidden(role=self.grant.role, call=call, pattern=pattern, needs=needs, stream=EVERYTHING)


def visitor(connection: HTTPConnection) -> Visitor | None:
    """The visitor that requests a page or a channel; None if the visitor has to sign in first."""
    return visitor_with(connection, connection.cookies.get(COOKIE, ""))


def visitor_with(connection: HTTPConnection, token: str) -> Visitor | None:
    """The visitor with this token; None if the token is invalid, or is only for writing."""
    tokens: Tokens = connection.scope["strandline.tokens"]
    if not tokens.required:
        return Visitor(None, may_act=True, tokens=tokens)
    try:
        grant = tokens.check(token.encode())
    except Unauthenticated:
        return None
    if not grant.role.covers(Role.READER):
        return None
    viewer = Viewer(b"Bearer " + token.encode(), grant.pattern)
    return Visitor(grant.name, grant.role.covers(Role.ADMIN), grant, tokens, viewer)


def to_sign_in(request: Request) -> RedirectResponse:
    """A redirect to the sign-in page, which returns to this page."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{SIGN_IN}?next={quote(request.url.path + query, safe='/')}", status_code=303)


@router.get(SIGN_IN)
async def show_sign_in(next: str = "/", wrong: str = "", ended: str = "") -> HTMLResponse:
    """The form for a token. The page has no state, because anybody may request it as often as they like."""
    return plain_pages.sign_in(SIGN_IN, next, wrong=bool(wrong), ended=bool(ended))


@router.get(SIGNED_IN)
async def is_signed_in(request: Request) -> Response:
    """Whether the visitor is signed in, for a page that waits for a controller: 204, or 401."""
    return Response(status_code=401 if visitor(request) is None else 204, headers={"Cache-Control": "no-store"})


@router.post(SIGN_IN)
async def sign_in(request: Request) -> Response:
    """Checks a token, and redirects to the requested page."""
    given = parse_qs((await read_body(request.scope, request.receive, SIGN_IN_BYTES)).decode("latin-1"))
    token, next = (given.get(name, [""])[0].strip() for name in ("token", "next"))
    target = next if next.startswith("/") and not next.startswith(("//", "/\\")) else "/"
    if visitor_with(request, token) is None:
        return RedirectResponse(f"{SIGN_IN}?next={quote(target, safe='/')}&wrong=1", status_code=303)
    answer = RedirectResponse(target, status_code=303)
    secure = _is_secure(request)
    answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=secure)
    return answer


@router.post("/sign-out")
async def sign_out(request: Request) -> Response:
    """Forgets the token."""
    answer = RedirectResponse(SIGN_IN, status_code=303)
    secure = _is_secure(request)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=secure)
    return answer


def _is_secure(request: Request) -> bool:
    """Whether the visitor's browser uses TLS. Behind a proxy that ends TLS, the form's own origin shows it."""
    return request.url.scheme == "https" or request.headers.get("origin", "").lower().startswith("https://")
