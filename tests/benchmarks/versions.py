"""Flags and rules against the code of any versions: `python tests/benchmarks/versions.py 0.4.9 0.5.12 …`, by hand.

A line a version: actions and option strings of the catalogue and of the real parser, what they differ in, rules about
`--hicache-ratio` and how many of them do not quote the line they name. Versions are fetched into the cache once.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.tools.source.test_catalogue import real_parser, sorted_if_set
from tests.tools.source.trees import tree

COLUMNS = ("names", "dest", "default", "required")


def differences(mine: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """The columns in which a flag is not the parser's action."""
    found = [column for column in COLUMNS if mine[column] != theirs[column]]
    choices = [sorted_if_set(each["choices"], ordered=theirs["ordered"]) for each in (mine, theirs)]
    return [*found, "choices"] if choices[0] != choices[1] else found


def main() -> None:
    for version in sys.argv[1:]:
        source = tree(version)
        real = real_parser(source.root.parent)
        ours = json.loads(json.dumps([flag.document() for flag in source.catalogue().flags]))
        counts = [(len(rows), sum(len(row["names"]) for row in rows)) for rows in (ours, real)]
        pairs = zip(ours, real, strict=False)
        wrong = [f"{row['names'][0]}: {found}" for row, each in pairs if (found := differences(row, each))]
        rules = source.rules("hicache-ratio") if source.catalogue().find("hicache-ratio") else ()
        misquoted = [rule.at for rule in rules if not source.check_citation(rule.path, rule.line, rule.quote)]
        agree = "agree" if counts[0] == counts[1] and not wrong else f"DIFFER {wrong[:5]}"
        print(f"{version:12} {counts[0]} {counts[1]} {agree}; {len(rules)} rules, {len(misquoted)} misquoted")


if __name__ == "__main__":
    main()
