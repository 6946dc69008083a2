"""What a relay counts, for Prometheus."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server


class RelayMeasures:
    """Counts, and serves them if it is told where."""

    def __init__(self, address: tuple[str, int] | None) -> None:
        registry = CollectorRegistry()
        self._counts = Counter(
            "strandline_relay_results",
            "What the relay did: records read, notes taken (noted, late), idle and close; and what counts for nothing: "
            "times that had been noted before (repeated) or went back, records that are no notes, what is refused, or "
            "for a stream that is not there (missing), and records for which there was no room.",
            ["result"],
            registry=registry,
        )
        self._behind = Gauge(
            "strandline_relay_lag_records", "Records of a partition that were not yet read.", ["partition"],
            registry=registry,
        )  # fmt: skip
        self._owed = Gauge("strandline_relay_owed_writers", "Writers of which a record waits.", registry=registry)
        if address is not None:
            start_http_server(address[1], address[0], registry)

    def counted(self, what: str, count: int = 1) -> None:
        self._counts.labels(what).inc(count)

    def behind(self, records: Mapping[int, int], owed: int) -> None:
        self._behind.clear()
        for partition, count in records.items():
            self._behind.labels(str(partition)).set(count)
        self._owed.set(owed)
