from __future__ import annotations

import asyncio
import textwrap
from pathlib import Path

import pytest

from tests.tools.source.trees import VERSIONS, tree
from tools.source import Source, obtain
from tools.source.following import Follower
from tools.source.modules import Modules
from tools.source.rule_scan import Scanner
from tools.source.rules import HANDLERS
from tools.source.toolset import rules_text
from tools.source.words import worded

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


@pytest.mark.parametrize("version", ["0.5.9", "0.5.16", "0.5.23"])
@pytest.mark.parametrize(
    ("flag", "kind", "words", "path"),
    [  # a value handed to a method, kept by an object under its name, refused where another call failed
        ("context-length", "raise", "ALLOW_OVERWRITE_LONGER_CONTEXT_LEN", "srt/configs/model_config.py"),
        ("schedule-policy", "raise", "Unknown schedule_policy", "srt/managers/schedule_policy.py"),
        ("max-running-requests", "assert", "max_running_request is zero", "srt/managers/tp_worker.py"),
    ],
)
def test_rules_are_found_where_a_value_ends_up(version: str, flag: str, kind: str, words: str, path: str) -> None:
    found = [rule for rule in tree(version).rules(flag) if (rule.kind, rule.path) == (kind, path)]
    assert [rule for rule in found if words in rule.effect]
    assert all(tree(version).check_citation(rule.path, rule.line, rule.quote) for rule in found)


@pytest.mark.parametrize(
    ("version", "flag", "kind", "words", "path"),
    [
        # a view of the record, an attribute asked for by its name, what a hook adds to its overrides
        ("0.5.16", "mem-fraction-static", "override", "'aiter' and model_config.context_len > 8192", "server_args"),
        ("0.5.16", "attention-backend", "assert", "not supported with Flex Attention", "server_args"),
        ("0.5.16", "disable-radix-cache", "override", "attention_backend == 'dual_chunk_flash_attn'", "server_args"),
        ("0.5.23", "tp-size", "raise", "tp_size != 1 or pp_size != 1 or dp_size != 1", "arg_groups/validation_hook"),
        ("0.5.23", "page-size", "override", "page_size = 128", "arg_groups/model_overrides/minimax_m3"),
        # a plain function, an attribute that a base's constructor fills, one that is set under the flag's own condition
        ("0.5.16", "kv-cache-dtype", "raise", "torch.float4_e2m1fn_x2 support", "mem_cache/kv_cache_dtype"),
        ("0.5.16", "kv-cache-dtype", "override", "kv_cache_dtype = torch.float8_e5m2", "mem_cache/kv_cache_dtype"),
        ("0.5.9", "page-size", "assert", "self.page_size == 64", "mem_cache/memory_pool"),
        ("0.5.9", "kv-cache-dtype", "override", "kv_cache_dtype = torch.bfloat16", "model_executor/model_runner"),
    ],
)
def test_a_value_is_known_however_it_is_asked_for_or_handed_on(
    version: str, flag: str, kind: str, words: str, path: str
) -> None:
    rules = [rule for rule in tree(version).rules(flag) if (rule.kind, rule.path) == (kind, f"srt/{path}.py")]
    (found, *_) = [rule for rule in rules if words in f"{rule.condition} {rule.effect}"]
    assert flag.replace("-", "_") in found.flags
    assert tree(version).check_citation(found.path, found.line, found.quote)


@pytest.mark.parametrize(
    ("flag", "words", "path"),
    [
        ("tp-size", "MNNVL CuTe DSL fusion supports tp_size", "layers/flashinfer_mnnvl_cutedsl"),
        ("tp-size", "LoRA with DP attention requires", "lora/lora_manager"),
        ("page-size", "requires a positive chunked_prefill_size", "disaggregation/prefill"),
        (
            "page-size",
            "Native NVFP4 requires page_size divisible by 4",
            "layers/quantization/fp4_kv_cache_quant_method",
        ),
    ],
)
def test_every_file_that_names_a_flag_is_read_however_many_there_are(flag: str, words: str, path: str) -> None:
    assert [rule for rule in tree("0.5.23").rules(flag) if rule.path == f"srt/{path}.py" and words in rule.effect]


def test_passing_over_functions_that_do_not_name_a_flag_loses_none_of_its_rules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = tree("0.5.9")
    family = source.family("kv-cache-dtype")
    paths = source.files(path="srt/mem_cache") + source.files(path="srt/model_executor")
    found = Follower(Modules(source.root), source.catalogue(), family).rules(paths)
    monkeypatch.setattr(Scanner, "concerns", lambda _self, _function: True)
    every = Follower(Modules(source.root), source.catalogue(), family).rules(paths)
    assert found
    assert {rule.at for rule in found} == {rule.at for rule in every}


@pytest.mark.parametrize("version", ["0.5.9", "0.5.16", "0.5.23"])
@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("disaggregation-ib-device", "Invalid IB devices specified"),
        ("prompt-tokens-buckets", "TSE base must be larger"),
    ],
)
def test_what_a_handler_is_handed_is_known_there(version: str, flag: str, words: str) -> None:
    assert any(words in rule.effect and flag.replace("-", "_") in rule.flags for rule in tree(version).rules(flag))


@pytest.mark.parametrize("version", ["0.5.9", "0.5.16", "0.5.23"])
def test_what_must_be_divisible_by_the_size_of_a_group_is_a_rule_of_its_flag(version: str) -> None:
    rules = [rule for rule in tree(version).rules("tp-size") if rule.kind == "assert" and "% " in rule.condition]
    assert any("heads" in rule.condition for rule in rules)


def test_what_an_object_makes_of_a_flags_value_is_an_override() -> None:
    (made,) = [
        rule
        for rule in tree("0.5.9").rules("max-running-requests")
        if (rule.kind, rule.path) == ("override", "srt/model_executor/model_runner.py")
    ]
    assert "max_running_requests // self.dp_size" in made.effect


@pytest.mark.parametrize("version", ["0.4.6", "0.5.9"])
def test_a_value_that_an_object_keeps_and_then_changes_is_an_override(version: str) -> None:
    found = [rule for rule in tree(version).rules("chunked-prefill-size") if rule.path == "srt/managers/scheduler.py"]
    changed = {(rule.condition, rule.effect) for rule in found if rule.kind == "override"}
    assert ("self.chunked_prefill_size <= 0", "chunked_prefill_size = None") in changed


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


def written(folder: Path, handlers: str, **modules: str) -> Source:
    """A tree of one's own: `handlers` are methods of ServerArgs, `modules` further files below srt/."""
    srt = folder / "sglang" / "srt"
    srt.mkdir(parents=True)
    (srt / "server_args.py").write_text(
        "from dataclasses import dataclass\n\nDEEP_MODELS = ('Deep', 'Deeper')\n\n"
        "@dataclass\nclass ServerArgs:\n    enable_saw: bool = False\n    plain: bool = False\n"
        "    backend: str = None\n    cut_depth: int = 3\n    cut_width: int = 3\n    cut_layout: str = 'a'\n\n"
        + textwrap.indent(textwrap.dedent(handlers), "    ")
        + "\n    @staticmethod\n    def add_cli_args(parser):\n"
        + "".join(
            f"        parser.add_argument('--{name}', type={kind}, default=ServerArgs.{name.replace('-', '_')})\n"
            for name, kind in (("cut-depth", "int"), ("cut-width", "int"), ("cut-layout", "str"), ("backend", "str"))
        )
        + "        parser.add_argument('--enable-saw', action='store_true')\n"
        + "        parser.add_argument('--plain', action='store_true')\n"
    )
    for name, text in modules.items():
        (srt / f"{name}.py").write_text(textwrap.dedent(text))
    return asyncio.run(obtain(path=folder, cache=folder / "cache"))


def test_several_values_set_at_once_are_overrides_each(tmp_path: Path) -> None:
    source = written(
        tmp_path,
        """
        def __post_init__(self):
            if self.backend == 'b':
                self.cut_depth, self.cut_layout = 1, 'b'
                self.cut_width, self.plain = pick(self)
        """,
    )
    effects = {rule.effect for flag in ("cut-depth", "cut-width") for rule in source.rules(flag)}
    assert effects == {"cut_depth = 1", "cut_layout = 'b'", "cut_width = pick(self)[0]"}


def test_a_switch_belongs_to_the_flags_whose_handler_it_opens(tmp_path: Path) -> None:
    source = written(
        tmp_path,
        """
        def __post_init__(self):
            self._resolve_layout()
            if self.enable_saw and self.plain:
                raise ValueError('one of the two')

        def _resolve_layout(self):
            if not self.enable_saw:
                return
            if self.cut_layout == 'a':
                self.cut_layout = 'b'
        """,
    )
    assert source.family("cut-depth").switches == {"enable_saw"}
    assert "one of the two" in [rule.effect for rule in source.rules("cut-depth")]


@pytest.mark.parametrize(
    ("flag", "version", "switches"),
    [
        ("schedule-policy", "0.5.9", set()),
        ("speculative-algorithm", "0.5.9", {"enable_mixed_chunk"}),
        ("hicache-ratio", "0.5.16", {"disaggregation_decode_enable_offload_kvcache", "enable_hierarchical_cache"}),
        ("speculative-algorithm", "0.5.23", {"enable_multi_layer_eagle"}),
    ],
)
def test_a_switch_that_many_other_handlers_ask_for_is_none_of_the_family(
    flag: str, version: str, switches: set[str]
) -> None:
    assert tree(version).family(flag).switches == switches


def test_a_switch_belongs_to_the_flags_that_are_read_under_it(tmp_path: Path) -> None:
    source = written(
        tmp_path,
        """
        def __post_init__(self):
            if self.enable_saw and self.plain:
                raise ValueError('one of the two')
        """,
        scheduler="""
        class Scheduler:
            def __init__(self, server_args):
                self.enable_saw = server_args.enable_saw
                if self.enable_saw:
                    self.cache = Cache(depth=server_args.cut_depth)
                elif server_args.enable_other:
                    self.cache = None
        """,
    )
    assert source.family("cut-depth").switches == {"enable_saw"}
    assert "one of the two" in [rule.effect for rule in source.rules("cut-depth")]


def test_what_is_left_after_an_early_return_is_shown_and_constants_are_spelled(tmp_path: Path) -> None:
    source = written(
        tmp_path,
        """
        def __post_init__(self):
            used = self.backend or 'x'
            if used != 'fast':
                return
            if self.model in DEEP_MODELS:
                self.cut_layout = 'b'
        """,
    )
    (rule,) = source.rules("cut-layout")
    assert rule.condition == "used == 'fast' and self.model in DEEP_MODELS"
    assert "DEEP_MODELS = ('Deep', 'Deeper')" in rule.terms


def test_methods_that_a_constructor_calls_are_followed(tmp_path: Path) -> None:
    source = written(
        tmp_path,
        "def __post_init__(self):\n    pass\n",
        pool="""
        class Pool:
            def __init__(self, depth):
                self.size = depth * 2
                self._allocate()

            def _allocate(self):
                if self.size > 8:
                    raise ValueError('too large')


        def build(server_args):
            return Pool(server_args.cut_depth)
        """,
    )
    assert [(rule.kind, rule.effect) for rule in source.rules("cut-depth")] == [("raise", "too large")]


def test_a_class_that_a_function_chooses_is_followed_past_bases_without_a_constructor(tmp_path: Path) -> None:
    source = written(
        tmp_path,
        "def __post_init__(self):\n    pass\n",
        pool="""
        class Mixin:
            pass


        class Base:
            def __init__(self, *, depth):
                if depth > 8:
                    raise ValueError('too deep')


        class Pool(Mixin, Base):
            def __init__(self, device, depth):
                super().__init__(depth=depth)


        def build(server_args, device, wide):
            if wide:
                chosen = Pool
            else:
                chosen, device = other(device)
            return chosen(device, server_args.cut_depth)
        """,
    )
    assert [(rule.kind, rule.effect) for rule in source.rules("cut-depth")] == [("raise", "too deep")]


@pytest.mark.parametrize("version", ["0.5.9", "0.5.16", "0.5.23"])
def test_the_host_pool_is_held_against_memory_and_the_device_pool_in_every_version(version: str) -> None:
    rules = tree(version).rules("hicache-ratio")
    said = [rule.effect for rule in rules if "hicache_size" in rule.flags and "/memory_pool_host.py" in rule.path]
    said += [rule.effect for rule in rules if "hicache_size" in rule.flags and "pool_host/base.py" in rule.path]
    assert any("Not enough host memory" in each for each in said)
    assert any("than the device" in each for each in said)


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


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (1154, "decode_attention_backend == 'flashmla'"),
        (1197, "page_size != 64"),
    ],
)
def test_a_local_name_that_begins_as_a_flags_value_and_is_handed_back_stands_for_it(at: int, words: str) -> None:
    at_line = f"srt/arg_groups/overrides.py:{at}"
    (rule,) = [each for each in tree("0.5.23").rules("page-size") if each.at == at_line and each.kind == "override"]
    assert words in rule.condition
    assert rule.effect.startswith("page_size = 64")


def test_a_local_name_that_is_called_as_a_flag_and_is_none_is_told_apart(tmp_path: Path) -> None:
    source = written(
        tmp_path,
        """
        def __post_init__(self):
            self._cut(7)

        def _cut(self, cut_width):
            cut_depth = self.cut_depth or 1
            if cut_depth > 8 and cut_width > cut_depth:
                raise ValueError(f'too deep: {cut_depth}')
        """,
    )
    (rule,) = source.rules("cut-depth")
    assert rule.condition == "cut_depth_here > 8 and cut_width_here > cut_depth_here"
    assert rule.terms == ("cut_depth_here = cut_depth or 1",)
    assert "cut_width" not in rule.flags


def test_what_many_files_say_alike_is_one_rule_with_its_other_places() -> None:
    heads = [rule for rule in tree("0.5.9").rules("tp-size") if "total_num_heads % tp_size == 0" in rule.effect]
    assert len(heads) == 1
    assert len(heads[0].also) > 30
    text = rules_text(tree("0.5.9").rules("tp-size"), tree("0.5.9"), "tp-size", limit=1000)
    assert f"and {len(heads[0].also)} more places: {heads[0].also[0]}, " in text


def test_what_every_start_goes_through_comes_before_what_other_files_say() -> None:
    outside = [not rule.path.startswith(HANDLERS) for rule in tree("0.5.23").rules("page-size")]
    assert outside == sorted(outside)


@pytest.mark.parametrize(
    ("version", "flag", "said"),
    [
        ("0.5.23", "dcp-size", "--dcp-size <value of --dcp-size> must divide --tp-size <value of --tp-size>."),
        ("0.5.23", "page-size", "is only supported on flashinfer, fa3, triton; got attention_backend=<value of"),
        ("0.5.9", "attention-backend", "KV4 MLA expects attention_backend to be one of cutlass_mla, flashinfer"),
        ("0.5.23", "chunked-prefill-size", "Rounding --chunked-prefill-size up from <value of --chunked-prefill-size>"),
        ("0.5.23", "kv-canary-sweep-interval", "--kv-canary in {log, raise}"),
    ],
)
def test_the_words_of_a_rule_name_flags_and_values_and_no_expressions_of_the_code(
    version: str, flag: str, said: str
) -> None:
    source = tree(version)
    assert any(said in worded(rule, source.catalogue()) for rule in source.rules(flag))


def test_words_that_are_filled_in_by_any_fashion_are_read(tmp_path: Path) -> None:
    source = written(
        tmp_path,
        """
        def __post_init__(self):
            allowed = ['a', 'b']
            said = f'layout {self.cut_layout} is wrong'
            if self.cut_layout not in allowed:
                logger.warning('%s is none of %s', self.cut_layout, allowed)
            if self.cut_depth > 8:
                raise ValueError('{} of {limit}'.format(self.cut_depth, limit=8))
            if self.cut_depth < 0:
                raise ValueError(said)
            try:
                self.cut(self.cut_depth)
            except ValueError:
                if self.cut_depth:
                    raise
        """,
    )
    said = {worded(rule, source.catalogue()) for rule in source.rules("cut-depth")}
    assert said == {
        *("<value of --cut-layout> is none of a, b", "<value of --cut-depth> of 8", "the same error again"),
        "layout <value of --cut-layout> is wrong",
    }
