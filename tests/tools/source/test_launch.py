from __future__ import annotations

import asyncio

import pytest

from tests.tools.source.trees import VERSIONS, tree
from tools.source import Problem, check_command
from tools.source.architecture import named_by_path
from tools.source.begun import begun_in
from tools.source.pools import pool_notes
from tools.source.upgrade import Known, Upgrade, compare, for_command
from tools.source.values import range_of
from transcripts.errors import UsageError

START = "python3 -m sglang.launch_server --model-path m"


def problems(command: str, version: str = "0.5.9") -> dict[tuple[str, str], Problem]:
    found = check_command(f"{START} {command}", tree(version))
    return {(each.kind, each.flag): each for each in reversed(found)}  # the first of a kind, as a start would meet it


@pytest.mark.parametrize(
    ("command", "key", "instead"),
    [
        ("--hicache-sise 3", ("unknown", "--hicache-sise"), "--hicache-size"),
        ("--gpu-memory-utilization 0.9", ("foreign", "--gpu-memory-utilization"), "--mem-fraction-static"),
        ("--max-num-seqs=64", ("foreign", "--max-num-seqs"), "--max-running-requests"),
        ("--hicache-rati 3", ("abbreviation", "--hicache-rati"), "--hicache-ratio"),
        ("--hicache 3", ("ambiguous", "--hicache"), "--hicache-io-backend"),
        ("--kv-cache-dtype fp8", ("value", "--kv-cache-dtype"), "--kv-cache-dtype fp8_e5m2 or fp8_e4m3"),
        ("--kv-dtype fp8", ("unknown", "--kv-dtype"), "--kv-cache-dtype fp8_e5m2 or fp8_e4m3"),
        ("--kv-dtype=fp8_e4m3", ("unknown", "--kv-dtype"), "--kv-cache-dtype"),
        ("--enable-radix-cache", ("unknown", "--enable-radix-cache"), ""),
        ("--disable-mixed-chunk", ("unknown", "--disable-mixed-chunk"), ""),
        ("--dtype FP16", ("value", "--dtype"), ""),
        ("--dtype Float16", ("value", "--dtype"), "--dtype float16"),
        ("--page-size many", ("value", "--page-size"), ""),
        ("--page-size", ("value", "--page-size"), ""),
        ("--trust-remote-code --page-size 2 --page-size 4", ("repeated", "--page-size"), ""),
        ("stray", ("stray", "stray"), ""),
        ("--mem-fraction-static 5", ("value", "--mem-fraction-static"), ""),
        ("--mem-fraction-static 0.0", ("value", "--mem-fraction-static"), ""),
        ("--mem-fraction-static nan", ("value", "--mem-fraction-static"), ""),
        ("--port 99999", ("value", "--port"), ""),
        ("--nccl-port 0", ("value", "--nccl-port"), ""),
        ("--page-size 0", ("value", "--page-size"), ""),
        ("--tp -3", ("value", "--tp-size"), ""),
        ("--max-running-requests=-4", ("value", "--max-running-requests"), ""),
        ("--cuda-graph-bs 1 0 8", ("value", "--cuda-graph-bs"), ""),
        ("--hicache-ratio -1", ("value", "--hicache-ratio"), ""),
        ("--swa-full-tokens-ratio 1.5", ("value", "--swa-full-tokens-ratio"), ""),
    ],
)
def test_what_is_wrong_is_named(command: str, key: tuple[str, str], instead: str) -> None:
    found = problems(command)
    assert key in found
    assert found[key].instead == instead


@pytest.mark.parametrize(
    ("version", "command"),
    [
        ("0.5.9", "--tp-size 8 --mem-fraction-static 0.88 --json-model-override-args '{\"a\": -1}' --random-seed -5"),
        (
            "0.5.9",
            "--chunked-prefill-size -1 --hicache-size 0 --node-rank 0 --offload-group-size -1 --cpu-offload-gb 0",
        ),
        ("0.5.23", "--context-length 25.6k --max-total-tokens 1Mi --media-url-max-file-size-mb 0"),
        ("0.5.23", "--speculative-domino-candidate-pool-size 0 --hicache-host-memory-fraction 1.0"),
    ],
)
def test_a_sound_command_has_no_error(version: str, command: str) -> None:
    assert not [each for each in problems(command, version).values() if each.severity == "error"]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_default_and_choice_lies_in_its_range(version: str) -> None:
    for flag in tree(version).catalogue().flags:
        known = [*(flag.choices if isinstance(flag.choices, tuple) else ()), flag.default]
        lies = range_of(flag)
        assert lies is None or all(lies.holds(each) for each in known if isinstance(each, int | float)), flag


def test_of_a_flag_given_again_the_last_one_counts_and_that_is_said_once() -> None:
    found = check_command(f"{START} --tp -3 --tp 2 --tp-size=4", tree("0.5.9"))
    assert [(each.kind, each.severity) for each in found] == [("repeated", "warning"), ("abbreviation", "note")]
    assert "--tp-size is given 3 times (-3, 2, 4); the last one counts" in found[0].message
    assert not check_command(f"{START} --tp-size 4", tree("0.5.9"))


@pytest.mark.parametrize(
    "command", ["", "  ", "foo", "vllm serve foo", "vllm serve foo --tp 8", "ls -la", "python3 x.py --tp 2"]
)
def test_a_command_of_something_else_is_a_usage_error(command: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_command(command, tree("0.5.9"))
    assert "no SGLang command in it" in caught.value.message


@pytest.mark.parametrize(
    ("version", "option", "here"),
    [
        ("0.5.23", "--cuda-graph-max-bs 8", "--cuda-graph-max-bs-decode"),
        ("0.5.23", "--nsa-prefill-backend x", "--dsa-prefill-backend"),
        ("0.5.9", "--cuda-graph-max-bs-decode 8", "--cuda-graph-max-bs"),
        ("0.5.9", "--enable-hicache", "--enable-hierarchical-cache"),
    ],
)
def test_an_option_of_another_version_is_named_as_it_is_called_here(version: str, option: str, here: str) -> None:
    (found,) = [each for each in problems(option, version).values() if each.severity == "error"]
    assert found.instead == here
    assert f"it is called {here}" in found.message


def errors(command: str, version: str) -> list[tuple[str, str]]:
    return [(each.kind, each.flag) for each in check_command(command, tree(version)) if each.severity == "error"]


def test_sglang_serve_takes_what_its_version_takes() -> None:
    assert errors("sglang serve a/b --tp-size 2 --model-type llm", "0.5.23") == []
    assert errors("python3 -m sglang.launch_server --model-path m --model-type llm", "0.5.23") != []
    assert errors("sglang serve a/b --tp-size 2", "0.5.9") == [("stray", "a/b")]
    assert errors("sglang serve --model-path m --model-type llm", "0.5.9") == [("unknown", "--model-type")]
    assert errors("sglang serve --model-path m", "0.5.9") == []
    assert errors("sglang serve --model-path m", "0.4.6") == [("unknown", "serve")]


def test_a_missing_model_is_an_error() -> None:
    found = check_command("sglang serve --tp-size 8", tree("0.5.9"))
    assert ("missing", "--model-path") in [(each.kind, each.flag) for each in found]


def test_rules_that_are_broken_are_cited() -> None:
    found = problems("--enable-hierarchical-cache --disable-radix-cache")
    broken = found["rule", "--enable-hierarchical-cache"]
    assert broken.at == "srt/server_args.py:2686"
    assert "mutually exclusive" in broken.message
    assert not [each for each in problems("--enable-hierarchical-cache").values() if each.kind == "rule"]


@pytest.mark.parametrize(
    ("version", "command", "flag", "at"),
    [
        ("0.4.6", "--tp 8 --enable-dp-attention --dp 3", "--tp-size", "srt/server_args.py:295"),
        ("0.5.9", "--tp 8 --enable-dp-attention --dp 3", "--tp-size", "srt/server_args.py:2116"),
        ("0.5.16", "--tp 8 --enable-dp-attention --dp 3", "--tp-size", "srt/server_args.py:5607"),
        ("0.5.23", "--tp 8 --enable-dp-attention --dp 3", "--tp-size", "srt/arg_groups/parallel_hook.py:326"),
        ("0.5.23", "--tp 8 --attn-dp-size 3", "--tp-size", "srt/arg_groups/parallel_hook.py:326"),
        ("0.5.9", "--tp 8 --attn-cp-size 3", "--tp-size", "srt/server_args.py:2086"),
        ("0.5.16", "--tp 8 --enable-dp-attention --dp 4 --attn-cp-size 4", "--tp-size", "srt/server_args.py:5559"),
    ],
)
def test_a_rule_over_what_a_small_function_or_a_view_says_is_weighed(
    version: str, command: str, flag: str, at: str
) -> None:
    assert problems(command, version)["rule", flag].at == at
    sound = command.replace("3", "4").replace("cp-size 4", "cp-size 2")
    assert not [each for each in problems(sound, version).values() if each.severity == "error"]


@pytest.mark.parametrize("version", ["0.5.9", "0.5.16", "0.5.23"])
def test_rules_for_particular_models_are_weighed_where_the_path_names_the_family(version: str) -> None:
    command = "sglang serve --attention-backend flashinfer --model-path"
    found = check_command(f"{command} /cache/models--openai--gpt-oss-120b/snapshots/1f", tree(version))
    said = next(each.message for each in found if each.kind == "rule")
    assert "one of triton, trtllm_mha, fa3" in said
    assert "Prefill: flashinfer" in said
    plain = check_command(f"{command} /models/ours", tree(version))
    assert "for particular models went unweighed" in plain[-1].message
    assert [each.severity for each in plain] == ["note"]
    assert "the path is taken for GptOssForCausalLM" in said


@pytest.mark.parametrize(
    ("path", "architecture"),
    [
        ("deepseek-ai/DeepSeek-R1-0528", "DeepseekV3ForCausalLM"),
        ("deepseek-ai/DeepSeek-V3.1", "DeepseekV3ForCausalLM"),
        ("/models/DeepSeek-V3.2-Exp/", "DeepseekV32ForCausalLM"),
        ("moonshotai/Kimi-K2-Instruct", "DeepseekV3ForCausalLM"),
        ("/models/kimi-k2.5-int4", "KimiK25ForConditionalGeneration"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507", "Qwen3MoeForCausalLM"),
        ("Qwen/Qwen3-8B", ""),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-32B", ""),
        ("zai-org/GLM-4.5V", ""),
        ("zai-org/GLM-4.5-Air", "Glm4MoeForCausalLM"),
        ("/models/our-gpt-oss-120b", ""),
    ],
)
def test_only_a_path_that_begins_with_a_family_names_its_architecture(path: str, architecture: str) -> None:
    assert named_by_path(path) == architecture


def test_a_rule_is_broken_by_what_an_earlier_handler_sets() -> None:
    found = problems("--enable-hierarchical-cache --disaggregation-mode decode")
    assert "disable_radix_cache = True" in found["override", "--disable-radix-cache"].message
    assert ("rule", "--enable-hierarchical-cache") in found


@pytest.mark.parametrize("version", ["0.4.6", "0.5.9", "0.5.23"])
def test_values_that_the_server_sets_are_told(version: str) -> None:
    found = problems("--speculative-algorithm EAGLE", version)
    assert "max_running_requests = 48" in found["override", "--max-running-requests"].message
    assert ("override", "--max-running-requests") not in problems("--tp-size 8", version)
    explicit = problems("--speculative-algorithm EAGLE --max-running-requests 96", version)
    assert ("override", "--max-running-requests") not in explicit


def test_a_value_filled_in_later_is_not_judged() -> None:
    assert not [each for each in problems("--page-size $PAGE --tp-size <N>").values() if each.severity == "error"]
    assert not [each for each in problems("--tp-size 8 $EXTRA_ARGS").values() if each.severity == "error"]
    (unseen,) = check_command('python3 -m sglang.launch_server "$@"', tree("0.5.9"))
    assert (unseen.kind, unseen.severity) == ("unseen", "note")


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1 python -m sglang.launch_server --tp 2", ("--tp", "2")),
        ("docker run -p 3:3 img python3 -m sglang.launch_server --tp 2 \\\n  --host ::", ("--tp", "2", "--host", "::")),
        ("sglang serve --model-path a/b && echo done", ("--model-path", "a/b")),
        ("--tp-size 2", ("--tp-size", "2")),
        ("bash -lc 'cd /srv && exec python3 -m sglang.launch_server --tp 2'", ("--tp", "2")),
        ("sglang serve a/b --tp 2", ("--model-path", "a/b", "--tp", "2")),
        ("exec /opt/venv/bin/python /opt/sglang/launch_server.py --tp 2 > log", ("--tp", "2")),
    ],
)  # fmt: skip
def test_the_servers_own_arguments_are_found(text: str, arguments: tuple[str, ...]) -> None:
    assert begun_in(text).arguments == arguments


def test_an_open_quote_is_a_usage_error() -> None:
    with pytest.raises(UsageError):
        begun_in("python -m sglang.launch_server --model-path 'a")


def test_an_upgrade_tells_what_becomes_of_a_command() -> None:
    old, new = tree("0.5.9"), tree("0.5.23")
    upgrade = compare(old.catalogue(), new.catalogue())
    removed = {flag.name for flag in upgrade.removed}
    assert {"--disable-hicache-numa-detect", "--torchao-config", "--multi-item-scoring-delimiter"} <= removed
    renamed = {change.before: change.after for change in upgrade.renamed}
    assert renamed["--stream-output"] == "--incremental-streaming-output"  # as 0.5.16 between them says
    assert renamed["--nsa-prefill-backend"] == "--dsa-prefill-backend"
    assert renamed["--mamba-scheduler-strategy"] == "--mamba-radix-cache-strategy"
    assert renamed["--cuda-graph-max-bs"] == "--cuda-graph-max-bs-decode"
    defaults = {change.flag: (change.before, change.after) for change in upgrade.changed if change.what == "default"}
    assert defaults["--hicache-mem-layout"] == ("layer_first", "page_first")
    assert "--swa-full-tokens-ratio" not in defaults
    assert {"--dcp-size", "--enable-hisparse", "--retraction-policy"} <= {flag.name for flag in upgrade.added}

    command = (
        f"{START} --cuda-graph-max-bs 64 --speculative-algorithm EAGLE3 --enable-hierarchical-cache --torchao-config x"
        " --keep-mm-feature-on-device"
    )
    said = {each.flag: each for each in moved(command, "0.5.9", "0.5.23") if each.severity == "error"}
    assert said["--cuda-graph-max-bs"].instead == "--cuda-graph-max-bs-decode"
    assert "gone" in said["--torchao-config"].message
    assert "0.5.16 said" in said["--keep-mm-feature-on-device"].message
    assert said["--keep-mm-feature-on-device"].instead == "--mm-feature-transport"


def known(version: str) -> Known:
    source = tree(version)
    return Known(source.catalogue(), source.handler_rules(), source)


def moved(command: str, before: str, after: str) -> tuple[Problem, ...]:
    """What happens to a command from one version to the other, its pools included."""
    old, new = known(before), known(after)
    launch, found = for_command(command, old, new, compare(old.catalogue, new.catalogue))
    return *found, *asyncio.run(pool_notes(launch, tree(before), tree(after)))


DRAFT = "--speculative-algorithm EAGLE3 --speculative-draft-model-path d"
TIERED = "--enable-hierarchical-cache --hicache-ratio 2"


@pytest.mark.parametrize(
    ("before", "after", "command", "said"),
    [
        ("0.5.9", "0.5.16", DRAFT, ["KV pool, from 0.5.14 on"]),
        ("0.5.9", "0.5.23", DRAFT, ["KV pool, from 0.5.14 on"]),
        ("0.5.16", "0.5.23", DRAFT, []),
        ("0.5.9", "0.5.23", "--speculative-algorithm NGRAM", []),
        ("0.5.9", "0.5.16", TIERED, ["host pool, no longer from 0.5.15 on"]),
        ("0.5.23", "0.5.9", DRAFT, ["KV pool, in 0.5.23, not in 0.5.9"]),
        ("0.5.9", "0.5.16", "--max-running-requests 64", ["request pool, from 0.5.14 on"]),
    ],
)
def test_what_changes_for_the_pools_names_the_release_that_changed_it(
    before: str, after: str, command: str, said: list[str]
) -> None:
    pools = [each for each in moved(f"{START} {command}", before, after) if each.kind == "pool"]
    assert [each.message.partition(": ")[0] for each in pools] == said
    for each in pools:
        at, _, gone = each.at.partition(" of ")
        path, _, line = at.partition(":")
        assert tree(gone or after).check_citation(path, int(line), each.quote)


@pytest.mark.parametrize(
    ("before", "after", "command"),
    [
        ("0.5.9", "0.5.23", "--tp-size 8 --trust-remote-code --mem-fraction-static 0.85"),
        ("0.5.9", "0.5.16", "--tp 8 --dp-size 8 --enable-dp-attention"),
        ("0.5.16", "0.5.9", "--tp-size 8 --dp-size 8 --enable-dp-attention --page-size 16"),
    ],
)
def test_what_is_the_same_in_both_versions_is_not_told(before: str, after: str, command: str) -> None:
    assert moved(f"{START} {command}", before, after) == ()


def test_options_that_do_nothing_here_are_not_told() -> None:
    flags = {each.flag for each in moved(f"{START} {DRAFT}", "0.5.9", "0.5.23")}
    assert flags == {"--speculative-algorithm"}
    assert "--hicache-mem-layout" in {each.flag for each in moved(f"{START} {TIERED}", "0.5.9", "0.5.23")}


@pytest.mark.parametrize(
    ("version", "command", "flag"),
    [
        ("0.5.9", "--enable-hierarchical-cache --hicache-ratio 0.5", "--hicache-ratio"),
        ("0.4.6", "--enable-hierarchical-cache --hicache-ratio 1", "--hicache-ratio"),
        ("0.5.9", "--enable-hierarchical-cache --hicache-ratio 1", ""),
        ("0.5.9", "--enable-hierarchical-cache --hicache-ratio 0.5 --hicache-size 100", ""),
        ("0.5.9", "--hicache-ratio 0.5", ""),
        ("0.5.16", "--enable-hierarchical-cache --hicache-ratio 0.5", ""),
        ("0.5.23", "--enable-hierarchical-cache --hicache-ratio 0.5", ""),
        ("0.4.6", "--tp 8 --dp-size 8 --enable-dp-attention --max-running-requests 4", "--max-running-requests"),
        ("0.5.9", "--tp 8 --dp-size 8 --enable-dp-attention --max-running-requests 4", "--max-running-requests"),
        ("0.5.16", "--tp 8 --dp-size 8 --enable-dp-attention --max-running-requests 7", "--max-running-requests"),
        ("0.5.23", "--tp 8 --dp-size 8 --enable-dp-attention --max-running-requests 4", ""),
        ("0.5.9", "--tp 8 --dp-size 8 --enable-dp-attention --max-running-requests 8", ""),
        ("0.5.9", "--tp 8 --dp-size 8 --max-running-requests 4", ""),
    ],
)
def test_values_that_stop_the_server_once_it_runs_are_errors(version: str, command: str, flag: str) -> None:
    errors = [each for each in check_command(f"{START} {command}", tree(version)) if each.severity == "error"]
    assert [each.flag for each in errors] == [flag] * bool(flag)
    for each in errors:
        path, _, line = each.at.partition(":")
        assert tree(version).check_citation(path, int(line), each.quote)


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        ("0.5.9", "0.5.23", "upgrade"),
        ("0.5.23", "0.5.9", "downgrade"),
        ("0.5.9", "0.5.9", "the same"),
        ("0.5.10rc0", "0.5.10", "upgrade"),
        ("0.5.10.post1", "0.5.10", "downgrade"),
        ("0.4.6.post5", "0.5.1", "upgrade"),
    ],
)
def test_a_step_to_an_older_version_is_called_a_downgrade(before: str, after: str, direction: str) -> None:
    assert Upgrade(before, after, (), (), (), ()).direction == direction


def test_the_same_version_changes_nothing() -> None:
    catalogue = tree("0.5.9").catalogue()
    upgrade = compare(catalogue, catalogue)
    assert (upgrade.added, upgrade.removed, upgrade.renamed, upgrade.changed) == ((), (), (), ())


@pytest.mark.parametrize(
    ("share", "said"), [("0.10", "get 10%"), ("0.985", "1.5% of"), ("0.88", ""), ("0.3", ""), ("$SHARE", "")]
)
@pytest.mark.parametrize("version", ["0.4.6", "0.5.9", "0.5.23"])
def test_a_share_that_is_rarely_meant_is_a_warning(version: str, share: str, said: str) -> None:
    command = f"sglang.launch_server --model-path m --mem-fraction-static {share}"
    found = [each for each in check_command(command, tree(version)) if each.kind == "value"]
    assert [each.severity for each in found] == ["warning"] * bool(said)
    assert all(said in each.message and each.at for each in found)


@pytest.mark.parametrize(
    ("command", "version", "flag", "said", "instead"),
    [  # filled in later, mistyped, or of another version: (what is named, words of it, what to use)
        ("--model-path m $EXTRA", "0.5.9", "$EXTRA", "options in it are not checked", ""),
        ("--model-path m --tp $(nvidia-smi -L | wc -l)", "0.5.9", "--tp-size", "-L | wc -l)", ""),
        ("--model-path m {{ .Values.extra }}", "0.5.23", "{{ .Values.extra }}", "not seen here", ""),
        ("--model-path m --config c.yaml", "0.5.9", "--config", "c.yaml sets is not seen", ""),
        ("--model-path m --enable-ep-moe", "0.5.23", "--enable-ep-moe", "0.5.3 has it", "--ep-size"),
        ("--model-path m --moe-a2a-backend deepep", "0.4.6", "--moe-a2a-backend", "0.5.3 has it", ""),
        (
            "--model-path m --mem_fraction_static 0.9",
            "0.5.9",
            "--mem_fraction_static",
            "dashes",
            "--mem-fraction-static",
        ),
        ("--model-path m \u2014dp 8", "0.5.9", "\u2014dp", "typographic", "--dp"),
        ("--model-path \u201cm\u201d", "0.5.9", "\u201cm\u201d", "typographic", "m"),
        ("--model-path m --enable-torch-compile true", "0.5.9", "true", "--enable-torch-compile is a switch", ""),
        ("--model-path ''", "0.4.6", "--model-path", "the value is empty", ""),
        ("--model-path m --json-model-override-args '{a: 1}'", "0.5.9", "--json-model-override-args", "JSON", ""),
        ("--help", "0.5.9", "--help", "no server is started", ""),
    ],
)
def test_what_is_not_seen_or_not_of_this_version_is_said(
    command: str, version: str, flag: str, said: str, instead: str
) -> None:
    found = check_command(f"python3 -m sglang.launch_server {command}", tree(version))
    assert [each.instead for each in found if each.flag == flag and said in each.message] == [instead]


@pytest.mark.parametrize("after", ["; echo done", " # --page-size 0", " 2>&1 | tee log"])
def test_what_follows_the_command_is_none_of_it(after: str) -> None:
    assert not errors(f"python3 -m sglang.launch_server --model-path m --tp-size 8{after}", "0.5.9")


def test_what_belongs_to_the_router_is_not_held_against_the_server() -> None:
    routed = "python -m sglang_router.launch_server --model-path m --dp-size 2 --router-policy cache_aware"
    (seen,) = check_command(routed, tree("0.5.9"))
    assert (seen.kind, seen.severity, seen.flag) == ("unseen", "note", "--router-policy")
    (alone,) = check_command("python -m sglang.launch_server --model-path m --router-policy x", tree("0.5.9"))
    assert (alone.kind, alone.severity, alone.instead) == ("unknown", "error", "python3 -m sglang_router.launch_server")


@pytest.mark.parametrize("ends", ["\\", "`", "^", "` ", "`\r"])
def test_lines_are_continued_as_the_shell_at_hand_does(ends: str) -> None:
    found = begun_in(f"python -m sglang.launch_server --model-path m {ends}\n  --tp-size 8 {ends}\n  --port 1")
    assert found.arguments == ("--model-path", "m", "--tp-size", "8", "--port", "1")


def test_options_that_a_comment_cuts_off_are_said_to_be_lost() -> None:
    command = "python -m sglang.launch_server --model-path m \\\n  # was 4\n  --tp-size 8 \\\n  --port 1\n"
    (cut,) = check_command(command, tree("0.5.9"))
    assert (cut.severity, cut.flag) == ("warning", "--tp-size")
    assert "--tp-size, --port" in cut.message
    assert begun_in(f"[Service]\nExecStart={command}").lost == ()


TOPK = f"{START} --speculative-algorithm EAGLE --speculative-eagle-topk 4 --speculative-num-steps 3"


@pytest.mark.parametrize(
    ("before", "refused"),
    [
        ("SGLANG_ENABLE_SPEC_V2=1 ", True),
        ("env SGLANG_ENABLE_SPEC_V2=True ", True),
        ("export SGLANG_ENABLE_SPEC_V2=yes; ", True),
        ("docker run -e SGLANG_ENABLE_SPEC_V2=1 --gpus all img ", True),
        ("SGLANG_ENABLE_SPEC_V2=0 ", False),
        ("SGLANG_ENABLE_SPEC_V2=$ON ", False),
        ("", False),
    ],
)
def test_a_rule_that_asks_for_a_variable_is_weighed_where_the_command_sets_it(before: str, refused: bool) -> None:
    found = [each for each in check_command(before + TOPK, tree("0.5.9")) if each.severity == "error"]
    assert ["Spec v2" in each.message and each.at == "srt/server_args.py:2380" for each in found] == [True] * refused


@pytest.mark.parametrize(
    ("name", "version", "instead"),
    [
        ("SGLANG_ENABLE_SPEC_V3", "0.5.9", "SGLANG_ENABLE_SPEC_V2"),
        ("SGLANG_ENABLE_SPEC_V2", "0.5.9", None),
        ("SGLANG_USE_AITER", "0.5.23", None),
        ("SGL_USE_AITER", "0.5.9", None),
        ("HF_HOME", "0.5.9", None),
    ],
)
def test_a_variable_that_nothing_reads_is_said(name: str, version: str, instead: str | None) -> None:
    found = {each.flag: each.instead for each in check_command(f"{name}=1 {START}", tree(version))}
    assert found.get(name) == instead


def test_one_flag_is_called_by_the_name_that_was_typed() -> None:
    found = check_command(f"{START} --tp 0 --tp-size -3", tree("0.5.9"))
    assert {each.flag for each in found} == {"--tp-size", "--tp"}
    assert not [each for each in found if "--tensor-parallel-size" in each.message]


def test_what_the_server_works_out_is_said_in_words_and_not_in_code() -> None:
    found = problems("--speculative-algorithm EAGLE")
    assert found["override", "--speculative-num-steps"].message == (
        "the server works out speculative_num_steps as it starts"
    )
    assert "max_running_requests = 48; says" in found["override", "--max-running-requests"].message


@pytest.mark.parametrize(
    ("version", "command", "said"),
    [
        ("0.5.9", "--hicache-ratio 3", {"--hicache-ratio": "without --enable-hierarchical-cache"}),
        ("0.5.23", "--hicache-ratio 3", {"--hicache-ratio": "without --enable-hierarchical-cache"}),
        ("0.5.9", "--hicache-ratio 3 --enable-hierarchical-cache", {}),
        ("0.5.9", "--hicache-ratio 3 --disaggregation-mode decode", {}),
        ("0.5.9", "--speculative-num-steps 3", {"--speculative-num-steps": "without --speculative-algorithm"}),
        ("0.5.9", "--speculative-num-steps 3 --speculative-algorithm EAGLE", {}),
        ("0.5.9", "--max-loras-per-batch 4", {"--max-loras-per-batch": "without --enable-lora"}),
        ("0.5.9", "--max-loras-per-batch 4 --lora-paths a=b", {}),
        ("0.5.23", "--num-continuous-decode-steps 4", {"--num-continuous-decode-steps": "reads it"}),
        ("0.5.9", "--num-continuous-decode-steps 4", {}),
        ("0.5.23", "--tp-size 8 --mem-fraction-static 0.8 --served-model-name x --log-level info", {}),
    ],
)
def test_an_option_that_changes_nothing_is_said_to_be_idle(version: str, command: str, said: dict[str, str]) -> None:
    found = {
        each.flag: each.message for each in check_command(f"{START} {command}", tree(version)) if each.kind == "idle"
    }
    assert found.keys() == said.keys()
    assert all(found[name].endswith(words) for name, words in said.items())


@pytest.mark.parametrize("version", ["0.5.9", "0.5.16", "0.5.23"])
def test_a_list_that_a_handler_empties_and_fills_again_is_not_taken_for_empty(version: str) -> None:
    found = check_command(f"{START} --lora-paths a=b --max-lora-rank 8", tree(version))
    assert not [each for each in found if each.severity == "error" and each.kind == "rule"]
    assert "--lora-paths" not in {each.flag for each in found if each.kind == "override"}


def test_a_switch_that_became_a_value_of_another_option_is_told_with_that_value() -> None:
    (said,) = [each for each in moved(f"{START} --disable-piecewise-cuda-graph", "0.5.16", "0.5.23") if each.at]
    assert said.instead == "--cuda-graph-backend-prefill=disabled"
    assert "--cuda-graph-backend-prefill takes its place; 0.5.16 said: " in said.message
