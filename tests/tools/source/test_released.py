from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tools.source.trees import VERSIONS, tree
from tools.source.check import check
from tools.source.launch import parse_launch
from tools.source.released import catalogue_of, every, listing, since, versions


@pytest.mark.parametrize("version", VERSIONS)
def test_the_catalogue_that_ships_is_that_of_the_tree(version: str) -> None:
    shipped = catalogue_of(version)
    assert shipped is not None
    assert shipped.flags == tuple(replace(flag, help="") for flag in tree(version).catalogue().flags)
    assert version in versions()


def test_a_command_is_checked_without_a_tree() -> None:
    catalogue = catalogue_of("0.5.9")
    assert catalogue is not None
    (problem,) = check(parse_launch("sglang serve --model-path m --max-num-seqs 4", catalogue), catalogue, ())
    assert problem.instead == "--max-running-requests"


def test_a_version_that_does_not_ship_is_none() -> None:
    assert catalogue_of("9.9.9") is None


def test_an_option_is_told_in_the_releases_that_list_it_and_no_other() -> None:
    shipped = [one.version for one in every()]
    for option in ("--cuda-graph-max-bs", "--cuda-graph-max-bs-decode", "--tp-size", "--enable-hicache"):
        has = [one.version for one in every() if (flag := one.find(option)) and option in flag.names]
        ends = [part for stretch in listing(option).split(", ") for part in stretch.split(" to ")]
        assert (ends[0], ends[-1]) == (has[0], has[-1])
    assert listing("--tp-size") == f"{shipped[0]} to {shipped[-1]}"
    assert not listing("--cuda-graph-max-bs").endswith("0.5.23")
    assert listing("--no-such-option") == ""


def test_how_long_an_option_has_been_listed_up_to_a_version() -> None:
    assert since("--hicache-ratio", "0.5.9")[0] == versions()[0]
    assert since("--hicache-ratio", "0.4.6") == (versions()[0], 1)
    newest = since("--prefill-decode-interval", versions()[-1])
    assert newest[0] != versions()[0]
    assert since("--prefill-decode-interval", "0.5.9") == ("", 0), "it came later"
    assert since("--enable-nothing", "0.5.9") == ("", 0)
