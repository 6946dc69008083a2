"""The application as one that a user of FastAPI extends, tests and mounts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.testclient import TestClient
from pydantic import BaseModel

from controller.app import create_app
from controller.http.dependencies import get_controller

pytestmark = pytest.mark.filterwarnings("ignore:Using .httpx. with")  # Starlette's client wants another package

STREAM = "/v1/streams/s"
NOTE = {"writer": "w", "time": 1, "position": {"0": 1}}


class Order(BaseModel):
    number: int


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    monkeypatch.setenv("STRANDLINE_DATABASE", str(tmp_path / "store.db"))
    return create_app()


def test_routes_middleware_and_dependencies_of_ones_own_are_as_fastapi_has_them(app: FastAPI) -> None:
    @app.get("/orders/{number}")
    def order(number: int, closed: bool = False) -> Order:
        if closed:
            raise HTTPException(404, "it is closed")
        return Order(number=number)

    @app.middleware("http")
    async def mine(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request)
        response.headers["X-Mine"] = request.url.path
        return response

    def closed() -> None:
        raise HTTPException(418, "closed today")

    with TestClient(app) as client:
        assert client.put(STREAM, json={"segments": 1}).headers["x-mine"] == STREAM
        assert client.post(f"{STREAM}/notes", json={}).headers["x-mine"] == f"{STREAM}/notes"
        assert client.get("/orders/3").json() == {"number": 3}
        assert client.get("/orders/3?closed=1").json() == {"detail": "it is closed"}
        assert client.get("/orders/three").json()["code"] == "invalid_parameter"
        document = client.get("/openapi.json").json()
        assert "/orders/{number}" in document["paths"] and "Order" in document["components"]["schemas"]
        app.dependency_overrides[get_controller] = closed
        assert client.get(STREAM).json() == {"detail": "closed today"}


def test_it_can_be_mounted_in_another_application_which_has_to_run_its_lifespan(app: FastAPI) -> None:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with app.router.lifespan_context(app):
            yield

    without, outer = FastAPI(), FastAPI(lifespan=lifespan)
    for each in (without, outer):
        each.mount("/watermarks", app)
    with TestClient(without) as client, pytest.raises(RuntimeError, match="lifespan_context"):
        client.get("/watermarks/healthz")
    with TestClient(outer) as client:
        assert client.get("/watermarks/healthz").json() == {"status": "ok"}
        assert client.put(f"/watermarks{STREAM}", json={"segments": 1, "max_ahead_ms": None}).status_code == 201
        assert client.post(f"/watermarks{STREAM}/notes", json=NOTE).json()["late"] is False
        assert client.get("/watermarks/v1/none").json()["path"] == "/watermarks/v1/none"
        assert client.delete("/watermarks/healthz").headers["allow"] == "GET"
        assert client.get("/healthz").json() == {"detail": "Not Found"}
