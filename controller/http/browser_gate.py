"""Refuses what a browser sends for a page that is not the controller's own. Every request passes this check.

Host                      A page of `evil.example` may point that name at this controller (DNS rebinding). To the
                          browser both are then one origin, and only Host shows which name was called.
Origin, Sec-Fetch-Site    A page of any origin can send forms and simple requests. The browser sends in these
                          headers whose page it is, and no script can change them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from starlette.types import Scope

from strandline.errors import BadRequest, ForeignOrigin, Unauthenticated, WrongHost
from strandline.hosts import AllowedHosts, is_loopback, is_own_page, parse_authority, same_host

PROBES: Final = frozenset({"/healthz", "/readyz"})  # answered under every name: they reveal nothing and change nothing
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES: Final = frozenset({b"same-origin", b"none"})  # "none": a person typed the address
_ONCE: Final = frozenset({b"host", b"origin", b"sec-fetch-site", b"authorization", b"content-type"})
_CALLED_KEPT: Final = 64  # pairs of a host as it was sent and the address that was called, found to be allowed


class BrowserGate:
    """Knows the names of a controller, and which pages are its own."""

    def __init__(self, allowed_hosts: Sequence[str], listens_on: str, *, insecure: bool = False) -> None:
        """`allowed_hosts` are those that the operator named. An `insecure` controller needs no tokens beyond this
        machine. Raises InvalidConfig for one that cannot be a host."""
        beyond = not is_loopback(listens_on)
        own = parse_authority(listens_on)
        named = () if own is None or not beyond else (own.host,)
        self._allowed = AllowedHosts.of([*allowed_hosts, *named])
        self._is_open_with_tokens = beyond and not allowed_hosts
        self._needs_tokens_beyond = not insecure
        self._found: set[tuple[object, object, bool]] = set()

    def check(self, scope: Scope, headers: Mapping[bytes, bytes], *, tokens_required: bool) -> None:
        """Lets a request with these headers pass, or raises BadRequest, WrongHost, ForeignOrigin or Unauthenticated.

        Beyond this machine, with tokens and without named hosts, every host is allowed: see decision 0054.
        """
        if len(headers) < len(scope["headers"]):
            _check_once(scope)
        host, server = headers.get(b"host"), scope.get("server")
        called = host, None if server is None else tuple(server), tokens_required  # some servers give a list
        if called not in self._found:
            if not tokens_required and self._needs_tokens_beyond and not _is_of_this_machine(server):
                raise Unauthenticated(reason="without tokens it serves its own machine only")
            self._check_host(scope, host, every=tokens_required and self._is_open_with_tokens)
            if (
                host is not None and path_within(scope) not in PROBES
            ):  # without a host it depends on the version of HTTP
                if len(self._found) == _CALLED_KEPT:
                    self._found.clear()
                self._found.add(called)
        if (b"origin" in headers or b"sec-fetch-site" in headers) and scope["method"] not in _SAFE:
            _check_page(scope, headers)

    def _check_host(self, scope: Scope, sent: bytes | None, *, every: bool) -> None:
        if sent is None:
            if scope.get("http_version") == "1.0":  # no browser has sent that for decades
                return
            raise BadRequest(reason="the header Host is missing")
        authority = parse_authority(sent.decode("latin-1"))
        if authority is None:
            raise BadRequest(reason="the header Host is no host with a port")
        host, own = authority.host, scope.get("server")
        is_own = is_loopback(host) or (own is not None and same_host(host, str(own[0])))
        if not every and not is_own and not self._allowed.allows(host) and path_within(scope) not in PROBES:
            raise WrongHost(host=host)


def path_within(scope: Scope) -> str:
    """The path of a request within the application, which may be mounted in another one."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def _is_of_this_machine(called: tuple[str, int | None] | None) -> bool:
    """Whether the address that was called is one of loopback, or none at all, as that of a socket file."""
    if called is None:
        return True
    host = called[0]
    return host == "127.0.0.1" or is_loopback(host) or (not host[:1].isdigit() and ":" not in host)


def _check_once(scope: Scope) -> None:
    """Raises BadRequest for a header that must occur once and occurs twice: it would be unclear which one counts."""
    seen: set[bytes] = set()
    for name, _ in scope["headers"]:
        if name in seen and name in _ONCE:
            raise BadRequest(reason=f"the header {name.decode('latin-1')} stands in it twice")
        seen.add(name)


def _check_page(scope: Scope, headers: Mapping[bytes, bytes]) -> None:
    """Raises ForeignOrigin for what a browser sends for a page of another origin. Programs send neither header."""
    origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
    host = headers.get(b"host", b"").decode("latin-1")
    forwarded = headers.get(b"x-forwarded-host", b"").decode("latin-1").partition(",")[0].strip()
    scheme: str = scope["scheme"]
    page = None if origin is None else origin.decode("latin-1")
    is_own = page is None or is_own_page(page, (host, forwarded), scheme=scheme)
    if not is_own or site not in (None, *_OWN_SITES):
        raise ForeignOrigin(origin=page, site=None if site is None else site.decode("latin-1"), host=host)
