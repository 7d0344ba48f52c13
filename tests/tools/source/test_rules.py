from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.tools.source.trees import VERSIONS, tree
from tools.source import obtain

# kind, words that condition, terms and effect together must hold, file
HICACHE = (
    ("raise", ("enable_hierarchical_cache", "disable_radix_cache", "mutually exclusive"), "srt/server_args.py"),
    ("override", ("effective_decode_backend == 'fa3'", "decode_attention_backend = "), "srt/server_args.py"),
    ("override", ("page_first_direct", "hicache_io_backend == 'kernel'", "= 'direct'"), "srt/server_args.py"),
    ("override", ("'mooncake'", "layer_first", "hicache_mem_layout = 'page_first'"), "srt/server_args.py"),
    ("override", ("MiMoV2FlashForCausalLM", "swa_full_tokens_ratio = 1.0"), "srt/server_args.py"),
    ("override", ("Step3p5ForCausalLM", "swa_full_tokens_ratio = 1.0"), "srt/server_args.py"),
    ("raise", ("requested_bytes > available_bytes", "10 * 1024 ** 3"), "srt/mem_cache/memory_pool_host.py"),
    ("assert", ("self.size <= device_pool.size",), "srt/mem_cache/memory_pool_host.py"),
    ("raise", ("SGLANG_ENABLE_SPEC_V2", "disaggregation_decode_enable_offload_kvcache"), "srt/server_args.py"),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "words", "path"), HICACHE)
def test_the_rules_of_hicache_are_found(kind: str, words: tuple[str, ...], path: str) -> None:
    said = [
        f"{rule.condition} {' '.join(rule.terms)} {rule.effect}"
        for rule in tree("0.5.9").rules("hicache-ratio")
        if rule.kind == kind and rule.path == path
    ]
    assert any(all(word in each for word in words) for each in said)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("flag", ["hicache-ratio", "max-running-requests", "page-size"])
def test_every_rule_quotes_the_line_it_names(version: str, flag: str) -> None:
    source = tree(version)
    rules = source.rules(flag)
    assert rules
    for rule in rules:
        assert source.check_citation(rule.path, rule.line, rule.quote), rule.at


@pytest.mark.parametrize("version", VERSIONS)
def test_the_speculative_default_of_48_is_a_rule_of_every_version(version: str) -> None:
    rules = tree(version).rules("max-running-requests")
    assert any(rule.kind == "override" and "max_running_requests = 48" in rule.effect for rule in rules)


def test_the_flags_own_rules_come_first() -> None:
    rules = tree("0.5.9").rules("hicache-ratio")
    own = ["hicache_ratio" in rule.flags for rule in rules]
    assert own[0]
    assert own == sorted(own, reverse=True)


def test_usage_is_a_short_path_through_the_code() -> None:
    text = tree("0.5.9").usage("hicache-ratio")
    assert "defined  srt/server_args.py:4260" in text
    assert "srt/mem_cache/hiradix_cache.py:72: in __init__: server_args.hicache_ratio," in text
    assert len(text.splitlines()) <= 25


def test_a_local_rule_is_read_from_the_tree_that_has_it(tmp_path: Path) -> None:
    srt = tmp_path / "sglang" / "srt"
    srt.mkdir(parents=True)
    (srt / "server_args.py").write_text(
        "from dataclasses import dataclass\n\n\n"
        "@dataclass\nclass ServerArgs:\n    depth: int = 3\n    cut: bool = False\n\n"
        "    def __post_init__(self):\n        if self.cut and self.depth > 8:\n"
        "            raise ValueError('too deep to cut')\n\n"
        "    @staticmethod\n    def add_cli_args(parser):\n"
        "        parser.add_argument('--depth', type=int, default=ServerArgs.depth)\n"
        "        parser.add_argument('--cut', action='store_true')\n"
    )
    source = asyncio.run(obtain(path=tmp_path, cache=tmp_path / "cache"))
    (rule,) = source.rules("depth")
    assert (rule.kind, rule.condition, rule.effect) == ("raise", "cut and depth > 8", "too deep to cut")
    assert rule.at == "srt/server_args.py:11"
