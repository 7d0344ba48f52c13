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


@pytest.mark.parametrize(
    "said",
    [
        "ratio=4 -> 44.75 GB",
        "Allocating 44.75 GB host memory; --hicache-ratio 4",
        "hicache-ratio: 4.0; 44.75GB x 8 = 358.0 GB",
        "22.38 GB host, default ratio",
        "--hicache-size 61 GB; allocated 61.00 GB",
    ],
)
def test_a_host_pool_however_the_log_is_quoted(said: str) -> None:
    shape = {"kv_kind": "mla", "head_dim": "512+64", "kv_layers": "61", "max_total_num_tokens": "159209", "tp": "8"}
    found = one(**shape, hicache=said)["host"]
    assert (found["n"], found["inside_rounding"]) == (1, 1)


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


@pytest.mark.parametrize("layers", ["61", "31", "30"])
def test_a_pipeline_stage_is_told_by_its_printed_size(layers: str) -> None:
    # The stage's 31 layers x 1,152 bytes; the column may count the model's layers or the stage's.
    shape = {"kv_kind": "mla", "head_dim": "512+64", "n_layers": "61", "tp": "8", "pp": "2", "kv_elem_bytes": "2"}
    found = one(**shape, kv_layers=layers, max_total_num_tokens="800000", kv_size_gb="26.61")
    assert found["size"]["inside_rounding"] == (layers != "30")


def test_the_budget_of_a_pipeline_stage_holds_the_tokens_of_the_largest() -> None:
    shape = {"kv_kind": "mha", "n_kv_heads": "8", "head_dim": "128", "n_layers": "80", "kv_layers": "80", "pp": "2"}
    memory = {"mem_fraction_static": "0.85", "avail_mem_before_load_gb": "78", "avail_mem_after_load_gb": "40"}
    # 28.3 GiB over 40 layers x 8 heads x 256 elements x 2 bytes
    assert one(**shape, **memory, max_total_num_tokens="185466")["tokens"]["max"] < 1e-5


@pytest.mark.parametrize(
    ("columns", "tokens"),
    [
        # 60 - 139.2 x 0.12 = 43.296 GiB over 61 x (576 + 132) bytes while a row stores 656
        pytest.param(
            {"sglang_version": "0.5.6", "kv_kind": "dsa:656", "index_layers": "61"}, 1076416, id="old divisor"
        ),
        pytest.param({"sglang_version": "0.5.20", "kv_kind": "dsa:656", "index_layers": "61"}, 967104, id="mended"),
        # over 61 x 1,152 bytes, and 2 x 8 x 128 x 2 of the draft's layer
        pytest.param({"sglang_version": "0.5.20", "draft_spec": "mha:1,8,128,2"}, 625117, id="draft in the budget"),
        pytest.param({"sglang_version": "0.5.9", "draft_spec": "mha:1,8,128,2"}, 661554, id="draft in the reserve"),
    ],
)
def test_the_version_says_what_the_budget_is_divided_by(columns: dict[str, str], tokens: int) -> None:
    shape = {"kv_kind": "mla", "head_dim": "512+64", "kv_layers": "61", "tp": "8", "page_size": ""}
    memory = {"mem_fraction_static": "0.88", "avail_mem_before_load_gb": "139.2", "avail_mem_after_load_gb": "60"}
    assert one(**shape | memory | columns, max_total_num_tokens=str(tokens))["tokens"]["max"] < 1e-5


@pytest.mark.parametrize(
    ("columns", "fraction"),
    [
        # (97,887 - 512 - 1.5 x 8,192 - 2 x 512 - 1,024 = 83,039 MiB)
        pytest.param({}, "0.848", id="plain"),
        pytest.param({"speculative": "EAGLE3, 3 steps"}, "0.827", id="2 GiB for a draft"),
        pytest.param({"speculative": "EAGLE3", "sglang_version": "0.5.20"}, "0.848", id="a draft in the budget"),
        pytest.param({"enable_dp_attention": "yes", "dp": "4"}, "0.754", id="4.5 MiB a batch and group"),
    ],
)
def test_the_automatic_fraction_of_a_row_that_drafts_or_attends_in_groups(
    columns: dict[str, str], fraction: str
) -> None:
    card = {"gpu_mem_mib": "97887", "tp": "8", "mf_auto": "1", "graphs": "decode512", "sglang_version": "0.5.9"}
    found = one(**card | columns, mem_fraction_static=fraction)["auto_fraction"]
    assert (found["n"], found["inside_rounding"]) == (1, 1), found


@pytest.mark.parametrize("written", ["inf", "1e400", "nan", "abc", "-", "512+64"])
def test_a_figure_that_is_none_is_named(written: str) -> None:
    good = {"kv_kind": "mha", "head_dim": "128", "kv_layers": "32", "max_total_num_tokens": "1000", "kv_size_gb": "1"}
    assert one(**good, n_kv_heads=written)["unread"] == ["x1"]


@pytest.mark.parametrize("written", ["1000", "~1000", "1,000", "1000?", " 1e3 "])
def test_a_figure_may_be_marked_as_doubtful(written: str) -> None:
    good = {"kv_kind": "mha", "n_kv_heads": "8", "head_dim": "128", "kv_layers": "32", "kv_size_gb": "0.12"}
    assert one(**good, max_total_num_tokens=written)["size"]["inside_rounding"] == 1


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
