"""Who looks at the dashboard, and what they may do. A token signs in; it is kept in a cookie that no script reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import APIRouter, Form, Request
from fastapi.responses import RedirectResponse
from starlette.responses import Response

COOKIE: Final = "strandline_token"
SIGN_IN: Final = "/sign-in"
THEME_COOKIE: Final = "strandline_theme"

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Someone at the dashboard. `name` is that of the token, None where there are no tokens."""

    name: str | None
    may_act: bool

    def may_see(self, stream: str) -> bool:
        return True


def visitor(request: Request) -> Visitor | None:
    """Who asks for a page; None: they have to sign in first."""
    return Visitor(None, may_act=True)


def to_sign_in(request: Request) -> RedirectResponse:
    """Away to the page for signing in, and then back here."""
    return RedirectResponse(f"{SIGN_IN}?next={quote(request.url.path)}", status_code=303)


@router.post(SIGN_IN)
async def sign_in(request: Request, token: Annotated[str, Form()], next: Annotated[str, Form()] = "/") -> Response:
    """Takes a token, and goes on to the page that was asked for."""
    target = next if next.startswith("/") and not next.startswith("//") else "/"
    answer = RedirectResponse(target, status_code=303)
    answer.set_cookie(COOKIE, token.strip(), httponly=True, samesite="strict", secure=request.url.scheme == "https")
    return answer


@router.post("/sign-out")
async def sign_out() -> Response:
    """Forgets the token."""
    answer = RedirectResponse(SIGN_IN, status_code=303)
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer
