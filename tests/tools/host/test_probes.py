"""Every standard probe is a command of the policy, and nothing else is sent."""

from __future__ import annotations

import pytest

from tools.host import STANDARD, Probe
from tools.host.framing import compose, decompose, fill
from tools.host.policy import judge

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
    "LOG": "/var/log/sglang.log",
}
# What these read is fixed and its secrets are taken out; the same command from a model would be asked about.
READERS = {"server_info", "version", "tree"}


@pytest.mark.parametrize("probe", STANDARD, ids=lambda probe: probe.name)
def test_a_probe_is_allowed_by_the_policy(probe: Probe) -> None:
    import shlex

    verdict = judge(shlex.join(fill(probe.argv, SLOTS)), reader=True)
    assert verdict.kind == "allow" or (probe.name in READERS and verdict.kind == "ask"), verdict.reason


def test_the_script_asks_the_probes_and_nothing_more() -> None:
    marker = "0" * 32
    found, asked = decompose(compose(STANDARD, marker))
    assert found == marker
    assert [(each.name, list(each.argv)) for each in asked] == [(probe.name, probe.argv) for probe in STANDARD]
