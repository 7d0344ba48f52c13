"""Options that a log line recommends are none that the operator typed."""

from __future__ import annotations

import pytest

from tools.host.parsers.incident import launch
from tools.host.parsers.page import Page

COMMAND = "docker run --gpus all image:1 --model-path /m --tp 8\n"
ADVICE = "[2026-02-11 08:15:54] Max running requests is reset to 48. Override it by setting --max-running-requests.\n"


@pytest.mark.parametrize("head", ["", "Feb 11 08:15:54 gpu1 bash[12]: "])
def test_an_option_that_the_log_recommends_is_not_typed(head: str) -> None:
    page = Page("E1")
    launch.read(page, COMMAND + head + ADVICE, options=True)
    typed = {fact.scope: fact.value for fact in page.facts if fact.name == "flag"}
    assert typed["--tp"] == "8"
    assert "--max-running-requests" not in typed


def test_an_option_that_a_message_without_a_time_advises_is_not_typed() -> None:
    """As SGLang 0.5.19 says it, srt/mem_cache/kv_cache_configurator.py:2127, pasted below the command."""
    text = (
        "$ python3 -m sglang.launch_server --model-path /m --max-running-requests 32\n"
        "max_running_requests is capped to 9 by the mamba state cache (max_mamba_cache_size=47, 5 state slots per "
        "request). To raise it: increase --mamba-full-memory-ratio or --max-mamba-cache-size, or halve the state size "
        "with --mamba-ssm-dtype bfloat16.\n"
    )
    page = Page("E1")
    launch.read(page, text, options=True)
    assert {fact.scope for fact in page.facts if fact.name == "flag"} == {"--model-path", "--max-running-requests"}
