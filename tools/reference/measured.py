"""The metrics of a controller, with the alerts that use them."""

from __future__ import annotations

import re
from pathlib import Path

from controller.operators.metric_families import FAMILIES, MetricFamily
from tools.reference.text import code, items, page

ALERTS = Path(__file__).resolve().parents[2] / "controller" / "operations" / "alerts.yml"
SECTIONS = {
    "strandline_stream_": "Streams",
    "strandline_group_": "Reader groups",
    "strandline_": "The process",
}


def metrics() -> str:
    """Each metric with its labels, by subject."""
    flip = "https://cwiki.apache.org/confluence/display/FLINK/FLIP-33%3A+Standardize+Connector+Metrics"
    introduction = (
        f"The answer of `GET /metrics`, in Prometheus' text format. Names follow [FLIP-33]({flip}) if it has one, in "
        "seconds. A histogram has `_bucket`, `_sum` and `_count`. There are also the usual `process_…` and `python_…` "
        "metrics of the Python client: processor, memory, open files, garbage collection. [metrics.md](../metrics.md) "
        "describes how to scrape them and what they leave out; alerts are rules in "
        "[alerts.yml](../../controller/operations/alerts.yml)."
    )
    alerts = _alerts()
    parts: dict[str, list[tuple[str, str]]] = {title: [] for title in SECTIONS.values()}
    for family in FAMILIES:
        title = next(title for beginning, title in SECTIONS.items() if family.name.startswith(beginning))
        parts[title].append(_item(family, alerts))
    return page("Metrics", introduction, (f"## {title}\n\n{items(each)}" for title, each in parts.items()))


def _item(family: MetricFamily, alerts: dict[str, str]) -> tuple[str, str]:
    asking = ", ".join(code(name) for name, rule in alerts.items() if re.search(rf"{family.name}(?:_bucket)?\b", rule))
    labels = f" by {', '.join(family.labels)}" if family.labels else ""
    return f"{code(family.name)} ({family.kind}{labels})", f"{family.help} Alerts: {asking}." if asking else family.help


def _alerts() -> dict[str, str]:
    """The expression of each rule, by its name."""
    rules = re.split(r"- alert: (\w+)\n", ALERTS.read_text())[1:]
    return dict(zip(rules[::2], (rule.partition("annotations:")[0] for rule in rules[1::2]), strict=True))
