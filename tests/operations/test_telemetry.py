"""OpenTelemetry: FastAPI's own, turned on by the standard variables, and what it makes of calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.util.types import AttributeValue

from controller.app import telemetry_of
from tests.served import InProcess, ManualClock

NOWHERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


class Span(trace.NonRecordingSpan):
    """A span that keeps its name and attributes."""

    def __init__(self, name: str) -> None:
        super().__init__(trace.INVALID_SPAN_CONTEXT)
        self.name = name
        self.found: dict[str, AttributeValue] = {}

    def update_name(self, name: str) -> None:
        self.name = name

    def set_attribute(self, key: str, value: AttributeValue) -> None:
        self.found[key] = value

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        self.found |= attributes


class Spans(trace.NoOpTracer, trace.TracerProvider):
    """Provides itself as the tracer, and keeps all spans."""

    def __init__(self) -> None:
        self.all: list[Span] = []

    def get_tracer(self, *_: Any, **__: Any) -> trace.Tracer:
        return self

    def start_span(self, name: str, *_: Any, **__: Any) -> Span:
        self.all.append(Span(name))
        return self.all[-1]


@pytest.fixture(scope="module")
def provider() -> Spans:
    """The provider of this process: there can be one only, and other tests have no calls traced."""
    provider = Spans()
    trace.set_tracer_provider(provider)
    return provider


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, provider: Spans) -> Iterator[InProcess]:
    for name, value in NOWHERE.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "false")
    provider.all.clear()
    with InProcess(tmp_path / "store.db", ManualClock()) as started:
        yield started


@pytest.mark.parametrize(
    ("variables", "on", "exports"),
    [
        ({}, False, False),
        ({"OTEL_SERVICE_NAME": "strandline", "FASTAPI_OTEL_AUTO_CONFIGURE": "true"}, False, False),
        (NOWHERE, True, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/v1/traces"}, True, True),
        ({**NOWHERE, "FASTAPI_OTEL_AUTO_CONFIGURE": "false"}, True, False),
        ({**NOWHERE, "OTEL_SDK_DISABLED": "true"}, False, False),
    ],
)
def test_an_endpoint_turns_it_on(variables: dict[str, str], on: bool, exports: bool) -> None:
    telemetry = telemetry_of(variables)
    assert telemetry["tracing"] == telemetry["metrics"] == telemetry["logs"] == on
    assert telemetry["auto_configure"] == exports


def test_each_call_has_one_span_with_its_route(controller: InProcess, provider: Spans) -> None:
    controller.call("PUT", "/v1/streams/s", {"segments": 1, "max_ahead_ms": None})
    controller.note("w", 100, {"0": 1})
    controller.call("POST", "/v1/streams/s/notes", {"writer": "w", "time": 1, "position": {}}, expect=409)
    controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": 1}})
    assert [(each.name, each.found["http.response.status_code"]) for each in provider.all] == [
        ("PUT /v1/streams/{stream}", 201),
        ("POST /v1/streams/{stream}/notes", 200),
        ("POST /v1/streams/{stream}/notes", 409),
        ("POST /v1/streams/{stream}/time-window", 200),
    ]
    assert provider.all[1].found["http.route"] == "/v1/streams/{stream}/notes"


def test_without_an_endpoint_no_call_has_a_span(provider: Spans, tmp_path: Path) -> None:
    provider.all.clear()
    with InProcess(tmp_path / "store.db", ManualClock()) as controller:
        controller.call("GET", "/v1/streams")
    assert provider.all == []
