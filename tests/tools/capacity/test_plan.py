"""The plan of a deployment: as a document, as text, as a picture; and of one that does not run yet."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest

from tests.tools.capacity.boxes import GIB, KIMI, story, under_load
from tools.capacity import (
    Cards,
    HostBudget,
    Lever,
    Mix,
    Report,
    assume,
    gpu_budget,
    host_budget,
    svg,
    terminal,
    what_if,
)
from tools.capacity.errors import SettingRefused
from transcripts.facts import Fact, Facts

MOE: dict[str, Any] = KIMI | {
    "text_config": KIMI["text_config"]
    | {
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "n_shared_experts": 1,
        "first_k_dense_replace": 1,
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "ignore": ["lm_head", "re:.*self_attn.*"],
            "config_groups": {"group_0": {"weights": {"num_bits": 4}}},
        },
    }
}


@pytest.fixture(scope="module")
def report() -> Report:
    return Report(story(*under_load(usage=0.97, running=20)), {"kv-cache-dtype": "fp8_e4m3", "dp-size": "4"})


def test_the_document_holds_every_sum_with_formula_inputs_and_source(report: Report) -> None:
    document = report.as_json()
    assert document["v"] == 1
    assert {"steps", "levers", "arithmetic", "slots", "concurrency", "host", "missing"} <= set(document)
    for entry in document["arithmetic"]:
        assert entry["expression"]
        assert entry["inputs"]
        assert entry["unit"]
        assert entry["source_line"].startswith("srt/")


def test_settings_that_the_operator_names_are_evaluated_together(report: Report) -> None:
    chosen = next(lever for lever in report.as_json()["levers"] if lever["name"] == "as set")
    assert chosen["factor"] == pytest.approx(5.19, abs=0.01)
    assert {change["flag"] for change in chosen["changes"]} == {"--kv-cache-dtype", "--dp-size"}


def test_explain_prints_formula_inputs_and_line(report: Report) -> None:
    text = "\n".join(report.text(everything=False, explain=True))
    assert "pool_tokens = floor(budget * 2^30 / bytes_per_token) to a page = 159,209 tokens" in text
    assert "from E5:31" in text
    assert "srt/model_executor/model_runner_kv_cache_mixin.py:143" in text


def test_explain_names_the_lever_of_each_sum_and_the_lines_of_each_step() -> None:
    said = " ".join(" ".join(Report(story(), {"hicache-ratio": "4"}).text(everything=False, explain=True)).split())
    assert "weights = 94.06 before - 21.71 left = 72.35 GiB (derived; from E5:40)" in said
    assert "with DP attention, dp 4: attention_weights_repeated = " in said
    host = said.partition("with as set: ")[2].partition(" with ")[0]
    assert "= 358.01 GB" in host
    assert "limit 398.20 from MemAvailable" in host


def test_the_picture_is_whole_and_needs_nothing_else(report: Report) -> None:
    picture = svg(report.bars, "one <GPU> & its memory")
    root = ElementTree.fromstring(picture)
    assert root.tag.endswith("svg")
    assert "prefers-color-scheme" in picture
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")
    card = 97887 / 1024
    assert all(bar.total_gib == pytest.approx(card, abs=0.01) for bar in report.bars)


def test_rows_of_a_terminal_are_equally_long(report: Report) -> None:
    drawn = terminal(report.bars, 90)
    rows = [row for row in drawn if "|" in row]
    assert len(rows) == len(report.bars)
    assert {len(row) for row in rows} == {90}
    assert all(len(row) <= 90 for row in drawn)
    assert "weights" in drawn[-1] or "weights" in drawn[-2]


def test_bars_have_one_scale_and_what_nothing_accounts_for_is_a_part_of_its_own() -> None:
    found = assume(MOE, Cards.parse("8x96"), "0.5.9", {"mem_fraction_static": "0.88"}, weights_gib=72.35)
    report = Report(found.middle, {"kv-cache-dtype": "fp8_e4m3", "mem-fraction-static": "0.86"})
    card = 97887 / 1024
    assert all(bar.total_gib == pytest.approx(card, abs=0.01) for bar in report.bars)
    now, chosen = (next(bar for bar in report.bars if bar.label == label) for label in ("now", "as set"))
    assert dict(now.parts)["unassigned"] > 5
    assert round(dict(now.parts)["weights"], 2) == round(dict(chosen.parts)["weights"], 2) == 72.35
    rows = [row for row in terminal((now, chosen), 80) if "|" in row]
    assert len({row.count("W") for row in rows}) == 1
    assert all("?" in row for row in rows)


@pytest.mark.parametrize(
    ("version", "settings", "message"),
    [
        ("0.5.9", {"dp-size": "3"}, "does not divide"),
        ("0.5.9", {"dcp-size": "8"}, "no --dcp-size"),
        ("0.5.23", {"dcp-size": "3"}, "does not divide"),
        ("0.5.23", {"dcp-size": "8", "hicache-ratio": "2"}, "no draft model"),
        ("0.5.9", {"hicache-ratio": "1"}, "larger than the device pool"),
        ("0.5.9", {"hicache-size": "11"}, "not larger than the device pool"),
        ("0.5.9", {"hicache-size": "11.5"}, "not a whole number"),
        ("0.5.9", {"kv-cache-dtype": "fp7"}, "no KV cache type"),
        ("0.5.9", {"mem-fraction-static": "1.2"}, "between 0 and 1"),
        ("0.5.9", {"context-length": "1"}, "not one of the memory levers"),
        ("0.5.9", {"max-running-requests": "many"}, "not a number"),
        ("0.5.9", {"max-running-requests": "inf"}, "not a number"),
        ("0.5.9", {"max-total-tokens": "-inf"}, "not a number"),
        ("0.5.9", {"dp-size": "nan"}, "not a number"),
        ("0.5.9", {"hicache-ratio": "inf"}, "not a number"),
        ("0.5.9", {"hicache-ratio": "nan"}, "not a number"),
        ("0.5.9", {"hicache-ratio": "1e308"}, "not a number"),
        ("0.5.23", {"hicache-ratio": "-2"}, "is no ratio"),
        ("0.5.9", {"enable-hierarchical-cache": "false"}, "takes no value"),
    ],
)
def test_settings_that_the_rules_do_not_allow(version: str, settings: dict[str, str], message: str) -> None:
    with pytest.raises(SettingRefused, match=message):
        what_if(story(version=version), settings)


def test_a_fraction_beyond_what_is_free_does_not_fit() -> None:
    chosen = what_if(story(), {"mem-fraction-static": "0.95"})
    assert isinstance(chosen, Lever)
    assert not chosen.fits
    assert "are needed" in chosen.why_not


def test_a_start_that_nobody_has_seen_is_estimated_with_its_range() -> None:
    found = assume(MOE, Cards.parse("8x96"), "0.5.9", {"mem_fraction_static": "0.88"}, ram_gib=396, mix=Mix(1500, 1000))
    report = Report(found.middle, ends=(found.worst, found.best))
    now = report.as_json()["levers"][0]
    low, high = now["tokens_range"]
    assert low < 159209 < high
    assert all(entry["grade"] != "observed" for entry in report.as_json()["arithmetic"])
    assert any("nvidia-smi" in one["how"] for one in report.as_json()["missing"])


def test_a_lever_whose_value_comes_from_the_memory_has_the_range_of_its_pool() -> None:
    found = assume(MOE, Cards.parse("8x96"), "0.5.9", {"mem_fraction_static": "0.88"}, ram_gib=396, mix=Mix(1500, 1000))
    rows = Report(found.middle, ends=(found.worst, found.best)).as_json()["levers"]
    now = next(row["tokens_range"] for row in rows if row["name"] == "now")
    tiers = [row["tokens_range"] for row in rows if row["name"].startswith("HiCache")]
    assert tiers
    assert all(tier == now for tier in tiers)


def test_weights_of_a_log_close_the_range() -> None:
    given = {"mem_fraction_static": "0.88"}
    found = assume(MOE, Cards.parse("8x96"), "0.5.9", given, weights_gib=72.35)
    low, high = Report(found.middle, ends=(found.worst, found.best)).as_json()["levers"][0]["tokens_range"]
    assert low < 159209 < high
    assert high - low < 30000


@pytest.mark.parametrize(
    ("text", "mib", "said"),
    [
        ("8x96", 97_887, "97,887 MiB = 95.59 GiB"),
        ("8x96GB", 97_887, "RTX PRO 6000"),
        ("4x80", 81_559, "H100"),
        ("8x141", 143_771, "H200"),
        ("8x97887MiB", 97_887, "as given"),
        ("8 x 95.59GiB", 95.59 * 1024, "as given"),
        ("2x77", 77 * 1024, "taken as 77 GiB"),
    ],
)
def test_a_card_is_as_large_as_the_driver_says(text: str, mib: float, said: str) -> None:
    cards = Cards.parse(text)
    assert cards.mib == pytest.approx(mib)
    assert said in cards.said


@pytest.mark.parametrize(
    ("settings", "more", "message"),
    [
        ({"tp_size": "7"}, {}, "does not divide the 64 attention heads"),
        ({"tp_size": "16"}, {}, "takes 16 GPUs; 8 are given"),
        ({"tp_size": "4", "pp_size": "4"}, {}, "takes 16 GPUs"),
        ({}, {"ram_gib": -5.0}, "no size"),
        ({}, {"weights_gib": float("nan")}, "no size"),
        ({}, {"weights_gib": 1e308}, "no size"),
        ({}, {"ram_gib": 1e308}, "no size"),
        ({"tp_size": "²"}, {}, "not a number of ranks"),
        ({"tp_size": "9" * 400}, {}, "not a number of ranks"),
        ({"context_length": "9" * 40}, {}, "none that can be summed"),
        ({"page_size": "-1"}, {}, "none that can be summed"),
    ],
)
def test_a_start_that_no_version_would_make_is_refused(
    settings: dict[str, str], more: dict[str, float], message: str
) -> None:
    with pytest.raises(SettingRefused, match=message):
        assume(MOE, Cards.parse("8x96"), "0.5.9", settings, **more)  # type: ignore[arg-type]


def test_a_request_table_larger_than_what_is_left_beside_the_pool_does_not_fit() -> None:
    """One row of the table is as long as the context: 2,048 rows of ten million tokens are 80 GiB on every card."""
    config = MOE | {"text_config": MOE["text_config"] | {"max_position_embeddings": 10_485_760}}
    found = Report(assume(config, Cards.parse("8x141"), "0.5.9").middle)
    now = found.levers[0]
    assert now.tokens > 0
    assert now.fits is False
    assert "the request table, 2,048 requests x 10,485,760 tokens of context" in now.why_not
    assert not any(lever.frontier for lever in found.levers)
    short = Report(assume(config, Cards.parse("8x141"), "0.5.9", {"context_length": "131072"}).middle)
    fewer = Report(assume(config, Cards.parse("8x141"), "0.5.9").middle, {"max-running-requests": "64"})
    assert short.levers[0].fits
    assert next(lever for lever in fewer.levers if lever.name == "as set").fits


def test_ranks_over_several_hosts_are_counted_together() -> None:
    assert assume(MOE, Cards.parse("8x96"), "0.5.9", {"tp_size": "16", "nnodes": "2"}).middle


def test_without_host_memory_a_host_copy_neither_fits_nor_does_not() -> None:
    found = assume(MOE, Cards.parse("8x96"), "0.5.9", {"mem_fraction_static": "0.88"}, weights_gib=72.35)
    report = Report(found.middle)
    copy = next(lever for lever in report.as_json()["levers"] if lever["name"].startswith("HiCache"))
    assert copy["fits"] is None
    assert "not known" in copy["why_not"]
    assert "does not fit" not in "\n".join(report.text(everything=True, explain=False))


@pytest.mark.parametrize("text", ["8", "x96", "0x96", "8x", "8 cards", "8x9600000", "8x5MiB"])
def test_cards_that_cannot_be_read(text: str) -> None:
    with pytest.raises(SettingRefused):
        Cards.parse(text)


def test_a_ratio_asked_for_without_host_memory_is_not_known_to_fit() -> None:
    facts = Facts([fact for fact in story() if fact.name != "mem_available_bytes"])
    asked = what_if(facts, {"hicache-ratio": "4"})
    assert isinstance(asked, Lever)
    assert (asked.fits, round(asked.host_gb, 1)) == (None, 358.0)
    assert "MemAvailable" in asked.why_not


def test_what_runs_with_hicache_has_its_host_memory_though_nobody_saw_how_much() -> None:
    on = [Fact("flag", "true", "", "observed", "E3:4", "--enable-hierarchical-cache")]
    facts = Facts([fact for fact in story(*on) if fact.name != "mem_available_bytes"])
    now = Report(facts).levers[0]
    assert (now.fits, now.why_not, round(now.host_gb, 1)) == (True, "", 179.0)


def test_a_host_copy_that_does_not_fit_is_held_against_what_the_host_can_give() -> None:
    asked = what_if(story(), {"hicache-ratio": "5"})
    assert isinstance(asked, Lever)
    assert asked.why_not == "447.5 GB do not fit in the 398.2 GB that the host can give"


def test_a_cgroup_limits_host_memory_before_the_machine_does() -> None:
    boxed = story(Fact("cgroup_limit_bytes", 200 * GIB, "bytes", "observed", "E9"))
    found = host_budget(boxed, 4.0)
    assert isinstance(found, HostBudget)
    assert not found.fits
    assert "cgroup" in found.limit_from
    assert found.own_check_passes  # 0.5.9 is blind to it


def test_numa_nodes_that_cannot_hold_their_ranks_are_named() -> None:
    nodes = [
        Fact("numa_total_bytes", size * GIB, "bytes", "observed", "E9", f"node{index}")
        for index, size in enumerate((103, 400))
    ]
    found = host_budget(story(*nodes), 4.0)
    assert isinstance(found, HostBudget)
    assert "node0 has about 87 GB" in found.numa


def test_a_size_is_per_rank_and_decimal() -> None:
    found = host_budget(story(), size_gb=40)
    assert isinstance(found, HostBudget)
    assert round(found.total_gb) == 320


def test_the_draft_is_a_step_of_its_own_where_its_lines_are_there() -> None:
    seen = story(
        Fact("graph_gib", 0.9, "GiB", "observed", "E5:75", "target"),
        Fact("weights_gib", 1.6, "GiB", "observed", "E5:82", "draft"),
        Fact("kv_pool_gib", 0.61, "GiB", "observed", "E5:85", "draft"),
        Fact("graph_gib", 0.4, "GiB", "observed", "E5:92", "draft"),
    )
    steps = gpu_budget(seen).steps
    names = [step.name for step in steps]
    assert [name for name in names if "draft" in name or "graph" in name][:3] == [
        "target graphs",
        "draft weights",
        "draft pool",
    ]
    assert sum(step.gib for step in steps[1:]) == pytest.approx(steps[0].gib)


def test_dp_attention_gives_the_draft_fewer_ranks_too() -> None:
    draft = '{"num_hidden_layers": 1, "num_attention_heads": 64, "hidden_size": 7168, "head_dim": 128}'
    with_draft = story(Fact("model_config", draft, "", "observed", "E8", "draft"))
    plain, wide = (what_if(facts, {"dp-size": "4"}) for facts in (story(), with_draft))
    assert isinstance(plain, Lever)
    assert isinstance(wide, Lever)
    assert plain.gpu_free_gib is not None
    assert wide.gpu_free_gib is not None
    assert wide.gpu_free_gib < plain.gpu_free_gib - 0.5


def test_nothing_known_is_said_and_nothing_guessed() -> None:
    report = Report(Facts())
    document = report.as_json()
    assert document["levers"] == []
    assert document["arithmetic"] == []
    assert {"model_config", "weights_before_gib"} <= {fact for one in document["missing"] for fact in one["facts"]}
    assert list(report.text(everything=True, explain=True))


def test_a_plan_that_fits_nowhere_names_the_fraction_from_which_on_it_would() -> None:
    found = assume(MOE, Cards.parse("8x96"), "0.5.9", weights_gib=80.0)
    report = Report(found.middle)
    now = report.levers[0]
    assert (now.tokens, now.fits) == (0, False)
    assert "--mem-fraction-static 0.855 is the first step that leaves one, of" in now.why_not
    assert "GiB from graphs and activations" in now.why_not
    raised = what_if(found.middle, {"mem-fraction-static": "0.855"})
    assert isinstance(raised, Lever)
    assert f"of {raised.tokens:,} tokens" in now.why_not
    copy = next(lever for lever in report.levers if lever.name.startswith("HiCache"))
    assert (copy.fits, copy.prefix_tokens) == (False, 0)
    assert "do not fit" not in copy.why_not


def test_weights_larger_than_the_card_have_no_fraction_and_no_picture() -> None:
    found = assume(MOE, Cards.parse("1x24"), "0.5.9", weights_gib=131.41)
    report = Report(found.middle)
    assert "no fraction leaves one" in report.levers[0].why_not
    assert report.bars == ()
    assert "no picture: the parts take 132.21 GiB, the card has 23.99" in list(
        report.text(everything=False, explain=False)
    )


BLOCKS = {
    "architectures": ["Qwen3MoeForCausalLM"], "head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288,
    "moe_intermediate_size": 1536, "num_attention_heads": 64, "num_experts": 128, "num_experts_per_tok": 8,
    "num_hidden_layers": 94, "num_key_value_heads": 4, "vocab_size": 151936, "max_position_embeddings": 40960,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip


def test_experts_whose_fp8_blocks_a_rank_would_cut_are_refused_with_what_fits() -> None:
    with pytest.raises(SettingRefused, match="1,536 wide over 8 ranks are 192 each") as refused:
        assume(BLOCKS, Cards.parse("8x96"), "0.5.9")
    assert "--set tp-size=4" in refused.value.hint
    assert "--set ep-size=2" in refused.value.hint
    assert assume(BLOCKS, Cards.parse("8x96"), "0.5.9", {"tp_size": "4"}).middle
    assert assume(BLOCKS, Cards.parse("8x96"), "0.5.9", {"ep_size": "2"}).middle
    assert assume({**BLOCKS, "moe_intermediate_size": 2048}, Cards.parse("8x96"), "0.5.9").middle


def test_a_plan_says_what_it_took_for_granted_and_speaks_of_no_server_that_runs() -> None:
    found = assume(BLOCKS, Cards.parse("8x96"), "0.5.9", {"ep_size": "2"})
    assert found.said.startswith("planned for SGLang 0.5.9, tp 8 (every card), --mem-fraction-static 0.8")
    text = "\n".join(Report(found.middle, ends=(found.worst, found.best)).text(False, False))
    assert "* started so" in text
    assert not any(word in text for word in ("* now", "now  ", "GiB now", "restart", " 0.00 GiB"))
    given = {"ep_size": "2", "tp_size": "8", "mem_fraction_static": "0.8"}
    assert assume(BLOCKS, Cards.parse("8x96"), "0.5.9", given).said.endswith("tp 8, --mem-fraction-static 0.8 as given")
