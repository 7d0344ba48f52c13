"""Other states of the host: healthy, failing at boot, a newer SGLang, no GPUs, no SGLang, no tree."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.tools.host.parsers.templates import tree
from tests.tools.host.recorded.hosts import copy, healthy, journal, newer, out, restarting
from tools.host.recorded import load


def test_a_healthy_server_has_no_queue(tmp_path: Path) -> None:
    last = journal(healthy(tmp_path), "Decode batch")[-1]
    assert "#running-req: 10," in last
    assert last.endswith("#queue-req: 0")


def test_a_failing_start(tmp_path: Path) -> None:
    recording = restarting(tmp_path)
    shown = out(recording, "systemctl show -p ActiveState -p SubState -p NRestarts -p MainPID -p Result sglang-kimi")
    assert shown == "MainPID=0\nResult=signal\nNRestarts=2\nActiveState=activating\nSubState=auto-restart\n"
    lines = journal(recording)
    assert sum("Exception: Capture cuda graph failed: CUDA out of memory" in line for line in lines) == 3
    assert lines[-1].endswith("Scheduled restart job, restart counter is at 3.")
    assert "Main process exited, code=killed, status=9/KILL" in lines[-3]
    assert not any("fired up" in line for line in lines)
    reply = recording.answer("curl -s -S -m 5 http://127.0.0.1:30000/server_info")
    assert (reply.exit, reply.stderr) == (
        7,
        "curl: (7) Failed to connect to 127.0.0.1 port 30000 after 0 ms: Couldn't connect to server\n",
    )
    assert out(recording, "nvidia-smi --query-compute-apps=pid --format=csv,noheader") == ""
    assert "sglang" not in out(recording, "ps -eo comm")


def test_weights_that_leave_no_room_for_the_pool(tmp_path: Path) -> None:
    recording = copy(
        "slots", tmp_path, boot__weights_after_gib=10.9, server__state="failed", server__failure="kv_budget"
    )
    text = "\n".join(journal(recording))
    assert (
        "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value: "
        "self.server_args.mem_fraction_static=0.88" in text
    )
    assert recording.answer("systemctl is-active sglang-kimi").stdout == "failed\n"


def test_a_host_that_killed_the_server(tmp_path: Path) -> None:
    killed = "Out of memory: Killed process 41490 (sglang::schedul) total-vm:884021332kB, anon-rss:49210232kB"
    recording = copy(
        "slots",
        tmp_path,
        server__state="failed",
        server__failure="host_oom",
        kernel_log=[["2026-02-09T22:47:31Z", killed]],
    )
    assert killed in out(recording, "journalctl -k --no-pager -o cat --grep='Out of memory|oom-kill'")
    assert killed in out(recording, "dmesg -T --level=err,warn")
    assert journal(recording)[-1].endswith("Failed with result 'oom-kill'.")


def _starts(line: str) -> str:
    found = re.search(
        r"Load weight begin|Load weight end|KV Cache is allocated|Memory pool end|Capture [a-zA-Z ]+", line
    )
    return found[0] if found else ""


@pytest.mark.parametrize("version", ["0.5.14", "0.5.16", "0.5.23"])
def test_from_0_5_14_on_both_models_are_loaded_before_a_pool_is_made(version: str, tmp_path: Path) -> None:
    lines = [line for line in journal(copy("slots", tmp_path, server__version=version)) if " TP0]" in line]
    steps = [
        line for line in lines[: lines.index(next(x for x in lines if "max_total_num_tokens" in x))] if _starts(line)
    ]
    assert [_starts(line) for line in steps[:8]] == [
        *("Load weight begin", "Load weight end") * 2,
        *("KV Cache is allocated", "Memory pool end") * 2,
    ]
    assert all(_starts(line).startswith("Capture") for line in steps[8:])
    free = [float(found[1]) for line in steps if (found := re.search(r"avail mem=([\d.]+) GB", line))]
    assert free == sorted(free, reverse=True)
    both, tokens = free[3], int(re.search(r"#tokens: (\d+)", steps[4])[1])  # type: ignore[index]
    budget = both - free[0] * (1 - 0.88)
    assert tokens == pytest.approx(budget * 2**30 / (70_272 * 62 / 61), rel=0.002)


def test_before_0_5_14_the_draft_is_loaded_after_the_graphs_of_the_target(tmp_path: Path) -> None:
    lines = [line for line in journal(copy("slots", tmp_path, server__version="0.5.13")) if " TP0]" in line]
    loads = [index for index, line in enumerate(lines) if "Load weight begin" in line]
    graphs = next(index for index, line in enumerate(lines) if "Capture cuda graph end" in line)
    assert loads[0] < graphs < loads[1]


def test_a_newer_version_prints_in_its_own_words(tmp_path: Path) -> None:
    recording = newer(tmp_path)
    lines = journal(recording)
    assert any(
        re.search(r"KV Cache is allocated\. dtype: torch\.bfloat16, #tokens: \d+, KV size:", line) for line in lines
    )
    assert any("Capture target verify CUDA graph begin. backend=full" in line for line in lines)
    arguments = ast.literal_eval(next(line.split("server_args=", 1)[1] for line in lines if "server_args=" in line))
    assert arguments["speculative_num_draft_tokens"] == 4
    assert arguments["max_running_requests"] == 48
    assert "hicache_host_memory_fraction" in arguments
    assert (
        out(
            recording, "cat /root/sglang/.venv/lib/python3.12/site-packages/sglang-0.5.23.dist-info/METADATA"
        ).splitlines()[2]
        == "Version: 0.5.23"
    )
    # The draft is counted inside the budget from 0.5.16 on: fewer tokens from the same memory.
    assert int(re.search(r"max_total_num_tokens=(\d+)", "\n".join(lines))[1]) < 159_209  # type: ignore[index]


def test_a_host_without_gpus_has_no_nvidia_smi(tmp_path: Path) -> None:
    recording = copy("slots", tmp_path, gpus=None)
    assert recording.answer("nvidia-smi").exit == 127
    assert recording.answer("timeout -k 2 5 nvidia-smi").stderr == (
        "timeout: failed to run command 'nvidia-smi': No such file or directory\n"
    )


def test_a_host_without_sglang(tmp_path: Path) -> None:
    recording = copy("slots", tmp_path, server=None, boot=None, load=None)
    assert recording.answer("systemctl cat sglang-kimi").stderr == "No files found for sglang-kimi.\n"
    assert recording.answer("journalctl -u sglang-kimi --no-pager").stdout == "-- No entries --\n"
    assert recording.discovery() == {}
    assert out(recording, "free -h").splitlines()[1].split()[6] == "396Gi"


def test_the_tree_is_the_hosts_package_or_absent() -> None:
    without = load("slots").answer("cat /root/sglang/python/sglang/srt/server_args.py")
    assert (without.exit, without.stderr) == (
        1,
        "cat: /root/sglang/python/sglang/srt/server_args.py: No such file or directory\n",
    )
    recording = load("slots", tree=tree("0.5.9"))
    assert recording.discovery()["PACKAGE"] == "/root/sglang/python/sglang"
    shown = out(recording, "grep -n 'self.max_running_requests = 48' /root/sglang/python/sglang/srt/server_args.py")
    number = int(shown.split(":")[0])
    real = (tree("0.5.9") / "srt/server_args.py").read_text(encoding="utf-8").splitlines()
    assert real[number - 1].strip() == "self.max_running_requests = 48"
    found = out(recording, "find /root/sglang/python/sglang/srt/mem_cache -maxdepth 1 -name 'hiradix*'")
    assert found == "/root/sglang/python/sglang/srt/mem_cache/hiradix_cache.py\n"


def test_nothing_outside_the_recording_can_be_read(tmp_path: Path) -> None:
    recording = copy("slots", tmp_path)
    secret = tmp_path / "outside"
    secret.write_text("not for the host", encoding="utf-8")
    (recording.root / "leak").symlink_to(secret)
    for path in ("/leak", "/../outside", "/root/../../../outside", str(secret), "/models/../../../outside"):
        reply = recording.answer(f"cat {path}")
        assert (reply.exit, reply.stdout) == (1, ""), path


@pytest.mark.parametrize("version", ["0.5.9", "0.5.23"])
def test_arguments_are_those_of_the_tree(version: str, tmp_path: Path) -> None:
    recording = newer(tmp_path) if version == "0.5.23" else load("slots")
    text = (tree(version) / "srt/server_args.py").read_text(encoding="utf-8")
    if version == "0.5.9":
        body = next(
            node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef) and node.name == "ServerArgs"
        )
        fields = [
            node.target.id
            for node in body.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        ]
        assert list(recording.arguments) == fields
    else:
        folder = tree(version) / "srt/arg_groups/fields"
        declared = "\n".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
        assert all(re.search(rf"^    {name}: ", declared, re.MULTILINE) for name in recording.arguments)
