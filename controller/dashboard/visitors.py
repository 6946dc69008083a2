"""Visitors of the dashboard, and their rights. A visitor signs in with a token, kept in a cookie that scripts cannot
read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import RedirectResponse
from starlette.responses import Response

from controller.http.callers import COOKIE
from controller.tokens import NOT_KNOWN, Tokens
from strandline.access import EVERYTHING, Grant, Role
from strandline.errors import Forbidden, Unauthenticated

SIGN_IN: Final = "/sign-in"
NO_TOKEN: Final = (
    "there is no token yet, and everybody who reaches the controller may call. The first one is made where the store "
    "is: strandline token create NAME --role admin --database …"
)


@dataclass(frozen=True, slots=True)
class Visitor:
    """A visitor of the dashboard. `name` is the token's name, or None if there are no tokens. `token` is the token
    itself."""

    name: str | None
    may_act: bool
    grant: Grant | None = None
    token: str | None = field(default=None, repr=False)

    def may_see(self, stream: str) -> bool:
        return self.grant is None or self.grant.allows(stream)

    def check(self, *streams: str) -> None:
        """Raises Forbidden for a stream outside the token's pattern."""
        for stream in streams:
            if self.grant is not None and not self.grant.allows(stream):
                raise self._refused("see this", Role.READER, stream)

    @property
    def may_see_every_stream(self) -> bool:
        return self.grant is None or self.grant.allows_every_stream

    def check_every_stream(self) -> None:
        """Raises Forbidden where the token is not for every stream."""
        if not self.may_see_every_stream:
            raise self._refused("see this", Role.READER, EVERYTHING)

    @property
    def may_see_tokens(self) -> bool:
        """An administrator of every stream may. Without tokens nobody may: the first one is made where the store is."""
        return self.grant is not None and self.may_act and self.may_see_every_stream

    def check_tokens(self) -> None:
        """Raises Forbidden unless the visitor may see the tokens, and Unauthenticated without tokens."""
        if self.grant is None:
            raise Unauthenticated(reason=NO_TOKEN)
        if not self.may_see_tokens:
            raise self._refused("see the tokens", Role.ADMIN, EVERYTHING)

    def _refused(self, call: str, needs: Role, stream: str) -> Forbidden:
        assert self.grant is not None
        return Forbidden(role=self.grant.role, call=call, pattern=self.grant.pattern, needs=needs, stream=stream)


def visitor_of(request: Request) -> Visitor:
    """The visitor of a page. Raises Unauthenticated for one who has to sign in first."""
    return visitor_with(request, request.cookies.get(COOKIE, ""))


def visitor_with(request: Request, token: str) -> Visitor:
    """The visitor with this token. Raises Unauthenticated for a token that is invalid, or only for writing."""
    tokens: Tokens = request.app.state.controller.tokens
    if not tokens.required:
        return Visitor(None, may_act=True)
    grant = tokens.check(token.encode())
    if not grant.role.covers(Role.READER):
        raise Unauthenticated(reason=NOT_KNOWN)
    return Visitor(grant.name, grant.role.covers(Role.ADMIN), grant, token)


def to_sign_in(request: Request) -> RedirectResponse:
    """A redirect to the sign-in page, which returns to this page."""
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{SIGN_IN}?next={quote(request.url.path + query, safe='/')}", status_code=303)


def signed_in(request: Request, token: str, next: str) -> Response:
    """The answer to the form with a token: the cookie and the page after it, or the form again."""
    here = next.startswith("/") and not next.startswith(("//", "/\\"))
    target = next if here else "/"
    try:
        visitor_with(request, token)
    except Unauthenticated:
        return RedirectResponse(f"{SIGN_IN}?next={quote(target, safe='/')}&wrong=1", status_code=303)
    answer = RedirectResponse(target, status_code=303)
    answer.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=_is_secure(request))
    return answer


def signed_out(request: Request) -> Response:
    """Forgets the token."""
    answer = RedirectResponse(SIGN_IN, status_code=303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=_is_secure(request))
    return answer


def _is_secure(request: Request) -> bool:
    """Whether the visitor's browser uses TLS. Behind a proxy that ends TLS, the form's own origin shows it."""
    return request.url.scheme == "https" or request.headers.get("origin", "").lower().startswith("https://")
