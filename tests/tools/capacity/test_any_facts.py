"""Whatever the facts hold, the arithmetic answers or says what is missing; it never raises."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import many
from tests.tools.capacity.boxes import KIMI, story, under_load
from tools.capacity import ModelShape, Report
from tools.capacity.errors import ConfigUnreadable
from transcripts.facts import Fact, Facts

NAMES = [
    *sorted({fact.name for fact in story(*under_load())} - {"flag", "model_config", "version"}),
    "state_slots",
    "graph_gib",
    "cgroup_limit_bytes",
    "host_pool_gb",
    "numa_total_bytes",
    "free_after_boot_gib",
    "chunked_prefill_size",
]
FLAGS = [
    "--tp",
    "--dp-size",
    "--attn-dp-size",
    "--pp-size",
    "--dcp-size",
    "--enable-dp-attention",
    "--page-size",
    "--mem-fraction-static",
    "--max-running-requests",
    "--kv-cache-dtype",
    "--max-total-tokens",
    "--hicache-ratio",
    "--hicache-size",
    "--cuda-graph-max-bs",
    "--speculative-algorithm",
    "--swa-full-tokens-ratio",
]
VALUES: st.SearchStrategy[int | float | str] = st.one_of(
    st.sampled_from([0, 1, -1, 3, 8, "0", "8", "true", "auto", "", "None", "nan", "inf", 0.0, 0.5, 1e18, "fp8_e4m3"]),
    st.integers(-10, 10**12),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)


@st.composite
def altered(draw: st.DrawFn) -> Facts:
    more = [
        Fact(
            draw(st.sampled_from(NAMES)),
            draw(VALUES),
            "",
            "observed",
            "E1",
            draw(st.sampled_from(["", "draft", "gpu0"])),
        )
        for _ in range(draw(st.integers(0, 6)))
    ]
    more += [
        Fact("flag", draw(VALUES), "", "observed", "E1", draw(st.sampled_from(FLAGS)))
        for _ in range(draw(st.integers(0, 4)))
    ]
    dropped = draw(st.sets(st.sampled_from(NAMES), max_size=4))
    version = draw(st.sampled_from(["0.4.6", "0.5.9", "0.5.16", "0.5.23", "", "main"]))
    return Facts(fact for fact in story(*under_load(), *more, version=version) if fact.name not in dropped)


@settings(max_examples=many(40))
@given(altered())
def test_a_plan_of_any_facts(facts: Facts) -> None:
    report = Report(facts)
    assert json.loads(json.dumps(report.as_json(), allow_nan=False))["v"] == 1
    assert list(report.text(everything=True, explain=True)) is not None


@settings(max_examples=many(40))
@given(
    st.dictionaries(
        st.sampled_from([*KIMI["text_config"], "layer_types", "linear_attn_config", "sliding_window", "mamba_n_heads"]),
        st.one_of(
            st.none(), st.integers(-3, 1000), st.text(max_size=4), st.lists(st.integers(), max_size=3), st.booleans()
        ),
    )
)
def test_any_config_is_a_shape_or_is_refused(changes: dict[str, Any]) -> None:
    config = {"text_config": KIMI["text_config"] | changes}
    try:
        shape = ModelShape.from_config(config)
    except ConfigUnreadable:
        return
    assert shape.layers > 0


def test_a_config_fact_that_is_no_json_is_said_as_missing() -> None:
    facts = story(Fact("model_config", "{", "", "observed", "E8"))
    assert "model_config" in {name for one in Report(facts).missing for name in one.facts}
    with pytest.raises(ConfigUnreadable):
        ModelShape.from_config({})
