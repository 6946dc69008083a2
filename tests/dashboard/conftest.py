"""A controller with the dashboard in this process, whose pages are read as trees."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.app import create_app
from controller.settings import Settings
from controller.storage.tokens import add_token, digest_of, open_tokens
from strandline.access import Grant
from strandline.redaction import TOKEN_PREFIX
from tests.dashboard.html_tree import Element, read
from tests.served import NOON, InProcess, ManualClock

PART = {"Strandline-Part": "main"}
ORIGIN = {"Origin": "http://controller"}


class Served(InProcess):
    """A controller in this process, with its dashboard."""

    grafana: str | None = None

    def _begin(self) -> None:
        settings = Settings(database=str(self.database), grafana_url=self.grafana)
        self.app = create_app(settings, clock=self.clock, name="test", by_hand=True, dashboard=True)
        lifespan = self.app.router.lifespan_context(self.app)
        self._serving.enter_context(self.portal.wrap_async_context_manager(lifespan))

    def get(
        self, path: str, headers: Mapping[str, str] | None = None, cookies: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """A page as a browser asks for it."""
        given = dict(headers or {})
        if cookies:
            given["Cookie"] = "; ".join(f"{name}={value}" for name, value in cookies.items())
        self.look_anew()
        return self.request("GET", path, headers=given)

    def page(self, path: str, *, status: int = 200, **more: Any) -> Element:
        answer = self.get(path, **more)
        assert answer.status_code == status, answer.text
        return read(answer.text)

    def look_anew(self) -> None:
        """What pages share is made anew, although the clock stands still."""
        self.app.state.controller.status.forget()
        self.app.state.history = None

    def plan(self, act: str, texts: Mapping[str, str] | None = None, **about: str) -> dict[str, Any]:
        """What a filled-in dialog would do."""
        found: dict[str, Any] = self.call("POST", f"/acts/{act}?{httpx.QueryParams(about)}", texts or {})
        return found

    def act(self, act: str, texts: Mapping[str, str] | None = None, **about: str) -> httpx.Response:
        """Does what a dialog would do."""
        plan = self.plan(act, texts, **about)
        assert "path" in plan, plan
        more = {} if plan["body"] is None else {"json": plan["body"]}
        return self.request(plan["method"], plan["path"], **more)

    def stream(self, name: str, **settings: Any) -> None:
        self.call(
            "PUT", f"/v1/streams/{name}", {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None, **settings}
        )


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path / "store.db", ManualClock()) as controller:
        yield controller


class Keys:
    """A store with tokens."""

    def __init__(self, database: str, grants: Mapping[str, Grant]) -> None:
        self.database = database
        self.tokens = {name: TOKEN_PREFIX + secrets.token_urlsafe(32) for name in grants}
        with open_tokens(database, make=True) as connection:
            for name, grant in grants.items():
                add_token(connection, grant, digest_of(self.tokens[name].encode()), NOON)

    def cookie(self, name: str) -> dict[str, str]:
        return {"strandline_token": self.tokens[name]}

    def bearer(self, name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[name]}"}
