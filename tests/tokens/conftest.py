"""Tokens made in a store while a controller serves it, as `strandline token` does."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.storage.tokens import add_token, digest_of, open_tokens, revoke_token
from strandline.access import Grant, Role
from strandline.redaction import TOKEN_PREFIX
from tests.served import NOON, InProcess, ManualClock


class Keyed:
    """A controller in this process, and the tokens of its store."""

    def __init__(self, controller: InProcess) -> None:
        self.controller = controller
        self.database = str(controller.database)
        self.names: dict[str, str] = {}
        self._count = count(1)

    def make(
        self, role: str = "admin", pattern: str = "*", *, writers: str = "*", expires_at: int | None = None
    ) -> str:
        """A new token, which the controller knows."""
        token = TOKEN_PREFIX + secrets.token_urlsafe(32)
        self.names[token] = f"{role}-{next(self._count)}"
        name = self.names[token]
        grant = Grant(name=name, role=Role(role), pattern=pattern, writers=writers, expires_at=expires_at)
        with open_tokens(self.database) as connection:
            add_token(connection, grant, digest_of(token.encode()), NOON)
        self.look()
        return token

    def revoke(self, token: str) -> None:
        with open_tokens(self.database) as connection:
            revoke_token(connection, self.names[token], NOON)
        self.look()

    def look(self) -> None:
        """Lets the controller look at its tokens now. By itself it does so twice a second."""
        self.controller.portal.call(self.controller.app.state.controller.tokens.refresh)

    def ask(self, token: str | None, method: str, path: str, body: object = None) -> httpx.Response:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return self.controller.request(method, path, headers=headers, **({} if body is None else {"json": body}))

    def call(self, token: str | None, method: str, path: str, body: object = None) -> Any:
        response = self.ask(token, method, path, body)
        assert response.status_code < 300, f"{method} {path}: {response.status_code} {response.text}"
        return response.json() if response.content else None


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    """A controller that the tests of a module share."""
    with InProcess(tmp_path_factory.mktemp("tokens") / "store.db", ManualClock()) as controller:
        yield Keyed(controller)


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[Keyed]:
    """A controller of the test's own."""
    with InProcess(tmp_path / "store.db", ManualClock()) as controller:
        yield Keyed(controller)


@pytest.fixture
def strandline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command in this process on the test's store; returns what it leaves with and what it printed."""
    from controller.cli import main

    def run(*words: str) -> tuple[int, str, str]:
        code = main([*words, "--database", str(tmp_path / "store.db")])
        return code, *capsys.readouterr()

    return run
