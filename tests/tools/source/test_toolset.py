from __future__ import annotations

import asyncio
import json

import pytest

from tests.tools.source.trees import tree
from tools.source import tools_for
from tools.toolbox import Toolbox, ToolRefused


def ask(tool: str, /, **arguments: object) -> str:
    toolbox = Toolbox(tools_for(tree("0.5.9")))
    return asyncio.run(toolbox.call(tool, json.dumps(arguments), lambda _record: None))


def test_each_answer_is_small_and_cites_lines() -> None:
    answers = {
        "search": ask("search", pattern="hicache_ratio"),
        "read": ask("read", path="srt/server_args.py", first=4255, last=4270),
        "rules": ask("rules", name="hicache-ratio"),
        "usage": ask("usage", name="hicache-ratio"),
        "flag": ask("flag", name="--hicache-ratio"),
    }
    for name, text in answers.items():
        assert len(text) < 9_200, name
        assert "srt/server_args.py:42" in text or name == "rules", name
    assert "srt/mem_cache/memory_pool_host.py:168" in answers["rules"]


def test_lines_of_an_answer_can_be_cited() -> None:
    source = tree("0.5.9")
    for row in ask("search", pattern="max_running_requests = 48").splitlines():
        path, line, text = row.split(":", 2)
        assert source.check_citation(path, int(line), text)


def test_a_folder_is_listed() -> None:
    listing = ask("list", path="srt/mem_cache")
    assert "hiradix_cache.py" in listing
    assert "storage/ (29 files)" in listing
    assert ask("list", glob="**/hiradix*.py") == "srt/mem_cache/hiradix_cache.py"


@pytest.mark.parametrize(
    ("name", "arguments", "advice"),
    [
        ("search", {"pattern": "("}, "literal"),
        ("read", {"path": "server_args.py"}, "srt/server_args.py"),
        ("flag", {"name": "--max-runing-requests"}, "--max-running-requests"),
        ("rules", {"name": "--max-runing-requests"}, "--max-running-requests"),
        ("read", {"path": "srt/server_args.py", "first": "x"}, "first"),
    ],
)
def test_a_refusal_says_what_to_do(name: str, arguments: dict[str, object], advice: str) -> None:
    with pytest.raises(ToolRefused) as refused:
        ask(name, **arguments)
    assert advice in str(refused.value)
