"""The alert rules, the dashboard and the documentation speak of metrics and labels that a real scrape has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller.operators.metric_families import FAMILIES
from controller.operators.metrics import METRICS_GROUPS, METRICS_KEYS_OF_STREAM
from controller.settings import METRICS_KEYS
from controller.streams.counts import METRICS_HOLDERS
from tests.operations.scraping import Scrape

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "controller" / "operations" / "alerts.yml"
DASHBOARD = ROOT / "controller" / "operations" / "dashboard.json"
DOCUMENT = (ROOT / "docs" / "metrics.md").read_text()
OF_THE_SCRAPE = {"instance", "job"}  # labels that Prometheus adds
WORDS = {
    "abs", "absent", "and", "by", "count", "for", "histogram_quantile", "increase", "max", "max_over_time", "min", "on",
    "or", "rate", "sum", "unless", "vector", "without",
}  # fmt: skip


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def targets() -> list[dict[str, Any]]:
    return [target for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel.get("targets", ())]


def expressions() -> list[str]:
    return [rule["expr"] for rule in alerts()] + [target["expr"] for target in targets()]


def problems(expression: str, labels: dict[str, set[str]]) -> Iterator[str]:
    """What an expression speaks of that is not there."""
    bare = re.sub(r'"[^"]*"', '""', expression)
    used: set[str] = set(OF_THE_SCRAPE)
    for name, selector in re.findall(r"\b((?:strandline|process)_\w+)(?:\{([^}]*)\})?", bare):
        if name not in labels:
            yield f"no metric {name}"
        has = labels.get(name, set())
        used |= has
        yield from (
            f"{name} has no label {each}"
            for each in re.findall(r"(\w+)\s*=~?", selector)
            if each not in has | OF_THE_SCRAPE
        )
    grouped = re.findall(r"\b(?:by|without|on)\s*\(([^)]*)\)", bare)
    yield from (f"no label {each}" for each in re.findall(r"\w+", " ".join(grouped)) if each not in used)
    rest = re.sub(r"\{[^}]*\}|\b(?:by|without|on)\s*\([^)]*\)|\[\w+\]", " ", bare)
    names = re.findall(r"[a-zA-Z_]\w*", rest)
    yield from (
        f"what is {each}?" for each in names if each not in WORDS and not each.startswith(("strandline_", "process_"))
    )


@pytest.mark.parametrize("expression", expressions())
def test_every_expression_speaks_of_metrics_and_labels_that_exist(expression: str, busy: Scrape) -> None:
    assert list(problems(expression, busy.labels)) == []


def test_what_alerts_and_legends_say_uses_labels_that_their_metrics_have(busy: Scrape) -> None:
    said = [(rule["expr"], re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) for rule in alerts()]
    said += [(target["expr"], re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) for target in targets()]
    for expression, labels in said:
        has = set().union(*(busy.labels[name] for name in re.findall(r"(?:strandline|process)_\w+", expression)))
        assert set(labels) <= has | OF_THE_SCRAPE, expression


def test_an_alert_is_one_over_all_controllers_of_a_store_and_outlasts_the_start_of_one() -> None:
    """Each of them shows every stream and group: labels of their own, also those of pods, must not make it several."""
    about = [rule for rule in alerts() if re.search(r"strandline_(stream|group)_", rule["expr"])]
    one = re.compile(r"(max|sum) by \(job, (stream|group)\b")
    assert about and [rule["alert"] for rule in about if not one.match(rule["expr"])] == []
    assert [rule["alert"] for rule in about if "instance" in rule["annotations"]["summary"]] == []

    states = [rule for rule in alerts() if re.search(r"strandline_stream_(state|held|watermark)", rule["expr"])]
    assert states and [rule["alert"] for rule in states if "keep_firing_for" not in rule] == []


def test_the_page_names_only_metrics_that_there_are_and_the_bounds_of_the_code() -> None:
    named = set(re.findall(r"`(strandline_\w+)`", DOCUMENT))
    assert named
    assert named - {each.name for each in FAMILIES} == set()

    for words in (
        f"{METRICS_KEYS:,} pairs".replace(",", " "), f"{METRICS_KEYS_OF_STREAM} keys", f"the {METRICS_HOLDERS} writers",
        f"first {METRICS_GROUPS}",
    ):  # fmt: skip
        assert words in DOCUMENT.replace("\n", " "), words
