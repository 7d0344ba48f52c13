"""The published list of searches that the front must answer exactly as ripgrep does.

Each: the front's pattern and options, and ripgrep's arguments for the same question.
"""

from __future__ import annotations

from typing import Any

QUERIES: tuple[tuple[str, dict[str, Any], tuple[str, ...]], ...] = (
    ("hicache_ratio", {}, ()),
    ("mem_fraction_static", {"literal": True}, ("-F",)),
    ("self.token_to_kv_pool[", {"literal": True}, ("-F",)),
    (r"def (get|set)_\w+_backend\(", {}, ()),
    (r"raise \w+Error\($", {"kind": "py"}, ("-t", "py")),
    ("RADIXCACHE", {"ignore_case": True}, ("-i",)),
    ("Not enough memory", {"context": 2}, ("-C2",)),
    (r"class \w+\(.*Cache.*\):", {"globs": ["**/mem_cache/*.py"]}, ("-g", "**/mem_cache/*.py")),
    ("max_running_requests", {"globs": ["srt/managers/**"]}, ("-g", "srt/managers/**")),
    ("max_running_requests", {"path": "srt/managers"}, ("srt/managers",)),
    ("max_running_requests", {"path": "srt/server_args.py"}, ("srt/server_args.py",)),
    ("import torch", {"globs": ["!srt/models/**"]}, ("-g", "!srt/models/**")),
    (
        "import torch",
        {"globs": ["*.py", "!test_*.py", "!*_utils.py"]},
        ("-g", "*.py", "-g", "!test_*.py", "-g", "!*_utils.py"),
    ),
    ("BLOCK_SIZE", {"kind": "json", "ignore_case": True}, ("-t", "json", "-i")),
    ("include", {"kind": "cpp"}, ("-t", "cpp")),
    ("__global__", {"kind": "cuda"}, ("-t", "cuda")),
    ("python", {"globs": ["*.{md,txt,toml}"]}, ("-g", "*.{md,txt,toml}")),
    ("layer", {"globs": ["scheduler.py", "[st]*_worker.py"]}, ("-g", "scheduler.py", "-g", "[st]*_worker.py")),
    (r"\bassert\b", {}, ()),
    (r"(?i)hierarchical[ _-]cache", {}, ()),
    ("naïve|—", {}, ()),
    (r"^\s+# TODO\(\w+\)", {}, ()),
    ("zzz_nothing_is_called_this", {}, ()),
    ("#", {"kind": "h"}, ("-t", "h")),
    ("x", {"kind": "config"}, ("-t", "config")),
    ("import", {"globs": ["*.py", "!*.py", "scheduler.py"]}, ("-g", "*.py", "-g", "!*.py", "-g", "scheduler.py")),
    ("import", {"globs": ["**/{__init__,utils}.py"]}, ("-g", "**/{__init__,utils}.py")),
    ("import", {"globs": ["[!a-m]*.py"]}, ("-g", "[!a-m]*.py")),
    ("import", {"globs": ["?????.py"]}, ("-g", "?????.py")),
    ("x", {"globs": ["srt/layers/moe/"]}, ("-g", "srt/layers/moe/")),
    (r"\bmem_fraction_static\b", {"globs": ["/srt/*.py"]}, ("-g", "/srt/*.py")),
    ("logger.warning(", {"literal": True, "context": 3}, ("-F", "-C3")),
    ("--tp", {"literal": True}, ("-F",)),
    (r"\p{Han}+", {"kind": "py"}, ("-t", "py")),
    (r"(?x) cuda \s* graph", {}, ()),
    ("^$", {"path": "srt/managers/scheduler.py"}, ("srt/managers/scheduler.py",)),
    (" $", {}, ()),
)

MULTILINE: tuple[tuple[str, dict[str, Any], tuple[str, ...]], ...] = (
    (r"def __init__\(\n\s+self,\n\s+server_args", {}, ()),
    (r"raise ValueError\(\n\s+f?\"", {"kind": "py"}, ("-t", "py")),
    (r"logger\.warning\(\n\s+\"[A-Z]\w+ [^\n]*hierarchical", {}, ()),
    (r"@dataclass\nclass \w+", {"path": "srt/managers"}, ("srt/managers",)),
    ("import torch\nimport triton\n", {"literal": True}, ("-F",)),
    (r"if self\.\w+:\n\s+raise", {}, ()),
    (r"(?s)class \w+Pool.{0,200}def __init__", {"path": "srt/mem_cache"}, ("srt/mem_cache",)),
    (r"return\s+None\s+def", {"context": 1}, ("-C1",)),
    (r"^$\n^$", {"path": "srt/managers"}, ("srt/managers",)),
    (r"\A#", {}, ()),
    (r"raise valueerror\(\n\s+f?\"unsupported", {"ignore_case": True}, ("-i",)),
    (r"torch\n\nimport TRITON", {"ignore_case": True, "globs": ["*_kernels.py"]}, ("-i", "-g", "*_kernels.py")),
)
