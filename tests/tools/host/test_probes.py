"""Every standard probe is a command of the policy, and nothing else is sent."""

from __future__ import annotations

import shlex

import pytest

from tools.host import STANDARD, Probe
from tools.host.framing import compose, decompose, fill
from tools.host.policy import judge
from tools.host.probes import READERS

SLOTS = {
    "PID": "41272",
    "UNIT": "sglang-kimi.service",
    "PORT": "30000",
    "CGROUP": "/system.slice/sglang-kimi.service",
    "MODEL": "/models/Kimi-K2.5",
    "DRAFT": "/models/Kimi-K2.5-eagle3",
    "PACKAGE": "/opt/sglang/python/sglang",
    "DIST": "/opt/venv/lib/python3.12/site-packages/sglang-0.5.9.dist-info",
    "GIT": "/opt/sglang/.git/HEAD",
    "CONTAINER": "sglang",
    "PODMAN": "sglang",
    "LOG": "/var/log/sglang.log",
    "BOOTLOG": "/var/log/sglang.log.1",
    "MEMGROUP": "/system.slice",
    "SINCE": "2026-02-09T22:35:00",
    "UNTIL": "2026-02-09T22:55:00",
    "VERSION": "/opt/sglang/python/sglang/version.py",
}


def _argv(name: str) -> list[str]:
    return next(list(probe.argv) for probe in STANDARD if probe.name == name)


@pytest.mark.parametrize("probe", STANDARD, ids=lambda probe: probe.name)
def test_a_probe_is_allowed_by_the_policy(probe: Probe) -> None:
    verdict = judge(shlex.join(fill(probe.argv, SLOTS)), reader=True)
    assert verdict.kind == "allow" or probe.name in READERS, verdict.reason


def test_only_the_probes_with_a_stated_reason_go_past_the_policy() -> None:
    assert set(READERS) < {probe.name for probe in STANDARD}
    denied = {name for name in READERS if judge(shlex.join(fill(_argv(name), SLOTS)), reader=True).kind == "deny"}
    assert denied == {"environment"}


def test_the_script_asks_the_probes_and_nothing_more() -> None:
    marker = "0" * 32
    found, asked = decompose(compose(STANDARD, marker))
    assert found == marker
    assert [(each.name, list(each.argv)) for each in asked] == [(probe.name, probe.argv) for probe in STANDARD]
