"""A scrape, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from tests.served import InProcess

STREAM = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None}


@dataclass(frozen=True, slots=True)
class Scrape:
    """Values by name and labels; help and kind by name."""

    values: Mapping[tuple[str, frozenset[tuple[str, str]]], float]
    help: Mapping[str, str]
    kinds: Mapping[str, str]

    def value(self, name: str, **labels: str) -> float:
        return self.values[f"strandline_{name}", frozenset(labels.items())]

    def of(self, name: str) -> dict[frozenset[tuple[str, str]], float]:
        return {labels: value for (each, labels), value in self.values.items() if each == f"strandline_{name}"}

    @property
    def labels(self) -> dict[str, set[str]]:
        """The labels of each sample's name."""
        found: dict[str, set[str]] = {}
        for name, labels in self.values:
            found.setdefault(name, set()).update(label for label, _ in labels)
        return found


def read(text: str) -> Scrape:
    families = list(text_string_to_metric_families(text))
    samples = [sample for family in families for sample in family.samples]
    values = {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}
    assert len(values) == len(samples), "two samples with the same labels"

    def name(family: str, kind: str) -> str:
        return f"{family}_total" if kind == "counter" else family

    return Scrape(
        values,
        {name(each.name, each.type): each.documentation for each in families},
        {name(each.name, each.type): each.type for each in families},
    )


def scrape(controller: InProcess) -> Scrape:
    controller.app.state.controller.status.forget()
    response = controller.request("GET", "/metrics")
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return read(response.text)
