"""What advice must pass: real flags of 0.5.9 and 0.5.23, memory of one box, evidence, and hostile proposals."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.long import many
from tests.tools.advice import box
from tools.advice import Change, Checked, Flags, check, forbidden, options_after, parse_launch
from transcripts.facts import Evidence


def _check(flags: Flags | None, *changes: Change, **other: Any) -> Checked:
    """With what a finding rests on named for each change; whether a citation bears by itself has tests of its own."""
    known = {
        "facts": box.facts(),
        "launch": box.launch(),
        "evidence": box.evidence(),
        "citations": {"S1": ""},
        "rests_on": {change.flag: change.evidence for change in changes},
        **other,
    }
    return check(changes, catalogue=flags, **known)


def _reason(flags: Flags | None, *changes: Change, **other: Any) -> str:
    found = _check(flags, *changes, **other)
    assert not found.accepted
    return found.refused[0].reason


def _other(kind: str, name: str, to: Any) -> Change:
    return Change(kind, "set", name, None, to, "", "why", ("E5:1", "E4:1"))  # type: ignore[arg-type]


def test_the_running_limit_passes_with_where_it_stands(flags: Flags) -> None:
    found = _check(flags, box.flag("raise", "--max-running-requests", 72))
    assert not found.refused
    (change,) = found.accepted
    assert change.confirmed
    assert change.valid is not None
    assert change.valid.version == "0.5.9"
    assert change.valid.at.startswith("srt/server_args.py:")
    row = change.row()
    assert {"kind", "do", "flag", "from", "to", "unit", "valid", "why", "evidence", "confirmed"} == set(row)
    assert row["valid"]["rules"] == "kept"


def test_without_the_tree_the_flags_that_ship_are_checked_and_the_rules_are_said_to_be_not() -> None:
    shipped = Flags.shipped("0.5.9")
    (change,) = _check(shipped, box.flag("raise", "--max-running-requests", 72)).accepted
    assert change.row()["valid"]["rules"] == "not checked"
    assert "is near" in _reason(shipped, box.flag("set", "--max-runing-requests", 72))
    change = box.flag("raise", "--max-running-requests", 72)
    for version, listed in (("0.5.10", "0.5.9 and 0.5.12"), ("", "0.4.6 to 0.5.23"), ("0.6.0", "0.5.23")):
        (found,) = _check(Flags.shipped(version), change).accepted
        assert found.row()["valid"]["in"] == listed
    tokens = box.flag("set", "--max-total-tokens", 65536)  # a function reads it from 0.5.12 on
    assert _check(Flags.shipped("0.5.23"), tokens).accepted
    only_later = box.flag("set", "--cuda-graph-backend-decode", "disabled")
    assert _reason(Flags.shipped("0.5.13"), only_later)
    assert _check(Flags.shipped(""), only_later).accepted


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (box.flag("set", "--max-runing-requests", 72), "--max-running-requests is near"),
        (box.flag("set", "--max_running_requests", 72), "not written as an option"),
        (box.flag("set", "--gpu-memory-utilization", 0.9), "no option"),
        (box.flag("set", "--tp", 4), "no option"),
        (box.flag("set", "--max-running-requests", "many"), "whole number"),
        (box.flag("set", "--max-running-requests", 72.5), "whole number"),
        (box.flag("set", "--max-running-requests", -3), "at least 1"),
        (box.flag("set", "--swa-full-tokens-ratio", 1.5), "at most 1"),
        (box.flag("set", "--port", 99_999), "at most 65535"),
        (box.flag("set", "--page-size", 10**9), "not between"),
        (box.flag("set", "--max-running-requests"), "no value"),
        (box.flag("lower", "--max-running-requests", 72), "does not lower"),
        (box.flag("raise", "--mem-fraction-static", 0.8), "does not raise"),
        (box.flag("set", "--mem-fraction-static", 0.99), "not between"),
        (box.flag("set", "--mem-fraction-static", 0.88), "already"),
        (box.flag("set", "--kv-cache-dtype", "fp8"), "takes"),
        (box.flag("set", "--enable-metrics", 3), "switch"),
        (box.flag("remove", "--page-size"), "not typed"),
        (box.flag("set", "--trust-remote-code"), "typed already"),
        (box.flag("set", "--chat-template", "x"), "left to the operator"),
        (box.flag("set", "--hicache-storage-backend", "dynamic"), "left to the operator"),
        (box.flag("set", "--load-format", "pt"), "left to the operator"),
        (box.flag("set", "--page-size", "<N>"), "no plain value"),
        (box.flag("set", "--page-size", 64, "E99:1"), "names no evidence"),
        (box.flag("set", "--page-size", 64, "E5:4000"), "names no evidence"),
        (Change("flag", "set", "--page-size", None, 64), "nothing is cited"),
        (Change("flag", "set", "--page-size", None, 64, why="a\u202eb", evidence=("E5",)), "U+202E"),
        (Change("env", "set", "LD_PRELOAD", None, "x", evidence=("E5",)), "left to the operator"),
        (Change("env", "set", "SGLANG_NOT_THERE", None, 1, evidence=("E5",)), "does not read"),
        (Change("env", "set", "SGLANG_ENABLE_SPEC_V2", None, "True", evidence=("E5",)), "already"),
        (Change("container", "set", "--privileged", None, None, evidence=("E5",)), "no setting"),
        (Change("container", "set", "--shm-size", None, "32g", evidence=("E5",)), "not as a container"),
        (Change("host", "set", "kernel.core_pattern", None, "|/x", evidence=("E5",)), "no setting"),
        (Change("host", "set", "vm.swappiness", None, "1;reboot", evidence=("E5",)), "does not parse"),
        (Change("upgrade", "upgrade", "sglang", None, "0.5.8", evidence=("E5",)), "not newer"),
        (Change("upgrade", "upgrade", "evil", None, "1.0", evidence=("E5",)), "names sglang"),
    ],
)
def test_a_refusal_says_why(flags: Flags, change: Change, said: str) -> None:
    assert said in _reason(flags, change)


VARIABLES = [
    ("env", "raise", "NCCL_P2P_DISABLE", "auto", "takes 0 or 1"),
    ("env", "set", "SGLANG_ENABLE_SPEC_V2", "72", "takes 0 or 1"),
    ("env", "upgrade", "NCCL_P2P_DISABLE", "1", "not upgraded"),
    ("env", "set", "CUDA_VISIBLE_DEVICES", "0.5", "numbers of GPUs"),
    ("env", "raise", "CUDA_VISIBLE_DEVICES", 10**19, "numbers of GPUs"),
    ("env", "raise", "NCCL_ALGO", "Ring", "only numbers"),
    ("env", "lower", "NCCL_TIMEOUT", "60", "does not lower"),
    ("host", "lower", "vm.swappiness", "45", "does not lower"),
    ("host", "set", "memlock", "1", "does not parse"),
    ("host", "raise", "vm.swappiness", "72", "does not parse"),
    ("host", "set", "MemoryMax", "1k", "does not parse"),
    ("host", "set", "MemoryMax", "300GiB", "does not parse"),
    ("host", "set", "TimeoutStartSec", "15", "does not parse"),
    ("container", "set", "shm-size", "64m", "does not parse"),
    ("container", "set", "memory", "9k", "does not parse"),
    ("env", "set", "NCCL_CUMEM_HOST_ENABLE", "/tmp", "no plain value"),
    ("container", "set", "ulimit", "memlock=64", "does not parse"),
]


@pytest.mark.parametrize(("kind", "do", "name", "to", "said"), VARIABLES)
def test_what_surrounds_the_command_has_values_of_its_kind(
    kind: Any, do: Any, name: str, to: Any, said: str, flags: Flags
) -> None:
    known = Flags(flags.flags, variables=lambda _: True)
    change = Change(kind, do, name, "30", to, evidence=("E5:1", "S1"))
    assert said in _reason(known, change, launch=None)


@pytest.mark.parametrize(
    ("kind", "do", "name", "to"),
    [
        ("env", "set", "NCCL_P2P_DISABLE", "1"),
        ("env", "set", "CUDA_VISIBLE_DEVICES", "0,1,2,3"),
        ("env", "raise", "NCCL_TIMEOUT", "64"),
        ("env", "raise", "MOONCAKE_GLOBAL_SEGMENT_SIZE", "64gb"),
        ("env", "set", "NCCL_CUMEM_HOST_ENABLE", "0"),
        ("host", "set", "/sys/kernel/mm/transparent_hugepage/shmem_enabled", "advise"),
        ("host", "set", "MemoryMax", "300G"),
        ("host", "raise", "memlock", "unlimited"),
        ("container", "set", "ulimit", "memlock=-1:-1"),
    ],
)
def test_and_takes_them(kind: Any, do: Any, name: str, to: Any, flags: Flags) -> None:
    known = Flags(flags.flags, variables=lambda _: True)
    assert _check(known, Change(kind, do, name, "30", to, evidence=("E5:1", "S1")), launch=None).accepted


@pytest.mark.parametrize(
    ("version", "proposed", "to", "taken"),
    [
        ("0.5.23", "--cuda-graph-max-bs", 72, "--cuda-graph-max-bs-decode"),
        ("0.5.16", "--cuda-graph-max-bs", 72, "--cuda-graph-max-bs-decode"),
        ("0.5.9", "--cuda-graph-max-bs-decode", 72, "--cuda-graph-max-bs"),
        ("0.5.9", "--enable-hicache", None, "--enable-hierarchical-cache"),
        ("0.5.23", "--nsa-decode-backend", "flashmla_kv", "--dsa-decode-backend"),
        ("0.5.9", "--dsa-decode-backend", "flashmla_kv", "--nsa-decode-backend"),
    ],
)
def test_an_option_of_another_version_is_proposed_by_its_name_here(
    flags_of: Callable[[str], Flags], version: str, proposed: str, to: int | str | None, taken: str
) -> None:
    found = _check(flags_of(version), box.flag("set", proposed, to))
    assert not found.refused
    (change,) = found.accepted
    assert change.flag == taken
    assert f"{proposed} is called {taken} in {version}" in change.why


def test_a_switch_that_became_a_number_is_not_translated(flags_of: Callable[[str], Flags]) -> None:
    assert "deprecated" in _reason(flags_of("0.5.23"), box.flag("set", "--enable-dp-attention"))
    assert "no option --attn-dp-size" in _reason(flags_of("0.5.9"), box.flag("set", "--attn-dp-size", 2))


def test_what_is_refused_in_the_command_before_any_change_is_named(flags: Flags) -> None:
    text = box.UNIT.replace("--trust-remote-code", "--tool-call-parser nonsense --page-size 0")
    found = _check(
        flags, box.flag("raise", "--max-running-requests", 72), launch=parse_launch("systemd", text, sources=("E6",))
    )
    assert [change.flag for change in found.accepted] == ["--max-running-requests"]
    assert len(found.standing) == 2
    assert all("srt/server_args.py:" in str(each) for each in found.standing)
    assert not _check(flags, box.flag("raise", "--max-running-requests", 72)).standing


@pytest.mark.parametrize("command", ["sglang serve /m --tp 8", "python -m sglang.launch_server $ARGS --tp 8"])
def test_a_model_by_its_place_and_variables_are_no_fault_of_the_command(
    flags_of: Callable[[str], Flags], command: str
) -> None:
    found = _check(
        flags_of("0.5.23"), box.flag("set", "--page-size", 64), launch=parse_launch("shell", command, sources=("E6",))
    )
    assert [change.flag for change in found.accepted] == ["--page-size"]
    assert not found.standing


def test_without_the_tree_no_flag_is_proposed() -> None:
    assert "not known" in _reason(None, box.flag("set", "--page-size", 64))


def test_rules_of_the_code_are_kept_by_all_changes_together(flags: Flags) -> None:
    found = _check(flags, box.flag("set", "--enable-hierarchical-cache"), box.flag("set", "--disable-radix-cache"))
    assert not found.accepted
    assert "srt/server_args.py:" in found.refused[0].reason


def test_the_host_copy_fits_as_the_design_counts_it(flags: Flags) -> None:
    on, ratio = box.flag("set", "--enable-hierarchical-cache"), box.flag("set", "--hicache-ratio", 4.0)
    assert len(_check(flags, on, ratio).accepted) == 2
    poor = box.facts(mem_available_bytes=120 * box.GIB)
    assert "358.0 GB" in _reason(flags, on, ratio, facts=poor)
    group = box.facts(cgroup_limit_bytes=300 * box.GIB, cgroup_used_bytes=20 * box.GIB)
    assert "may be used" in _reason(flags, on, ratio, facts=group)


def test_levers_are_counted_together(flags: Flags) -> None:
    """A larger pool makes the host copy larger; FP8 lets more requests into the same bytes."""
    on, ratio = box.flag("set", "--enable-hierarchical-cache"), box.flag("set", "--hicache-ratio", 4.0)
    tight = box.facts(mem_available_bytes=360 * box.GIB)
    more = box.flag("raise", "--mem-fraction-static", 0.9)
    assert len(_check(flags, on, ratio, facts=tight).accepted) == 2
    assert "host copy" in _reason(flags, on, ratio, more, facts=tight)
    many, half = box.flag("raise", "--max-running-requests", 140), box.flag("set", "--kv-cache-dtype", "fp8_e4m3")
    assert "at most 80" in _reason(flags, many)
    assert len(_check(flags, many, half).accepted) == 2


def test_the_fraction_rises_only_into_what_is_free(flags: Flags) -> None:
    assert _check(flags, box.flag("raise", "--mem-fraction-static", 0.92)).accepted
    assert "free after boot" in _reason(flags, box.flag("raise", "--mem-fraction-static", 0.95))


@pytest.mark.parametrize("known", [{}, {"weights_after_gib": 21.71, "kv_pool_gib": None}])
def test_a_fraction_that_leaves_no_pool_is_refused_with_the_floor(flags: Flags, known: dict[str, Any]) -> None:
    here = box.facts(**known)
    assert "take 0.769" in _reason(flags, box.flag("lower", "--mem-fraction-static", 0.1), facts=here)
    assert "take 0.769" in _reason(flags, box.flag("lower", "--mem-fraction-static", 0.76), facts=here)
    assert _check(flags, box.flag("lower", "--mem-fraction-static", 0.78), facts=here).accepted


def test_a_pool_beside_the_kv_pool_leaves_the_floor_open(flags: Flags) -> None:
    here = box.facts(state_slots=48)
    assert _check(flags, box.flag("lower", "--mem-fraction-static", 0.76), facts=here).accepted


def test_what_is_not_known_leaves_a_change_unconfirmed(flags: Flags) -> None:
    found = _check(flags, box.flag("raise", "--mem-fraction-static", 0.9), facts=box.facts(free_after_boot_gib=None))
    assert not found.accepted[0].confirmed
    assert "ready line" in found.accepted[0].confirm_by


def test_evidence_of_two_kinds_one_out_of_reach_of_requests(flags: Flags) -> None:
    journal = box.flag("set", "--page-size", 64, "E5:1", "S1")
    alone = _check(flags, journal, launch=parse_launch("systemd", box.UNIT))
    assert not alone.accepted[0].confirmed
    assert alone.accepted[0].row()["confirm_by"]
    unit = box.flag("set", "--page-size", 64, "E5:1", "E6")
    assert not _check(flags, journal).accepted[0].confirmed  # the launch says what is typed, not that it is needed
    assert _check(flags, unit).accepted[0].confirmed
    pasted = {name: Evidence(name, "pasted", "", "", "", None, "x\n" * 9) for name in ("E5", "E6")}
    assert not _check(flags, journal, evidence=pasted).accepted[0].confirmed
    assert not _check(flags, journal, live=False).accepted[0].confirmed


def test_deprecated_options_are_not_proposed(flags: Flags) -> None:
    retired = [flag.name for flag in flags.flags.flags if flags.lookup(flag.name) and flags.lookup(flag.name).retired]  # type: ignore[attr-defined, union-attr]
    for name in retired:
        assert _check(flags, box.flag("set", name, 1)).refused


@pytest.mark.parametrize("version", ["0.5.9", "0.5.23"])
def test_every_option_of_a_version_is_classified(version: str, flags_of: Callable[[str], Flags]) -> None:
    """What names code, places, secrets or free text is forbidden by name or by type, whatever the version brings."""
    flags, steerable = flags_of(version), []
    for flag in flags.flags.flags:  # type: ignore[attr-defined]
        info = flags.lookup(flag.name)
        if info is None or forbidden.reason(info.spellings[0], "", info):
            continue
        if info.kind in ("text", "json", "path", "other") and info.choices is None:
            steerable.append(flag.name)
        assert not re.search(r"path|url|addr|api-key|ssl|hook|template|dump|trust|extra-config|host$|folder", flag.name)
    assert set(steerable) <= forbidden.LOOKED_AT | set(forbidden.SAFE_VALUES)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (box.flag("set", "--tp-size", 4), box.flag("set", "--tensor-parallel-size", 2)),
        (_other("host", "memlock", "unlimited"), _other("host", "LimitMEMLOCK", "infinity")),
        (_other("host", "nofile", "65536"), _other("host", "LimitNOFILE", "1048576")),
        (_other("env", "NCCL_DEBUG", "INFO"), _other("env", "NCCL_DEBUG", "WARN")),
    ],
)
def test_two_changes_of_one_setting_do_not_both_pass_under_whatever_names(
    first: Change, second: Change, flags: Flags
) -> None:
    found = _check(flags, first, second)
    assert [each.flag for each in found.accepted] == [first.flag]
    assert "changed twice" in found.refused[0].reason


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (box.flag("set", "--max-running-requests", 48), "is 48 already, which nothing typed"),
        (_other("env", "SGLANG_ENABLE_SPEC_V2", 1), "is True already"),
        (_other("env", "NCCL_DEBUG", "-e"), "written as an option is"),
        (_other("env", "OMP_NUM_THREADS", "-1e"), "written as an option is"),
    ],
)
def test_what_is_in_force_is_no_change_and_an_option_is_no_value(change: Change, said: str, flags: Flags) -> None:
    assert said in _reason(flags, change)


METACHARACTERS = (
    *(
        "72;id",
        "72 && id",
        "72|id",
        "`id`",
        "$(id)",
        "${IFS}",
        "72\nExecStart=/x",
        "72\\",
        '72"',
        "72'",
        "72#",
        "*",
        "~",
    ),
    *("%n", "%%", "72\x00", "72\r", "\uff17\uff12", ">x", "{1,2}", "--host=0", "-e"),
)
SETTINGS = {
    "flag": ["--max-running-requests", "--attention-backend", "--cuda-graph-bs", "--dtype"],
    "env": ["NCCL_DEBUG", "SGLANG_ENABLE_SPEC_V2", "OMP_NUM_THREADS", "PYTHONPATH", "BASH_ENV", "LD_LIBRARY_PATH"],
    "container": ["shm-size", "memory", "ulimit", "entrypoint", "privileged"],
    "host": ["vm.swappiness", "MemoryMax", "TimeoutStartSec", "kernel.core_pattern", "ExecStartPre"],
}


@pytest.mark.parametrize("kind", SETTINGS)
def test_no_value_brings_words_of_a_shell_or_a_unit_along(kind: str, flags: Flags) -> None:
    run = parse_launch("shell", "docker run i:1 sglang serve --model-path /m", sources=("E6",))
    for name in SETTINGS[kind]:
        for value in METACHARACTERS:
            for launch in (box.launch(), run):
                assert _reason(flags, _other(kind, name, value), launch=launch)


TIER = [
    "--trust-remote-code",
    "--forward-hooks",
    "--custom-weight-loader",
    "--enable-custom-logit-processor",
    "--tool-server",
    "--model-path",
    "--tokenizer-path",
    "--speculative-draft-model-path",
    "--lora-paths",
    "--download-dir",
    "--model-loader-extra-config",
    "--hicache-storage-backend-extra-config",
    "--chat-template",
    "--config",
    "--decrypted-config-file",
    "--api-key",
    "--admin-api-key",
    "--host",
    "--port",
    "--dist-init-addr",
    "--encoder-urls",
    "--file-storage-path",
    "--log-requests",
    "--log-requests-level",
    "--crash-dump-folder",
    "--debug-tensor-dump-output-folder",
    "--debug-tensor-dump-inject",
]


@pytest.mark.parametrize("name", TIER)
def test_the_forbidden_tier(name: str, flags: Flags) -> None:
    bare = parse_launch("shell", "sglang serve --tp 8", sources=("E6",))
    for do, to in (("set", None), ("set", "x"), ("set", 1), ("set", True)):
        found = _check(flags, box.flag(do, name, to), launch=bare)
        assert not found.accepted


HOSTILE = [
    "--api-key",
    "--host",
    "--port",
    "--tp",
    "--mem-fraction-static",
    "--max-running-requests",
    "--page-size",
    "--chunked-prefill-size",
    "--kv-cache-dtype",
    "--hicache-ratio",
    "--load-format",
    "--cuda-graph-bs",
    "--hicache-storage-backend",
    "--attention-backend",
    "--enable-metrics",
    "--trust-remote-code",
    "LD_PRELOAD",
    "PATH",
    "SGLANG_ENABLE_SPEC_V2",
    "NCCL_P2P_DISABLE",
    "NCCL_NET_PLUGIN",
    "sglang",
    "shm-size",
    "ipc",
    "memlock",
    "vm.swappiness",
    "MemoryMax",
    "--\n--host",
    "--host=0.0.0.0",
    "--page-size 1 --host",
    "ExecStart",
    "",
]
_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=30),
    st.sampled_from(
        [
            "0.99",
            "1; reboot",
            "$(id)",
            "`id`",
            "%h",
            "64\nExecStartPre=/bin/x",
            "../../etc",
            "/etc/shadow",
            "http://x",
            "<value>",
            "...",
            "a b",
            "--host",
            "fp8_e4m3",
            "auto",
            "dynamic",
            "64",
            "host",
            "32g",
            "\u200b64",
            "64 --host 0.0.0.0",
            "'64'",
            '"',
            "\\",
            "${X}",
            "0x40",
            "1e3",
            "NaN",
            "-1",
            "0.6.0",
        ]
    ),
)
_CHANGES = st.builds(
    Change,
    kind=st.one_of(st.sampled_from(["flag", "env", "container", "host", "upgrade"]), st.text(max_size=5)),
    do=st.one_of(st.sampled_from(["set", "raise", "lower", "remove", "upgrade"]), st.text(max_size=5)),
    flag=st.one_of(st.sampled_from(HOSTILE), st.text(max_size=20)),
    from_=_VALUES,
    to=_VALUES,
    unit=st.text(max_size=5),
    why=st.text(max_size=20),
    evidence=st.lists(st.sampled_from(["E5:1", "E4", "S1", "E99", "operator", "", "E5:-1", "E5\n"]), max_size=3).map(
        tuple
    ),
)


@settings(max_examples=many(600), suppress_health_check=list(HealthCheck))
@given(st.lists(_CHANGES, max_size=3))
def test_hostile_proposals_do_not_get_through(flags: Flags, changes: list[Change]) -> None:
    launch = box.launch()
    flags = Flags(flags.flags, variables=lambda name: name != "SGLANG_NOT_THERE")  # rules are tried above
    found = _check(flags, *changes, launch=launch, rests_on={})
    assert len(found.accepted) + len(found.refused) == len(changes)
    assert all(refusal.reason for refusal in found.refused)
    for change in found.accepted:
        text = "" if change.to is None else str(change.to)
        assert re.fullmatch(r"[A-Za-z0-9_.,:+\-= ]*", text)
        assert change.evidence
        assert "--" not in text
        assert change.flag not in ("PATH", "LD_PRELOAD", "NCCL_NET_PLUGIN")
        if change.kind == "flag":
            info = flags.lookup(change.flag)
            assert info is not None
            assert not forbidden.reason(change.flag, text, info)
            assert info.choices is None or text in info.choices or change.do == "remove"
    after = options_after(launch, [change for change in found.accepted if change.kind == "flag"], flags)
    names = {change.flag for change in found.accepted if change.kind == "flag"}
    assert {word for word in after if word.startswith("--")} - {flag.name for flag in launch.flags} <= names
