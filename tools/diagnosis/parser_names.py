"""Which tool-call and reasoning parser belongs to which family of models.

A word of the model's name is looked for, the longest first; names are those of the registries
(sglang 0.5.9 srt/function_call/function_call_parser.py, srt/parser/reasoning_parser.py). A name gives an
action its value, and no verdict by itself.
"""

from __future__ import annotations

import re

_TOOLS = {
    "qwen3coder": "qwen3_coder",
    "qwen3next": "qwen25",
    "qwen35": "qwen3_coder",
    "qwen36": "qwen3_coder",
    "qwen": "qwen25",
    "kimik2": "kimi_k2",
    "kimi": "kimi_k2",
    "deepseekv32": "deepseekv32",
    "deepseekv31": "deepseekv31",
    "deepseek": "deepseekv3",
    "glm47": "glm47",
    "glm5": "glm47",
    "glm": "glm45",
    "gptoss": "gpt-oss",
    "llama": "llama3",
    "mistral": "mistral",
    "devstral": "mistral",
    "minimax": "minimax-m2",
    "step3": "step3",
    "mimo": "mimo",
    "hermes": "hermes",
}
_REASONING = {
    "qwen3": "qwen3",
    "qwq": "qwen3",
    "kimik2": "kimi_k2",
    "kimi": "kimi_k2",
    "deepseekr1": "deepseek-r1",
    "deepseekv3": "deepseek-v3",
    "deepseekv4": "deepseek-v4",
    "glm": "glm45",
    "gptoss": "gpt-oss",
    "minimax": "minimax",
    "step3": "step3",
}


def parser_for(option: str, model: str) -> str:
    """The parser's name for `--tool-call-parser` or `--reasoning-parser`; empty when the model says nothing."""
    table = _TOOLS if option == "--tool-call-parser" else _REASONING
    word = re.sub(r"[^a-z0-9]", "", model.lower())
    return next((table[key] for key in sorted(table, key=len, reverse=True) if key in word), "")
