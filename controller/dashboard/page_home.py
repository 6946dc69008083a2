"""A page lives in the controller that drew it, which alone can answer its channel. If several controllers share an
address, what the page asks for may come to another one. So the paths of its assets and its channel begin with the name
of its controller, `/at/NAME/…`, and whoever gets such a request passes it on.

If that controller is gone, or cannot be reached, the request is answered here: the channel does not know the page,
which then loads itself again.
"""

from __future__ import annotations

from typing import Final

from starlette.types import Scope, Send

from controller.cluster.records import ControllerRow
from controller.controller import JointController
from controller.http.forwarding.forwarding import Forwarding
from controller.http.forwarding.peers import HOP, NoAnswer, NotTaken, PassedCall
from strandline.errors import Overloaded
from strandline.limits import WAIT_BOUND_MS

AT: Final = "/at/"
_PREFIX: Final = b"x-forwarded-prefix"  # the library begins the paths of a page with it
_SENT_ON: Final = frozenset({b"accept", b"content-type", b"cookie", b"user-agent"})
_SENT_BACK: Final = frozenset({b"cache-control", b"content-type", b"etag", b"last-modified", b"x-content-type-options"})


def split(path: str) -> tuple[str | None, str]:
    """The name of the controller in a path, if there is one, and the path without it."""
    if not path.startswith(AT):
        return None, path
    name, _, rest = path.removeprefix(AT).partition("/")
    return name, "/" + rest.lstrip("/")


def without_name(scope: Scope) -> Scope:
    """A request as the library knows it."""
    name, path = split(scope["path"])
    return scope if name is None else {**scope, "path": path, "raw_path": path.encode()}


def drawn_here(scope: Scope) -> Scope:
    """The request of a page that this controller draws; what it will ask for then comes back here."""
    controller = scope["app"].state.controller
    if not isinstance(controller, JointController):
        return scope
    prefix = f"{AT}{controller.member.identity.name}".encode()
    others = [(name, value) for name, value in scope["headers"] if name != _PREFIX]
    return {**scope, "headers": [*others, (_PREFIX, prefix)]}


def home_of(scope: Scope) -> ControllerRow | None:
    """Another controller that a request is for; None if it is answered here."""
    controller = scope["app"].state.controller
    name, _ = split(scope["path"])
    if name is None or not isinstance(controller, JointController) or any(each == HOP for each, _ in scope["headers"]):
        return None
    return None if name == controller.member.identity.name else controller.member.named(name)


async def passed_on(home: ControllerRow, scope: Scope, body: bytes, send: Send) -> bool:
    """Passes a request on; False if that failed, and nothing was answered."""
    forwarding: Forwarding = scope["app"].state.forwarding
    query = b"?" + scope["query_string"] if scope["query_string"] else b""
    headers = tuple((name, value) for name, value in scope["headers"] if name in _SENT_ON)
    call = PassedCall(scope["method"], scope["raw_path"] + query, headers, body, WAIT_BOUND_MS)
    try:
        async with forwarding.peers.ask(home, call) as answer:
            content = await answer.whole()
    except (NotTaken, NoAnswer, Overloaded):
        return False
    back = [(name, value) for name, value in answer.headers if name in _SENT_BACK]
    length = (b"content-length", b"%d" % len(content))
    await send({"type": "http.response.start", "status": answer.status, "headers": [*back, length]})
    await send({"type": "http.response.body", "body": content})
    return True
