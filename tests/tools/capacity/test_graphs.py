"""What more requests take in captured graphs: the range, and the start that it may break."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.program import sglscout
from tools import capacity
from tools.host.recorded import load


@pytest.mark.parametrize(("reserved_more_gib", "warned"), [(0.0, False), (4.08, True)])
def test_graphs_of_larger_batches_are_told_and_where_they_may_not_fit(
    tmp_path: Path, reserved_more_gib: float, warned: bool
) -> None:
    held = load("slots").figures.boot
    assert held is not None
    load("slots").altered({"boot.serving_gib": held.serving_gib + reserved_more_gib}, tmp_path / "copy")
    made = sglscout(tmp_path, "demo", "--recorded", str(tmp_path / "copy"), "--json").document
    walls = [wall["what"] for wall in made["walls"]]
    told = next(wall for wall in walls if wall.startswith("GPU memory"))
    # 1.48 + 0.94 + 1.12 GiB were captured for 48 requests; 24 more take half of that at most, 3 x 24 x 2 MiB at least.
    assert "batches of 49 to 72 take 0.14 to 1.77 GiB" in told
    assert (walls[0] == told) is warned
    assert ("--cuda-graph-max-bs 48 keeps them as they are" in told) is warned


def test_a_limit_that_captures_no_more_takes_no_more() -> None:
    from transcripts.facts import Facts

    assert capacity.graph_growth(Facts(), 72) is None
