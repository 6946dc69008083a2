"""Checks each caller's token: its role, and the streams that it allows.

Every request passes this check, notes too. If the store has tokens, a path or a method that no declared route has is
never routed: an undeclared route is closed, not open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fastapi import Request
from starlette.types import Scope

from controller.controller import Controller
from controller.http.declared import DeclaredRoute, Rule, RuleScope
from controller.tokens import NONE_SHOWN, Tokens
from strandline.access import EVERYTHING, Grant, Role
from strandline.errors import Forbidden, InvalidName, MethodNotAllowed, Unauthenticated, UnknownGroup, UnknownPath

RULES_REMEMBERED: Final = 1_024  # which call needs which role, by method and path; past it they are looked up again
RULE_CHARACTERS: Final = 512  # a longer path is looked up each time

# They reveal nothing about streams. A browser that opens /docs cannot send a token.
PAGES: Final = frozenset({"/docs", "/openapi.json"})
COOKIE: Final = "strandline_token"  # of visitors of the dashboard; scripts cannot read it
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class _PathNode:
    """A node in the tree of declared paths: one part of a path."""

    __slots__ = ("any", "named", "rules")

    def __init__(self) -> None:
        self.named: dict[str, _PathNode] = {}
        self.any: _PathNode | None = None
        self.rules: dict[str, Rule] = {}


class Rules:
    """The rules of declared routes. `open` has the paths that need no token."""

    def __init__(self, routes: Iterable[DeclaredRoute]) -> None:
        declared = list(routes)
        self.open = PAGES | {each.path for each in declared if each.rule is None}
        # The first parts of the API's paths. If there is a dashboard, all other paths are its own, and it checks tokens
        # itself.
        self._first_parts = {path.split("/")[1] for path in PAGES} | {each.path.split("/")[1] for each in declared}
        self._found: dict[tuple[str, str], tuple[Rule, tuple[str, ...]]] = {}  # by method and path
        self._root = _PathNode()
        for each in declared:
            if each.rule is not None:
                self._add(each.method, each.path, each.rule)

    def is_open(self, path: str, *, dashboard: bool) -> bool:
        """Whether a path outside of `/v1/` is served without `admit`; a `dashboard` serves those that are not the
        API's."""
        return path in self.open or (dashboard and path.split("/")[1] not in self._first_parts)

    def admit(self, scope: Scope, headers: Mapping[bytes, bytes], tokens: Tokens) -> str | None:
        """Lets a request with these headers in, or raises Unauthenticated, Forbidden, UnknownPath or MethodNotAllowed.
        Call it if the store has tokens.

        Puts the token's name into the scope as `strandline.caller`, and its grant as `strandline.grant`. Returns the
        name of a reader group if `check_group` still has to check its streams.
        """
        grant = tokens.check(shown_token(scope, headers))
        scope["strandline.grant"] = grant
        scope["strandline.caller"] = grant.name
        rule, names = self._find(scope)
        name = names[0] if names else ""
        if not grant.role.covers(rule.role):
            raise forbidden(grant, scope, rule.role)
        if rule.over is RuleScope.STREAM:
            if not grant.allows(name):
                raise forbidden(grant, scope, rule.role, name)
            if rule.role is Role.WRITER and len(names) > 1:
                check_writer(grant, scope, name, names[1])
        elif rule.over is RuleScope.GROUP:
            return name
        elif rule.over is RuleScope.EVERY and not grant.allows_every_stream:
            raise forbidden(grant, scope, rule.role, EVERYTHING)
        return None

    def _add(self, method: str, path: str, rule: Rule) -> None:
        node = self._root
        for part in path[1:].split("/"):
            if part.startswith("{"):
                node.any = node.any or _PathNode()
                node = node.any
            else:
                node = node.named.setdefault(part, _PathNode())
        node.rules[method] = rule

    def _find(self, scope: Scope) -> tuple[Rule, tuple[str, ...]]:
        """The rule of a request, and the names in its path."""
        called = scope["method"], scope["path"]
        found = self._found.get(called)
        if found is None:
            found = self._search(scope)
            if len(self._found) == RULES_REMEMBERED:
                self._found.clear()
            if len(called[1]) <= RULE_CHARACTERS:
                self._found[called] = found
        return found

    def _search(self, scope: Scope) -> tuple[Rule, tuple[str, ...]]:
        path: str = scope["path"]
        node, names = self._root, list[str]()
        for part in path[1:].split("/"):
            found = node.named.get(part)
            if found is None:
                found = node.any
                if found is None or not part:
                    raise UnknownPath(path=path)
                names.append(part)
            node = found
        rule = node.rules.get(scope["method"])
        if rule is None:
            if not node.rules:
                raise UnknownPath(path=path)
            raise MethodNotAllowed(method=scope["method"], path=path, allowed=tuple(node.rules))
        return rule, tuple(names)


def shown_token(scope: Scope, headers: Mapping[bytes, bytes]) -> bytes:
    """The token of a request with these headers; raises Unauthenticated if it has none."""
    shown = headers.get(b"authorization")
    if shown is None:
        return _token_of_page(scope, headers)
    if shown[:7].lower() != b"bearer ":
        raise Unauthenticated(reason=NONE_SHOWN)
    return shown[7:].strip()


def _token_of_page(scope: Scope, headers: Mapping[bytes, bytes]) -> bytes:
    """The token in the cookie of a call that one of our pages makes, which then is as if the header had it.

    A browser says in Origin whose page a call is that changes something, and `BrowserGate` has refused those of others.
    Calls that change nothing need the header: no page of ours makes one.
    """
    if scope["method"] not in _SAFE and b"origin" in headers:
        for each in headers.get(b"cookie", b"").split(b";"):
            name, _, token = each.strip().partition(b"=")
            if name == COOKIE.encode() and token:
                scope["headers"] = [*scope["headers"], (b"authorization", b"Bearer " + token)]
                return token
    raise Unauthenticated(reason=NONE_SHOWN)


async def check_group(scope: Scope, controller: Controller, group: str) -> None:
    """Raises Forbidden unless all streams of the group are allowed. The handler refuses an unknown group."""
    grant = grant_of(scope)
    if grant is None or grant.allows_every_stream:
        return
    try:
        found = await controller.groups.get(group)
    except (UnknownGroup, InvalidName):
        return
    check_streams(scope, found.membership.settings.streams)


def check_streams(scope: Scope, streams: Iterable[str]) -> None:
    """Raises Forbidden unless the caller's pattern allows all streams of a group."""
    grant = grant_of(scope)
    for stream in streams:
        if grant is not None and not grant.allows(stream):
            raise forbidden(grant, scope, Role.READER, stream)


def check_writer(grant: Grant | None, scope: Scope, stream: str, writer: str) -> None:
    """Raises Forbidden unless the caller's token speaks for a writer of the stream."""
    if grant is not None and not grant.speaks_for(writer):
        raise does_not_speak_for(grant, scope, stream, writer)


def grant_of(scope: Scope) -> Grant | None:
    """What the caller's token allows; None if the store has no tokens."""
    grant: Grant | None = scope.get("strandline.grant")
    return grant


async def get_grant(request: Request) -> Grant | None:
    """The grant of the caller, for handlers."""
    return grant_of(request.scope)


def does_not_speak_for(grant: Grant, scope: Scope, stream: str, writer: str) -> Forbidden:
    """The refusal of a call for a writer that the caller's token is not bound to."""
    call = f"{scope['method']} {scope['path']}"
    return Forbidden(role=grant.role, call=call, needs=Role.WRITER, stream=stream, writer=writer, writers=grant.writers)


def forbidden(grant: Grant, scope: Scope, needs: Role, stream: str | None = None) -> Forbidden:
    """The refusal of a call to this caller; `stream` is a stream that the pattern would have to allow."""
    call = f"{scope['method']} {scope['path']}"
    return Forbidden(role=grant.role, call=call, pattern=grant.pattern, needs=needs, stream=stream)
