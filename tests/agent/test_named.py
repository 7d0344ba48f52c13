"""Options that a complaint names: those that no server of that version has, and values that do not run."""

from __future__ import annotations

import pytest

from agent.named import options_named
from transcripts.facts import Fact, Facts


def facts(**arguments: str) -> Facts:
    told = [Fact("server_arg", value, "", "observed", "E2:7", dest) for dest, value in arguments.items()]
    return Facts([Fact("version", "0.5.9", "", "observed", "E3:1"), *told])


@pytest.mark.parametrize(
    ("complaint", "why"),
    [
        ("I set --kv-offload-gb 100 and it did nothing", "no release known has it; nearest in name: --cpu-offload-gb"),
        ("--gpu-memory-utilization 0.95 is slow", "it is vLLM's, SGLang has --mem-fraction-static"),
        ("should I add --enable-hicache?", "releases that have it: 0.5.23"),
    ],
)
def test_an_option_that_the_version_lacks_is_told(complaint: str, why: str) -> None:
    (claim,) = options_named(complaint, facts(), None)
    assert claim.verdict == "contradicted"
    assert claim.why == f"0.5.9 has no such option; {why}"
    assert claim.evidence == ("E3:1",)


def test_of_an_unknown_version_only_what_no_release_has_is_denied() -> None:
    said = "with --kv-offload-gb 100, --enable-hicache and --tp 8"
    verdicts = {claim.text.split(" ")[0]: claim.verdict for claim in options_named(said, Facts(), None)}
    assert verdicts == {"--kv-offload-gb": "contradicted"}


@pytest.mark.parametrize(
    ("complaint", "told"),
    [
        ("we already run with --max-running-requests 200 but only 48 run", "the server tells 48"),
        ("I set --max-running-requests=200. Nothing changed", "the server tells 48"),
        ("we started it with --mem-frac 0.90", "the server tells 0.88"),
        ("we run with --mem-fraction-static .880 and --tp-size 8", ""),
        ("should we set --max-running-requests 200?", ""),
        ("what if we run with --max-running-requests 200", ""),
        ("it hangs since we removed --max-running-requests 200", ""),
        ("we set --context-length 8192", ""),  # nobody saw what the server has
    ],
)
def test_a_value_that_is_said_to_be_set_is_held_against_what_the_server_tells(complaint: str, told: str) -> None:
    running = facts(max_running_requests="48", mem_fraction_static="0.88", tp_size="8")
    found = options_named(complaint, running, None)
    assert [claim.why.partition(":")[0] for claim in found] == ([told] if told else [])
    assert all(claim.verdict == "contradicted" and claim.evidence == ("E2:7",) for claim in found)
