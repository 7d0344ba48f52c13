"""What more requests take in captured graphs: the range, and the start that it may break."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.program import sglscout
from tools import capacity
from tools.host.recorded import load


def test_graphs_of_larger_batches_are_told(tmp_path: Path) -> None:
    made = sglscout(tmp_path, "demo", "slots", "--json").document
    walls = [wall["what"] for wall in made["walls"]]
    told = next(wall for wall in walls if wall.startswith("GPU memory"))
    # 1.48 + 0.94 + 1.12 GiB were captured for 48 requests; 24 more take half of that at most, 3 x 24 x 2 MiB at least.
    assert "batches of 49 to 72 take 0.14 to 1.77 GiB" in told
    assert walls[0] != told


def test_what_stays_free_with_more_requests_is_a_range_and_the_picture_shows_its_lower_end(tmp_path: Path) -> None:
    made = sglscout(tmp_path, "demo", "slots", "--json").document
    options = {option["name"]: option for option in made["options"]}
    now, more, plain = (options[name] for name in ("now", "more slots", "speculative decoding off"))
    free = now["gpu_free_gib"]
    assert now["gpu_free_least_gib"] == free
    # The request table takes 0.02 GiB more, the three captures 0.14 to 1.77 GiB; without a draft the first alone 0.74.
    assert (more["gpu_free_gib"], more["gpu_free_least_gib"]) == pytest.approx((free - 0.16, free - 1.79), abs=0.011)
    assert plain["gpu_free_gib"] - plain["gpu_free_least_gib"] == pytest.approx(0.74 - 0.05, abs=0.011)
    after = {step["name"]: step["gib"] for step in made["memory_after"]}
    assert after["free"] == pytest.approx(more["gpu_free_least_gib"], abs=0.011)


def test_no_larger_batches_where_no_memory_is_left_for_them(tmp_path: Path) -> None:
    held = load("slots").figures.boot
    assert held is not None
    load("slots").altered({"boot.serving_gib": held.serving_gib + 4.08}, tmp_path / "copy")
    made = sglscout(tmp_path, "demo", "--recorded", str(tmp_path / "copy"), "--json").document
    assert "--max-running-requests" not in [change["flag"] for change in made["changes"]]
    assert "--max-running-requests" in [rule["flag"] for rule in made["must_not"]]


def test_a_limit_that_captures_no_more_takes_no_more() -> None:
    from transcripts.facts import Facts

    assert capacity.graph_growth(Facts(), 72) is None
