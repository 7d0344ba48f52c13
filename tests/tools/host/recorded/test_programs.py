"""Programs print as the real ones do, pipelines work, and no command line makes the simulator fail."""

from __future__ import annotations

import csv
import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.long import many
from tests.needs import needs, shared
from tests.tools.host.recorded.hosts import copy, out
from tools.host.policy import judge
from tools.host.recorded import Reply, load

UNIT = "sglang-kimi.service"


def test_any_field_of_a_gpu_query() -> None:
    recording = load("slots")
    with_units = out(
        recording, "nvidia-smi --query-gpu=power.draw,memory.used,pci.bus_id,compute_cap --format=csv -i 2"
    )
    head, row = with_units.splitlines()
    assert head == "power.draw [W], memory.used [MiB], pci.bus_id, compute_cap"
    assert row.endswith(" MiB, 00000000:61:00.0, 12.0")
    bare = out(recording, "nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 2")
    assert bare.strip().isdigit()
    wrong = recording.answer("nvidia-smi --query-gpu=memory.spare --format=csv")
    assert (wrong.exit, wrong.stdout) == (2, 'Field "memory.spare" is not a valid field to query.\n\n')


def test_each_gpu_is_held_by_its_rank() -> None:
    recording = load("slots")
    rows = out(
        recording, "nvidia-smi --query-compute-apps=gpu_bus_id,pid,process_name,used_memory --format=csv,noheader"
    )
    assert len(rows.splitlines()) == 8
    for rank, line in enumerate(rows.splitlines()):
        _, pid, name, used = line.split(", ")
        assert name == f"sglang::scheduler_TP{rank}"
        assert out(recording, f"ps -o ppid= -p {pid}").strip() == "41272"
        assert 92_000 < int(used.removesuffix(" MiB")) < 92_450


@pytest.mark.parametrize("options", ["", "-h", "-b", "-m", "-g", "-w -m", "-t -h"])
def test_free_has_the_columns_of_the_real_one(options: str) -> None:
    needs("free", apt="procps")
    real = subprocess.run(["free", *options.split()], capture_output=True, text=True, check=True, env={"LC_ALL": "C"})
    ours = out(load("slots"), f"free {options}")
    assert ours.splitlines()[0] == real.stdout.splitlines()[0]
    assert [line.split(":")[0] for line in ours.splitlines()[1:]] == [
        line.split(":")[0] for line in real.stdout.splitlines()[1:]
    ]


@pytest.mark.parametrize("options", ["-B1", "-h", "-T", "-k"])
def test_df_has_the_columns_of_the_real_one(options: str) -> None:
    real = subprocess.run(["df", options, "/"], capture_output=True, text=True, check=True, env={"LC_ALL": "C"})
    assert out(load("slots"), f"df {options} /").splitlines()[0].split() == real.stdout.splitlines()[0].split()


def test_ps_has_the_columns_of_the_real_one() -> None:
    needs("ps", apt="procps")
    columns = "pid,ppid,rss,etimes,lstart,comm"
    command = ["ps", "-o", columns, "-p", "1"]
    real = subprocess.run(command, capture_output=True, text=True, check=True, env={"LC_ALL": "C"})
    ours = out(load("slots"), f"ps -o {columns} -p 41272 --ppid 41272")
    assert ours.splitlines()[0].split() == real.stdout.splitlines()[0].split()
    assert len(ours.splitlines()) == 11


def test_journal_formats_and_selections() -> None:
    recording = load("slots")
    last = out(recording, f"journalctl -u {UNIT} -n 1 --no-pager -o short-iso")
    assert last.startswith("2026-02-10T03:27:0")
    assert "+00:00 gpu1 python3[41272]: [2026-02-10 03:27:0" in last
    record = json.loads(out(recording, f"journalctl -u {UNIT} -n 1 --no-pager -o json"))
    assert record["MESSAGE"] == out(recording, f"journalctl -u {UNIT} -n 1 --no-pager -o cat").rstrip("\n")
    assert record["_SYSTEMD_UNIT"] == UNIT
    assert out(recording, "journalctl -u sglang-kimi -n 1 --no-pager").startswith("Feb 10 03:27:0")
    lines = out(recording, f"journalctl -u {UNIT} --since '5 min ago' --no-pager -o short-iso").splitlines()
    assert min(line[:19] for line in lines) >= "2026-02-10T03:22:04"
    until = out(recording, f"journalctl -u {UNIT} --until '2026-02-09 22:41:30' -n 2 --no-pager -o short-iso")
    assert max(line[:19] for line in until.splitlines()) <= "2026-02-09T22:41:30"
    newest_first = out(recording, f"journalctl -u {UNIT} -n 5 -r --no-pager -o cat").splitlines()
    assert newest_first == out(recording, f"journalctl -u {UNIT} -n 5 --no-pager -o cat").splitlines()[::-1]
    none = recording.answer(f"journalctl -u {UNIT} --no-pager --grep=nowhere")
    assert (none.exit, none.stdout) == (1, "-- No entries --\n")
    assert recording.answer("journalctl -u other.service --no-pager").stdout == "-- No entries --\n"
    # A pattern without capitals ignores case, as journalctl's does; one with capitals does not.
    assert "The server is fired up" in out(recording, f"journalctl -u {UNIT} --grep='the server is' --no-pager -n 1")
    assert recording.answer(f"journalctl -u {UNIT} --grep='THE server' --no-pager").exit == 1


def test_pipelines_and_redirections() -> None:
    recording = load("kv")
    decodes = int(out(recording, f"journalctl -u {UNIT} --no-pager -o cat | grep -c 'Decode batch'"))
    assert decodes == out(recording, f"journalctl -u {UNIT} --no-pager -o cat").count("Decode batch")
    tallies = f"journalctl -u {UNIT} --no-pager -o cat | grep -o '#running-req: [0-9]*' | sort | uniq -c"
    tallies = out(recording, f"{tallies} | sort -rn | head -n 1")
    assert tallies.split()[1:] == ["#running-req:", "20"]
    assert out(recording, "cat /nowhere 2>/dev/null || echo gone") == "gone\n"
    assert out(recording, "free -b | awk '/Mem/ {print $7}'").strip() == str(396 << 30)
    assert out(recording, "head -c 8 /etc/hostname && hostname") == "gpu1\ngpu1\n"
    assert out(recording, "tail -n 2 /proc/uptime | wc -l") == "1\n"
    assert out(recording, f"sed -n '2,3p' /etc/systemd/system/{UNIT}").startswith("Description=")
    assert out(recording, "env -i LC_ALL=C timeout -k 2 20 grep -F -n 48 /etc/hostname || true") == ""


def test_paths_of_the_host() -> None:
    recording = load("slots")
    assert "config.json" in out(recording, "ls -la /models/Kimi-K2.5")
    assert (
        out(recording, "stat -c '%F %n' /models/Kimi-K2.5/config.json")
        == "regular file /models/Kimi-K2.5/config.json\n"
    )
    assert out(recording, "find /models -maxdepth 2 -name '*.json'").count("config.json") == 2
    assert out(recording, "readlink -f /proc/41272/cwd") == "/root/sglang\n"
    assert out(recording, "cat /proc/41272/cgroup") == f"0::/system.slice/{UNIT}\n"
    limits = out(recording, "cat /proc/41272/limits")
    assert "Max locked memory         unlimited            unlimited            bytes" in limits
    missing = recording.answer("ls /models/other")
    assert (missing.exit, missing.stderr) == (2, "ls: cannot access '/models/other': No such file or directory\n")


def test_memory_limits_of_the_unit(tmp_path: Path) -> None:
    recording = copy("slots", tmp_path)
    drop_in = recording.root / f"etc/systemd/system/{UNIT}.d/memory.conf"
    drop_in.parent.mkdir()
    drop_in.write_text("[Service]\nMemoryMax=300G\n", encoding="utf-8")
    assert out(recording, f"cat /sys/fs/cgroup/system.slice/{UNIT}/memory.max") == f"{300 << 30}\n"
    assert out(recording, f"systemctl show -p MemoryMax,DropInPaths {UNIT}").splitlines() == [
        f"MemoryMax={300 << 30}",
        f"DropInPaths=/etc/systemd/system/{UNIT}.d/memory.conf",
    ]
    assert f"# /etc/systemd/system/{UNIT}.d/memory.conf\n[Service]\nMemoryMax=300G" in out(
        recording, f"systemctl cat {UNIT}"
    )


def test_endpoints_refuse_without_their_key(tmp_path: Path) -> None:
    recording = load("slots").altered({"flag:--api-key": "sk-test"}, tmp_path / "copy")
    url = "http://127.0.0.1:30000/v1/loads"
    assert out(recording, f"curl -s {url}") == '{"error":"Unauthorized"}'
    assert recording.answer(f"curl -s -S -f {url}").exit == 22
    assert "loads" in out(recording, f"curl -s -H 'Authorization: Bearer sk-test' {url}")
    assert out(recording, "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:30000/health") == "200"


def test_what_the_policy_sends_for_its_allowed_rows_is_understood() -> None:
    recording = load("prefix")
    with shared("data/policy-cases.tsv").open(encoding="utf-8", newline="") as handle:
        rows = [row for row in csv.reader(handle, delimiter="\t", quoting=csv.QUOTE_NONE) if len(row) > 1]
    sent = [verdict.command for row in rows if (verdict := judge(row[0])).kind == "allow"]
    assert len(sent) > 40
    mistakes = ("Syntax error", "unrecognized option", "invalid option", "Unknown command")
    not_understood = [line for line in sent if any(word in recording.answer(line).stderr for word in mistakes)]
    assert not_understood == []


WORDS = st.sampled_from(
    [
        "nvidia-smi",
        "journalctl",
        "systemctl",
        "ps",
        "free",
        "df",
        "cat",
        "grep",
        "ls",
        "curl",
        "sed",
        "awk",
        "head",
        "tail",
        "-n",
        "-u",
        "--no-pager",
        "-o",
        "|",
        "&&",
        "'",
        "$(",
        "{",
        "}",
        "-1",
        "99999999999",
        "/proc/meminfo",
        "..",
        "-",
        "--",
        "--since=x",
        "-B1",
        "--query-gpu=",
        "topo",
        "-k",
        "2>&1",
        "(",
        "[",
        "\\",
        "?",
        "*",
        "sort",
        "cut",
        "-f",
        "-d",
        "wc",
        "stat",
    ]
)
STORY = load("story")


@settings(max_examples=many(300))
@given(st.lists(WORDS | st.text(max_size=8), max_size=8))
def test_no_command_line_makes_it_fail(words: list[str]) -> None:
    assert isinstance(STORY.answer(" ".join(words)), Reply)
