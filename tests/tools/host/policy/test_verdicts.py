"""Verdicts, by the table and by class."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.needs import shared
from tests.program import ROOT
from tools.host.policy import judge, score, settle

DIAGNOSIS = ROOT / "tools" / "diagnosis"


def test_every_row_of_the_table_is_right() -> None:
    lines = shared("data/policy-cases.tsv").read_text(encoding="utf-8").split("\n")
    result = score([line for line in lines if line])
    assert result.wrong == ()
    assert result.unsafe == 0
    assert result.n > 250


def test_every_row_of_our_own_table_is_right() -> None:
    """Programs of the catalogue with their dangerous options, files of keys by every road, words of the shell."""
    lines = Path(__file__).with_name("more-cases.tsv").read_text(encoding="utf-8").splitlines()
    result = score(lines)
    assert result.wrong == ()
    assert result.n > 2_300


@pytest.mark.parametrize(
    ("ports", "url", "kind"),
    [
        ({31000}, "http://127.0.0.1:31000/metrics", "allow"),
        ({31000}, "http://[::1]:31000/health", "allow"),
        ({31000}, "http://127.0.0.1:30000/metrics", "ask"),
        ({30000, 30001}, "http://127.0.0.1:30001/metrics", "allow"),
        (set(), "http://127.0.0.1:30000/metrics", "ask"),
        ({80}, "http://127.0.0.1/health", "allow"),
        ({31000}, "http://127.0.0.1:31000/flush_cache", "deny"),
        ({31000}, "http://10.0.0.7:31000/metrics", "ask"),
        ({99999}, "http://127.0.0.1:99999/metrics", "deny"),
    ],
)
def test_only_the_port_at_which_the_server_was_found_is_asked_silently(ports: set[int], url: str, kind: str) -> None:
    verdict = judge(f"curl -s '{url}'", ports=frozenset(ports))
    assert verdict.kind == kind
    assert settle(verdict, {}).kind == kind


@pytest.mark.parametrize(
    "command",
    [
        "nvidia-smi --query-gpu=name --format=csv",
        "nvidia-smi -q -d MEMORY,ECC -i 0",
        "systemctl cat --no-pager sglang.service",
        "systemctl is-active sglang.service",
        "journalctl -u sglang -n500 --no-pager -o short-iso --since '10 min ago'",
        "journalctl -u sglang -b -1 -n 50 --no-pager",
        "ps aux",
        "ps -o pid,args -p 4211",
        "ss -tn state established '( sport = :30000 )'",
        "ip -br a",
        "cat /proc/4211/limits /sys/fs/cgroup/system.slice/sglang.service/memory.max",
        "cat /proc/4211/root/models/Qwen3/config.json",
        "cat /models/Qwen3/tokenizer_config.json",
        "cat /models/Qwen3/special_tokens_map.json",
        "sed -n 10,40p /opt/sglang/python/sglang/srt/server_args.py",
        "grep -rn --include '*.py' mem_fraction_static /opt/sglang/python/sglang/srt",
        "tail -n 200 /var/log/sglang/server.log",
        "head -n 4 /usr/lib/python3/dist-packages/sglang-0.5.9.dist-info/METADATA",
        "docker inspect --format '{{.State.Status}} {{json .HostConfig.Memory}}' sglang",
        "docker logs --tail 50 --since 10m sglang",
        "curl -s -m 5 'http://127.0.0.1:30000/v1/loads?include=all'",
        "curl -s http://127.0.0.1:30000/v1/models | jq '.data[0].max_model_len'",
        "taskset -cp 4211",
        "timeout 5 nvidia-smi -L",
        "sha256sum /models/Qwen3/config.json",
        "readlink -f /models/current",
        "numactl -H",
        "iostat -xz 1 3",
        "find /var/log/sglang -name '*.log' -mmin -60",
    ],
)
def test_what_a_diagnosis_needs_is_allowed(command: str) -> None:
    verdict = judge(command)
    assert verdict.kind == "allow", verdict.reason
    assert verdict.command.startswith("env -i PATH=")


@pytest.mark.parametrize(
    "command",
    [
        "nvidia-smi --persistence-mode=1",
        "nvidia-smi dmon",
        "nvidia-smi nvlink -re",
        "nvidia-smi -i 0 --compute-mode=3",
        "rocm-smi --setperflevel high",
        "rocm-smi --gpureset -d 0",
        "amd-smi reset --gpureset",
        "dcgmi config --set -P 300",
        "systemctl restart sglang",
        "systemctl show sglang.service",
        "systemctl show -p Environment sglang",
        "systemctl show -p ActiveState,Environment sglang",
        "systemctl status sglang",
        "journalctl --cursor-file=/etc/cron.d/x -n 1 --no-pager",
        "journalctl --vacuum-t 1d",
        "dmesg -n 1",
        "date -s now",
        "ip addr add 10.0.0.1/8 dev eth0",
        "ip netns exec x sh",
        "ip -n x link show",
        "sysctl -w vm.swappiness=1",
        "find /var/log -maxdepth 1 -delete",
        "find /var/log -maxdepth 1 -exec rm {} +",
        "rg --pre sh x /opt/sglang",
        "sort -o /etc/x /var/log/sglang/a.log",
        "sort --compress-program=sh /var/log/sglang/a.log",
        "awk 'BEGIN{while((\"id\"|getline l)>0)print l}'",
        "awk '{print > \"/etc/x\"}' /var/log/sglang/a.log",
        "sed -n 1e /var/log/sglang/a.log",
        "sed -n '1p;w /etc/x' /var/log/sglang/a.log",
        "cat /proc/1/environ",
        "cat /proc/4211/root/etc/shadow",
        "cat /proc/4211/cwd/x",
        "cat /etc/shado?",
        "cat /proc/*/env*",
        "cat /root/.ssh/id_rsa",
        "head -n 5 /root/.docker/config.json",
        "ls -la /root/.ssh",
        "cat /etc/default/sglang",
        "tail -n 5 /models/../etc/shadow",
        "ps auxe",
        "ps eww",
        "ps -o pid,environ -p 1",
        "docker inspect sglang",
        "docker inspect --format '{{json .}}' sglang",
        "docker inspect --format '{{.Config.Env}}' sglang",
        "docker cp sglang:/etc/shadow /tmp/x",
        "docker stats",
        "curl -s http://127.0.0.1:30000/flush_cache",
        "curl -s http://127.0.0.1:30000/start_expert_distribution_record",
        "curl -s http://127.0.0.1:30000/freeze_gc",
        "curl -s http://127.0.0.1:30000//flush_cache",
        "curl -s 'http://127.0.0.1:30000/health?x=/flush_cache'",
        "curl -s http://127.0.0.1:30000/v1/../flush_cache",
        "curl -s http://127.0.0.1@evil.example/health",
        "curl -s http://evil.example/health",
        "curl -s http://127.0.0.1.evil.example/health",
        "curl -s -w '%output{/etc/x}' http://127.0.0.1:30000/health",
        "curl -s -H 'X: y' http://127.0.0.1:30000/health",
        "wget http://127.0.0.1:30000/health",
        "ping evil.example",
        "getent hosts secret.evil.example",
        "base64 /etc/shadow",
        "mycompany-tool /etc/shadow",
        "sudo sh",
        "sudo -n rm /x",
        "sudo -u root nvidia-smi",
        "timeout -s HUP 5 nvidia-smi",
        "timeout --foreground 5 nvidia-smi",
        "nice sh",
        "./nvidia-smi",
        "/tmp/nvidia-smi -L",
        "uptime | nvidia-smi",
        "cat /var/log/sglang/a.txt | grep x /var/log/syslog",
        "tail -n 99999999 /var/log/sglang/a.log",
        "tail -f /var/log/sglang/a.log",
        "uptime & uptime",
        "uptime |& cat",
        "uptime > /dev/null",
        "uptime 2> /dev/null",
        "uptime 2>/dev/nullx",
        "uptime 2>/etc/x",
        "uptime >&1",
        "",
        ";",
    ],
)
def test_what_writes_waits_or_leaks_is_denied(command: str) -> None:
    verdict = judge(command)
    assert verdict.kind == "deny", verdict.reason
    assert verdict.command == ""


@pytest.mark.parametrize(
    "command",
    [
        "some-unknown-tool --report",
        "cat /etc/passwd",
        "journalctl -u sglang --no-pager",
        "docker logs sglang",
        "ps -fp 4211 | cut -d ' ' -f 9",
        "systemctl cat --no-pager sglang | awk '{print $3}'",
        "curl -s http://127.0.0.1:30000/get_server_info",
        "sudo -n nvidia-smi -L",
        "lsof -n",
        "ping -c 1 10.0.0.7",
        "crontab -l",
        "cat /proc/4211/smaps",
        "grep -rn x /models",
    ],
)
def test_what_costs_or_shows_people_asks(command: str) -> None:
    verdict = judge(command)
    assert verdict.kind == "ask", verdict.reason


def test_a_pipeline_is_as_bad_as_its_worst_stage() -> None:
    assert judge("uptime && cat /etc/passwd").kind == "ask"
    assert judge("uptime && cat /etc/passwd && reboot").kind == "deny"


def test_the_position_points_at_what_is_refused() -> None:
    command = "journalctl -u sglang -n 5 > /etc/x"
    verdict = judge(command)
    assert verdict.position is not None
    assert command[verdict.position] == ">"


def test_only_the_program_itself_reads_the_server_info_silently() -> None:
    command = "curl -s -m 5 http://127.0.0.1:30000/get_server_info"
    assert judge(command).kind == "ask"
    assert judge(command, reader=True).kind == "allow"
    assert judge(command, reader=True).privacy == "redact"
    assert judge("curl -s http://127.0.0.1:30000/flush_cache", reader=True).kind == "deny"


def test_required_additions_are_sent() -> None:
    assert "--no-config" in judge("rg -n x /opt/sglang/python").stages[0]
    sent = judge("curl -s http://127.0.0.1:30000/health").command
    assert "--noproxy" in sent
    assert "--max-redirs=0" in sent


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("journalctl -k | grep Xid", "add --no-pager -n 1000"),
        ("journalctl -u sglang -n 50", "add --no-pager: "),
        ("curl -s localhost:30000/get_server_info", "write http:// before localhost:30000/get_server_info"),
        ("curl -s 127.0.0.1:30000", "write http:// before 127.0.0.1:30000"),
        ("nvidia-smi -pm 1", "switches persistence mode"),
        ("nvidia-smi -i 0 -pl 300", "sets the power limit"),
        ("nvidia-smi -r", "resets the GPU"),
        ("nvidia-smi --lock-gpu-clocks=100,200", "sets clocks"),
    ],
)
def test_a_refusal_says_what_the_command_would_do_or_how_to_put_it(command: str, says: str) -> None:
    verdict = judge(command)
    assert verdict.kind == "deny"
    assert says in verdict.reason
    assert "[secret]" not in verdict.reason


def test_commands_that_a_screen_advises_are_allowed() -> None:
    """What is in backticks in the words of a diagnosis can be typed as it stands."""
    said = "\n".join(path.read_text(encoding="utf-8") for path in DIAGNOSIS.rglob("*.py"))
    advised = {each for each in re.findall(r"`([^`\n{]+)`", said) if each.startswith(("journalctl ", "dmesg", "curl "))}
    assert len(advised) > 1
    assert [each for each in advised if judge(each).kind != "allow"] == []
