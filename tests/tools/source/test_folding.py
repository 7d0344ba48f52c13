"""Values are worked out as Python would, and a tree that means harm makes none of them large."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.source.annotated import record_fields
from tools.source.folding import Folder
from tools.source.modules import Modules
from tools.source.operations import Unfoldable

MEMORY_BYTES = 1 << 30


def folded(folder: Path, text: str, *names: str) -> Any:
    """What the last of these names of a module stands for (`A`), once the others were asked for."""
    (folder / "srt").mkdir(exist_ok=True)
    (folder / "srt" / "a.py").write_text(text)
    modules = Modules(folder)
    module = modules.by_path("srt/a.py")
    assert module is not None
    folder_of_values = Folder(modules, record_fields)
    for name in names:
        with pytest.raises(Unfoldable):
            folder_of_values.module_name(module, name)
    return folder_of_values.module_name(module, "A")


@pytest.mark.parametrize(
    "text",
    [
        "A = '{}-{}'.format(1, 'x')",
        "A = '{1}{0!r:>4}'.format('x', 2)",
        "A = f'{3:>4}|{0.5:.2f}|{\"x\"!r}'",
        "A = ', '.join(f'{each}' for each in ('a', 'b'))",
        "A = 'aXb'.replace('X', '--')",
        "A = 'a b c'.split(' ', 1)",
        "def f():\n    x = [1]\n    x.append(2)\n    x += [3]\n    return x\nA = f()",
        "from enum import Enum\nclass E(Enum):\n    X = 'x'\nA = [each.value for each in E]",
        "A = 2**63 - 1",
    ],
)
def test_a_value_is_what_python_makes_of_it(text: str, tmp_path: Path) -> None:
    true: dict[str, Any] = {}
    exec(text, true)
    assert folded(tmp_path, text) == true["A"]


DOUBLED = "\n".join("    x = {}" for _ in range(40))
BOMBS = (
    "A = '{:900000000}'.format(1)",
    "A = f'{1:900000000}'",
    "A = f'{1:{900000000}}'",
    "A = '{:{}}'.format(1, 900000000)",
    "A = '{0}' * 9",
    "A = 9**63**2",
    "A = (((2**63)**63)**63)**63",
    "A = 1 << 63 << 63",
    "A = 'a'" + f".replace('a', '{'a' * 200}')" * 5,
    f"B = '{'a' * 90_000}'\nA = B.join(['x' for _ in B])",
    f"B = '{'a' * 90_000}'\nA = '{'{0}' * 30_000}'.format(B)",
    f"B = '{'a' * 900}'\nA = [[[0 for x in B] for y in B] for z in B]",
    f"def f(x):\n{DOUBLED.format(*['x + x'] * 40)}\n    return x\nA = f('ab')",
    f"def f(x):\n{DOUBLED.format(*['[x, x]'] * 40)}\n    return x\nA = f('ab')",
    f"def f(x):\n{DOUBLED.format(*['(x,)'] * 40)}\n    return x\nA = f('ab')",
    "def f(x):\n" + "    x += x\n" * 40 + "    return x\nA = f([1])",
    "def f(x):\n    x.append(x)\n" + "    x.extend(x)\n" * 40 + "    return x\nA = f([1])",
    "def f(x):\n    return f(x) + f(x)\nA = f(1)",
    f"A = {{{', '.join(str(number * (2**61 - 1)) for number in range(1, 3000))}}}",
    "class B(B):\n    pass\nA = B.missing",
    "A = " + "1 + " * 900 + "1",
    "A = " + "-" * 900 + "1",
    "A = " + "[" * 190 + "]" * 190,
    "from sglang.srt.a import A",
    "from sglang.srt.a import *\nfrom sglang.srt.a import *\nA = B",
    "A = f'{print}'",
)
FOLD = """
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
from tests.tools.source.test_folding import BOMBS, folded
from tools.source.operations import Unfoldable
for text in BOMBS:
    try:
        print(text[:60], "is worked out as", repr(folded(Path(sys.argv[1]), text))[:60])
    except Unfoldable:
        continue
"""


def test_what_would_take_all_memory_is_not_known_statically(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FOLD, str(tmp_path), str(MEMORY_BYTES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("", "")


def test_one_greedy_expression_takes_nothing_from_the_next(tmp_path: Path) -> None:
    greedy = f"'{'a' * 3000}'"
    text = f"B = [x for x in {greedy} if [y for y in {greedy}]]\nA = len([1, 2])"
    assert folded(tmp_path, text, "B") == 2
