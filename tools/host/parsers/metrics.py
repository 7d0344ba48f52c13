"""Prometheus text from /metrics, as few numbers: one per metric, and one per tier where a label tells tiers apart.

Ranks repeat each other, so of several tensor-parallel ranks the lowest counts; data-parallel ranks share the load, so
counters and counts are summed over them and fractions averaged (sglang 0.5.9 srt/metrics/collector.py:307).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tools.host.parsers.page import Page, short_lines
from transcripts.facts import Evidence

_SAMPLE: Final = re.compile(
    r"^(?:sglang[:_])([A-Za-z_][A-Za-z0-9_:]*)(?:\{(.*)\})?\s+([+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|Inf|NaN))(?:\s+(\d+))?\s*$"
)
_LABEL: Final = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_RANK_LABELS: Final = ("tp_rank", "pp_rank", "moe_ep_rank", "engine_type", "model_name", "dp_rank", "pid")
_FRACTION: Final = re.compile(
    r"usage|rate|ratio|accept_length|utilization|speed|is_cuda_graph|latency_ms|page_size|_seconds$|_time$"
)
_SHARED: Final = re.compile(r"^(?:max_total_num_tokens|context_len|max_running_requests)$")
_SECONDS_APART: Final = 1000.0


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    labels: Mapping[str, str]
    value: float
    line: int
    at_ms: int | None

    @property
    def key(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        return self.name, tuple(sorted(self.labels.items()))


def read_metrics(page: Page, evidence: Evidence) -> None:
    """`metric` facts; where the text holds the same series twice, also `metric_change` from the first to the last."""
    first: dict[object, Sample] = {}
    last: dict[object, Sample] = {}
    for sample in samples(evidence.text):
        first.setdefault(sample.key, sample)
        last[sample.key] = sample
    now, before = _folded(last.values()), _folded(first.values())
    for scope, (value, line) in now.items():
        page.add("metric", _plain(value), line, scope=scope)
    twice = {sample.name for key, sample in last.items() if first[key] is not sample}
    for scope, (value, line) in now.items():
        if scope.partition("{")[0] in twice and scope in before:
            page.add("metric_change", _plain(value - before[scope][0]), line, scope=scope, grade="derived")
    _rates(page, first, last)
    _write_histograms(page, last.values())


def samples(text: str) -> Iterable[Sample]:
    """Every sample of SGLang's own metrics, in order."""
    for number, raw in short_lines(text):
        match = _SAMPLE.match(raw)
        if match is not None:
            labels = dict(_LABEL.findall(match[2] or ""))
            yield Sample(match[1], labels, float(match[3]), number, int(match[4]) if match[4] else None)


def looks_like_metrics(line: str) -> bool:
    """Whether a line is a sample that `read_metrics` reads."""
    return _SAMPLE.match(line) is not None


def _folded(found: Iterable[Sample]) -> dict[str, tuple[float, int]]:
    """One value per metric, and per combination of the labels that are no ranks."""
    by_name: dict[str, list[Sample]] = {}
    for sample in found:
        if not sample.name.endswith("_bucket") and "le" not in sample.labels and math.isfinite(sample.value):
            by_name.setdefault(sample.name, []).append(sample)
    folded: dict[str, tuple[float, int]] = {}
    for name, group in by_name.items():
        kept = _rank_zero(group)
        folded[name] = (_fold(name, kept), kept[0].line)
        parts: dict[str, list[Sample]] = {}
        for sample in kept:
            own = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()) if key not in _RANK_LABELS)
            parts.setdefault(own, []).append(sample)
        if len(parts) > 1 or any(parts):
            for own, some in parts.items():
                if own:
                    folded[f"{name}{{{own}}}"] = (_fold(name, some), some[0].line)
    return folded


def _rank_zero(group: list[Sample]) -> list[Sample]:
    ranked = [sample for sample in group if sample.labels.get("tp_rank", "").isdecimal()]
    if not ranked:
        return group
    by_replica: dict[str, int] = {}
    for sample in ranked:
        replica = sample.labels.get("dp_rank", "")
        by_replica[replica] = min(by_replica.get(replica, 1 << 30), int(sample.labels["tp_rank"]))
    return [
        sample
        for sample in group
        if sample not in ranked or int(sample.labels["tp_rank"]) == by_replica[sample.labels.get("dp_rank", "")]
    ]


def _fold(name: str, group: list[Sample]) -> float:
    values = [sample.value for sample in group]
    if _SHARED.search(name):
        return min(values)
    if _FRACTION.search(name) and not name.endswith(("_total", "_sum", "_count")):
        return sum(values) / len(values)
    return sum(values)


def _rates(page: Page, first: Mapping[object, Sample], last: Mapping[object, Sample]) -> None:
    """Counters per second, where the two samples carry times."""
    rates: dict[str, tuple[float, int]] = {}
    for key, sample in last.items():
        start = first[key]
        if start is sample or start.at_ms is None or sample.at_ms is None or sample.at_ms <= start.at_ms:
            continue
        if sample.name.endswith("_total"):
            rate = (sample.value - start.value) / ((sample.at_ms - start.at_ms) / _SECONDS_APART)
            rates[sample.name] = (rates.get(sample.name, (0.0, 0))[0] + rate, sample.line)
    for name, (rate, line) in rates.items():
        page.add("request_rate", round(rate, 4), line, scope=name, grade="derived")


def _write_histograms(page: Page, found: Iterable[Sample]) -> None:
    """Mean of each histogram, and the bucket in which its 95th percentile lies."""
    buckets: dict[str, dict[float, tuple[float, int]]] = {}
    for sample in found:
        if sample.name.endswith("_bucket") and "le" in sample.labels:
            edge = float("inf") if sample.labels["le"] == "+Inf" else _float(sample.labels["le"])
            if edge is not None:
                row = buckets.setdefault(sample.name.removesuffix("_bucket"), {})
                row[edge] = (row.get(edge, (0.0, 0))[0] + sample.value, sample.line)
    for name, row in buckets.items():
        edges = sorted(row)
        total = row[edges[-1]][0]
        if total <= 0:
            continue
        for share, suffix in ((0.5, "p50"), (0.95, "p95")):
            edge = next((one for one in edges if row[one][0] >= share * total), edges[-1])
            if math.isfinite(edge):
                page.add("metric", edge, row[edge][1], scope=f"{name}:{suffix}", grade="estimated")


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _plain(value: float) -> float | int:
    return int(value) if value.is_integer() and abs(value) < 2**53 else round(value, 6)
