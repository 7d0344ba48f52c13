from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tools.source.trees import VERSIONS, tree
from tools.source.errors import UnknownFlag

ACTIONS = {"0.4.6": (124, 128), "0.5.9": (331, 341), "0.5.16": (460, 476), "0.5.23": (531, 559)}
ORACLE = Path(__file__).with_name("true_parser.py")


def real_parser(folder: Path) -> list[dict[str, Any]]:
    """What argparse has once the tree's own code has filled it."""
    done = subprocess.run([sys.executable, str(ORACLE), str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def sorted_if_set(choices: Any, *, ordered: bool) -> Any:
    return choices if ordered or choices is None else sorted(choices, key=str)


@pytest.mark.parametrize("version", VERSIONS)
def test_flags_are_those_of_the_real_parser(version: str) -> None:
    source = tree(version)
    real = real_parser(source.root.parent)
    ours = json.loads(json.dumps([flag.document() for flag in source.catalogue().flags]))
    assert [row["names"] for row in ours] == [row["names"] for row in real]
    for mine, theirs in zip(ours, real, strict=True):
        choices = sorted_if_set(mine["choices"], ordered=theirs["ordered"])
        assert mine["dest"] == theirs["dest"]
        assert (mine["names"], mine["default"]) == (theirs["names"], theirs["default"])
        assert (mine["names"], choices) == (
            theirs["names"],
            sorted_if_set(theirs["choices"], ordered=theirs["ordered"]),
        )
        assert (mine["names"], mine["required"]) == (theirs["names"], theirs["required"])
        assert mine["type"] == "bool" or theirs["nargs"] != 0


@pytest.mark.parametrize("version", VERSIONS)
def test_actions_and_option_strings_are_counted_as_published(version: str) -> None:
    flags = tree(version).catalogue().flags
    assert (len(flags), sum(len(flag.names) for flag in flags)) == ACTIONS[version]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_flag_stands_at_the_line_it_names(version: str) -> None:
    source = tree(version)
    for flag in source.catalogue().flags:
        text = source.read(flag.path, flag.line, flag.line)[0][1]
        assert any(name in text for name in flag.names) or flag.dest in text, flag.at


def test_a_flag_is_found_by_any_of_its_names() -> None:
    catalogue = tree("0.5.9").catalogue()
    flag = catalogue.get("hicache-size")
    assert flag.at == "srt/server_args.py:4266"
    assert catalogue.get("--hicache-size") is catalogue.get("hicache_size") is flag
    wide = catalogue.get("--tp-size")
    assert (wide.dest, catalogue.field(wide)) == ("tensor_parallel_size", "tp_size")
    assert catalogue.get("tp_size") is wide
    with pytest.raises(UnknownFlag) as unknown:
        catalogue.get("--hicache-sise")
    assert "--hicache-size" in str(unknown.value)


def test_a_deprecated_flag_names_what_replaced_it() -> None:
    flag = tree("0.5.23").catalogue().get("--enable-dp-attention")
    assert flag.deprecated is not None
    assert flag.replacement == "--attn-dp-size"
    assert tree("0.5.9").catalogue().get("--enable-dp-attention").deprecated is None


def test_what_the_code_takes_for_an_unset_flag_is_told() -> None:
    flag = tree("0.5.23").catalogue().get("--swa-full-tokens-ratio")
    assert (flag.default, flag.fallback) == (None, 0.8)
