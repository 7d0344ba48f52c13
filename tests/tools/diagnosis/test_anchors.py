"""Every statement about SGLang hangs on a line of a real tree, searched as a researcher searches."""

from __future__ import annotations

import asyncio

import pytest

from tests.tools.diagnosis.test_weighing import SLOTS
from tests.tools.source.trees import tree
from tools import diagnosis
from tools.diagnosis.model import Anchor
from transcripts.facts import Facts

ASKED = "what can be offloaded to ram?"


def all_anchors() -> list[Anchor]:
    facts = Facts(SLOTS)
    found = diagnosis.questions(diagnosis.weigh(facts), facts, ASKED)
    return [anchor for question in found for anchor in question.anchors]


def hits(version: str, anchor: Anchor) -> int:
    result = asyncio.run(tree(version).search(anchor.pattern, globs=(anchor.path,), limit=3))
    return len(result.hits)


@pytest.mark.parametrize(
    "subject",
    [
        "--enable-hierarchical-cache",
        "--hicache-ratio",
        "--hicache-size",
        "--hicache-write-policy",
        "--hicache-io-backend",
        "--hicache-mem-layout",
        "--hicache-storage-backend",
        "--enable-lmcache",
        "--disaggregation-decode-enable-offload-kvcache",
        "--cpu-offload-gb",
        "--offload-group-size",
        "--kt-weight-path",
        "--max-running-requests",
    ],
)
def test_the_tree_of_059_shows_it(subject: str) -> None:
    about = [anchor for anchor in all_anchors() if anchor.shows == subject]
    assert any(hits("0.5.9", anchor) for anchor in about)


def test_what_only_a_later_version_says_is_not_found_in_an_earlier_one() -> None:
    per_host = [anchor for anchor in all_anchors() if "container's limit" in anchor.claim]
    assert per_host
    assert not any(hits("0.5.9", anchor) for anchor in per_host)
    assert any(hits("0.5.23", anchor) for anchor in per_host)


def test_lmcache_is_unusable_with_mla_on_059_by_its_own_line() -> None:
    lmcache = [anchor for anchor in all_anchors() if "unusable with MLA" in anchor.claim]
    assert all(hits("0.5.9", anchor) for anchor in lmcache)
    assert not any(hits("0.4.6", anchor) for anchor in lmcache)
