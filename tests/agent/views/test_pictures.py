"""Pictures of documents that are not the demo's: parts that grow past what is seen, values that are no numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from agent.case import Case
from agent.document import document
from agent.views import pictures
from transcripts.records import Advised, Record

Json = dict[str, Any]


def _advised(records: list[Record], flag: str, before: object, after: object) -> Json:
    """The document of a session whose advice is one other change."""
    last = next(record for record in reversed(records) if isinstance(record, Advised))
    change = {**last.changes[0], "flag": flag, "from": before, "to": after}
    changed = last.model_copy(update={"changes": (change,)})
    return document(Case.fold([changed if record is last else record for record in records]))


@pytest.mark.parametrize(("before", "after"), [(None, "0.9"), ("auto", "0.9"), ("0.88", None), ("0.88", "most")])
def test_a_value_that_is_no_number_moves_nothing(
    records: Callable[[str], list[Record]], before: object, after: object
) -> None:
    made = _advised(records("slots"), "--mem-fraction-static", before, after)
    assert made["memory_after"] == []
    assert "GiB after" not in pictures.memory(made)


def test_a_larger_fraction_moves_pool_draft_pool_and_free(records: Callable[[str], list[Record]]) -> None:
    made = _advised(records("slots"), "--mem-fraction-static", "0.88", "0.89")
    before = {step["name"]: step["gib"] for step in made["memory"]}
    after = {step["name"]: step["gib"] for step in made["memory_after"]}
    assert after["KV pool"] - before["KV pool"] == pytest.approx(94.06 * 0.01, abs=0.01)
    assert after["draft pool"] / before["draft pool"] == pytest.approx(after["KV pool"] / before["KV pool"], abs=0.02)
    assert sum(after.values()) == pytest.approx(sum(before.values()), abs=0.03)


def test_a_part_that_grows_past_what_is_seen_is_shown_before_and_after(records: Callable[[str], list[Record]]) -> None:
    made = _advised(records("slots"), "--max-running-requests", None, 4800)
    assert next(step["gib"] for step in made["memory"] if step["name"] == "request table") < pictures.SMALL_GIB
    assert next(step["gib"] for step in made["memory_after"] if step["name"] == "request table") > pictures.SMALL_GIB
    drawn = pictures.memory(made)
    assert drawn.count("request table: ") == 2
    assert "<strong>" in drawn


def test_no_figures_no_picture(made: Callable[[str], Json]) -> None:
    bare = copy.deepcopy(made("kv"))
    bare.update(memory=[], memory_after=[], series=[], options=[])
    assert [pictures.memory(bare), pictures.load(bare), pictures.host(bare)] == ["", "", ""]


def test_what_the_gib_do_not_show_is_said(made: Callable[[str], Json]) -> None:
    assert made("kv")["memory_after"]
    assert "each GiB of the pool holds about twice the tokens" in pictures.memory(made("kv"))
    assert "twice the tokens" not in pictures.memory(made("slots"))
