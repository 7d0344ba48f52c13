"""Observed starts: the sums against what servers printed."""

from __future__ import annotations

import csv
from typing import Any

import pytest

from tests.needs import shared
from tools.capacity import score
from tools.capacity.errors import RowsUnreadable

BASE = {"id": "x1", "arch_src": "known", "kv_kind": "", "max_total_num_tokens": "", "kv_size_gb": ""}


@pytest.fixture(scope="module")
def scored() -> dict[str, Any]:
    with shared("data/kv_logs.csv").open(newline="") as file:
        return score(list(csv.DictReader(file)))


@pytest.mark.parametrize("group", ["size", "state", "draft", "auto_fraction", "running", "split"])
def test_every_figure_lies_inside_print_rounding(scored: dict[str, Any], group: str) -> None:
    assert scored[group]["n"] > 2
    assert scored[group]["inside_rounding"] == scored[group]["n"]


def test_tokens_within_half_a_percent_save_the_explained_row(scored: dict[str, Any]) -> None:
    rows = [row for row in scored["rows"] if row["what"] == "max_total_num_tokens"]
    assert len(rows) >= 15
    assert {row["id"] for row in rows if abs(row["error"]) > 0.005} == {"r088"}


def test_fitted_rows_are_kept_apart(scored: dict[str, Any]) -> None:
    assert scored["inferred"]["size"]["n"] == 14
    assert scored["inferred"]["size"]["inside_rounding"] == 14


def test_the_shape_of_the_sum(scored: dict[str, Any]) -> None:
    assert scored["v"] == 1
    assert set(scored["tokens"]) == {"n", "inside_rounding", "median", "p90", "max"}
    assert set(scored["rows"][0]) == {"id", "what", "want", "got", "error", "inside_rounding"}


def one(**columns: str) -> dict[str, Any]:
    return score([{**BASE, **columns}])


def test_a_host_pool_from_ratio_and_from_size() -> None:
    shape = {"kv_kind": "mla", "head_dim": "512+64", "kv_layers": "61", "max_total_num_tokens": "159209", "tp": "8"}
    assert one(**shape, hicache="44.75 GB host per rank, ratio 4.0")["host"]["inside_rounding"] == 1
    assert one(**shape, hicache="55.00 GB host, ratio 4.0")["host"]["inside_rounding"] == 0
    assert one(**shape, hicache="size 60, 60.00 GB host")["host"]["inside_rounding"] == 1


def test_kv_heads_are_divided_by_tp_and_never_below_one() -> None:
    shape = {"kv_kind": "mha", "n_kv_heads": "4", "head_dim": "128", "kv_layers": "48", "kv_elem_bytes": "2"}
    # 48 layers x 1 head x 256 elements x 2 bytes = 24,576 bytes a token
    found = one(**shape, tp="8", max_total_num_tokens="1000000", kv_size_gb="22.89")
    assert found["size"]["inside_rounding"] == 1


def test_a_wrong_size_is_not_inside_rounding() -> None:
    shape = {"kv_kind": "mha", "n_kv_heads": "4", "head_dim": "128", "kv_layers": "48", "kv_elem_bytes": "2"}
    found = one(**shape, tp="8", max_total_num_tokens="1000000", kv_size_gb="23.00")
    assert found["size"]["inside_rounding"] == 0
    assert found["rows"][0]["error"] == pytest.approx(-0.0049, abs=0.0002)


def test_a_capped_pool_does_not_test_the_budget() -> None:
    shape = {"kv_kind": "mha", "n_kv_heads": "4", "head_dim": "128", "kv_layers": "48", "tp": "1"}
    memory = {"mem_fraction_static": "0.8", "avail_mem_before_load_gb": "78", "avail_mem_after_load_gb": "50"}
    assert one(**shape, **memory, max_total_num_tokens="4096", capped="max_total_tokens")["tokens"]["n"] == 0
    assert one(**shape, **memory, max_total_num_tokens="4096")["tokens"]["n"] == 1


def test_a_row_that_cannot_be_read_is_named_and_the_others_count() -> None:
    good = {"kv_kind": "mha", "n_kv_heads": "8", "head_dim": "128", "kv_layers": "32", "max_total_num_tokens": "1000"}
    rows = [
        {**BASE, **good, "kv_size_gb": "0.12"},
        {**BASE, **good, "id": "x2", "mamba_slots": "9", "lin_spec": "gdn:1"},
    ]
    found = score(rows)
    assert found["unread"] == ["x2"]
    assert found["size"]["n"] == 1


def test_a_file_without_the_columns_is_refused() -> None:
    with pytest.raises(RowsUnreadable, match="kv_kind"):
        score([{"id": "x1"}])


HYBRID = {
    "kv_kind": "mha", "n_kv_heads": "2", "head_dim": "256", "kv_layers": "12", "kv_elem_bytes": "1", "page_size": "64",
    "max_total_num_tokens": "240128", "lin_spec": "gdn:36,16,48,128,4,2", "mamba_slots": "48",
    "mamba_spec_ssm_gb": "1.05",
}  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "inside"),
    [
        pytest.param({"sglang_version": "0.5.20.dev728", "hicache": "40.41 GB host, size 96"}, 1, id="shared"),
        pytest.param({"sglang_version": "0.5.20", "hicache": "96.01 GB host, size 96"}, 1, id="shared, all pools"),
        pytest.param({"sglang_version": "0.5.16", "hicache": "96.00 GB host, size 96"}, 1, id="each its own"),
        pytest.param({"sglang_version": "0.5.16", "hicache": "40.41 GB host, size 96"}, 0, id="not yet shared"),
        pytest.param({"log_date": "2026-06-01", "hicache": "40.41 GB host, size 96"}, 0, id="not yet shared, by date"),
        pytest.param({"log_date": "2026-09-01", "hicache": "40.41 GB host, size 96"}, 1, id="shared, by date"),
    ],
)
def test_a_host_size_of_a_hybrid_by_version(columns: dict[str, str], inside: int) -> None:
    assert one(**HYBRID, **columns)["host"]["inside_rounding"] == inside


def test_the_host_pool_of_an_indexer_model_is_read_with_and_without_the_indexers_own() -> None:
    shape = {
        "kv_kind": "dsa:576", "kv_layers": "78", "index_layers": "78", "max_total_num_tokens": "1711744", "tp": "4",
        "page_size": "64",
    }  # fmt: skip
    assert one(**shape, hicache="153.81 GB host, default ratio")["host"]["inside_rounding"] == 1
    assert one(**shape, hicache="189.06 GB host, default ratio")["host"]["inside_rounding"] == 1
    assert one(**shape, hicache="172.00 GB host, default ratio")["host"]["inside_rounding"] == 0


def test_states_between_steps_are_a_sign_of_drafting_where_the_row_does_not_say_it() -> None:
    drafted = HYBRID | {"mamba_ssm_gb": "2.58", "sglang_version": "0.5.20"}
    found = one(**drafted)
    assert [row["what"] for row in found["rows"]] == ["mamba_ssm_gb"]
    assert "mamba_slots" in [row["what"] for row in one(**drafted | {"mamba_spec_ssm_gb": ""})["rows"]]


def test_state_slots_set_by_hand_are_taken_as_they_are() -> None:
    shape = {
        "kv_kind": "mla", "head_dim": "512+64", "kv_layers": "7", "kv_elem_bytes": "2", "page_size": "64",
        "lin_spec": "kda:35,32,128,4,4", "mamba_slots": "64", "mem_fraction_static": "0.75",
        "avail_mem_before_load_gb": "112.23", "avail_mem_after_load_gb": "47.35", "max_total_num_tokens": "1912896",
    }  # fmt: skip
    found = one(**shape)
    assert found["tokens"]["max"] < 0.03  # the automatic split would be off by 29 %
    assert found["state"]["n"] == 0
