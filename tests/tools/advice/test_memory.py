"""One sum of GPU memory behind the table of levers, what is proposed and what is refused."""

from __future__ import annotations

import pytest

from tests.tools.capacity.boxes import story, under_load
from tools.advice import memory
from tools.capacity import Lever, levers, limit_that_fits
from tools.diagnosis import actions
from transcripts.facts import Fact


@pytest.mark.parametrize(("free_gib", "least", "most"), [(4.0, 72, 72), (3.02, 49, 71), (2.5, 48, 48)])
def test_a_limit_ends_where_the_gpus_have_no_memory_for_it(free_gib: float, least: int, most: int) -> None:
    """Table and check of a change say the same; a server below the headroom gets no more, and the row says why."""
    facts = story(*under_load(), Fact("free_after_boot_gib", free_gib, "GiB", "observed", "E5:96"))
    largest = limit_that_fits(facts, 72)
    assert largest is not None
    assert least <= largest <= most
    row = next(one for one in levers(facts) if isinstance(one, Lever) and one.name == "more slots")
    assert row.fits == (largest > 48)
    assert not row.fits or row.changes[0][2] == str(largest)
    before = ["--tp-size", "8", "--mem-fraction-static", "0.88"]
    reasons = [one.text for one in memory.fit(before, [*before, "--max-running-requests", "72"], facts).problems]
    assert (f"at most {largest} fit" in " ".join(reasons)) == (largest < 72)
    proposed = actions("capacity.spec_default_cap", facts).changes
    assert [one.to for one in proposed if one.flag == "--max-running-requests"] == ([largest] if largest > 48 else [])


@pytest.mark.parametrize(("wanted", "fits"), [(165, True), (170, False)])
def test_a_limit_is_held_against_the_pool_that_the_whole_change_makes(wanted: int, fits: bool) -> None:
    """FP8 alone ends at 160 requests; with 0.885 the pool is 332,785 tokens and ends at 167."""
    facts = story(*under_load(), Fact("free_after_boot_gib", 12.0, "GiB", "observed", "E5:96"))
    before = ["--tp-size", "8", "--mem-fraction-static", "0.88"]
    after = ["--tp-size", "8", "--mem-fraction-static", "0.885", "--kv-cache-dtype", "fp8_e4m3"]
    found = memory.fit(before, [*after, "--max-running-requests", str(wanted)], facts)
    assert [one.text.endswith("at most 167") for one in found.problems] == ([] if fits else [True])


def test_a_cache_type_that_is_none_is_no_crash_of_the_sum() -> None:
    facts = story(*under_load(), Fact("free_after_boot_gib", 12.0, "GiB", "observed", "E5:96"))
    after = ["--kv-cache-dtype", "float", "--max-running-requests", "60"]
    assert memory.fit([], after, facts).problems == []
