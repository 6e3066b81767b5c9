"""Scrapes a supervisor's metrics, and reads them with Prometheus' own parser."""

from __future__ import annotations

from contextlib import closing

from prometheus_client.parser import text_string_to_metric_families

from harness import LiveSupervisor, UnixHTTP


class Scrape:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.families = list(text_string_to_metric_families(text))
        self._samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in self.families
            for sample in family.samples
        }

    @property
    def names(self) -> set[str]:
        """Of all samples; of histograms also those that have no sample yet."""
        empty = {
            f"{family.name}{suffix}"
            for family in self.families
            if family.type == "histogram"
            for suffix in ("_bucket", "_count", "_sum")
        }
        return {name for name, _ in self._samples} | empty

    def value(self, name: str, **labels: str) -> float:
        """The value of a sample without the prefix of its name; 0 if there is none."""
        return self._samples.get((f"tqstudio_{name}", frozenset(labels.items())), 0.0)

    def labels(self, name: str, label: str) -> set[str]:
        """The values of a label."""
        found = [dict(labels) for of, labels in self._samples if of == f"tqstudio_{name}"]
        return {labels[label] for labels in found}


def scrape(live: LiveSupervisor, *, timeout_s: float = 30) -> Scrape:
    with closing(UnixHTTP(live.home.socket, timeout_s)) as connection:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        assert answer.getheader("content-type") == "text/plain; version=0.0.4; charset=utf-8"
        return Scrape(answer.read().decode())
