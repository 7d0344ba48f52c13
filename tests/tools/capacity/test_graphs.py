"""What more requests take in captured graphs: the range, and the start that it may break."""

from __future__ import annotations

from pathlib import Path

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
