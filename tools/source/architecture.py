"""The architecture of the model that a command serves, as `config.json` names it: many rules hold for a few of them.

Read from the model's `config.json` where one is at hand, else from a path that names the family plainly; what is
distilled into another model, drafts for one or adapts one is not of its family.
"""

from __future__ import annotations

import json
import re
from typing import Final

FAMILIES: Final = (
    (r"gpt-oss-\d+b", "GptOssForCausalLM"),
    (r"deepseek-v3\.2", "DeepseekV32ForCausalLM"),
    (r"deepseek-(?:v3(?:\.1)?|r1)(?![\w.])", "DeepseekV3ForCausalLM"),
    (r"kimi-k2\.5", "KimiK25ForConditionalGeneration"),
    (r"kimi-k2(?![\w.])", "DeepseekV3ForCausalLM"),
    (r"qwen3-next-", "Qwen3NextForCausalLM"),
    (r"qwen3-\d+b-a\d+b", "Qwen3MoeForCausalLM"),
    (r"glm-4\.[56](?!v|[\w.])", "Glm4MoeForCausalLM"),
    (r"llama-4-", "Llama4ForConditionalGeneration"),
    (r"mimo-v2-flash", "MiMoV2FlashForCausalLM"),
)
ANOTHER: Final = re.compile(r"distill|eagle|draft|nextn|mtp|lora|adapter")
PARTS: Final = re.compile(r"/|--")


def named_by_path(path: str) -> str:
    """The architecture of the family that a part of a path begins with; empty where none is named."""
    parts = [part for part in PARTS.split(path.lower()) if part]
    if ANOTHER.search(path.lower()):
        return ""
    return next((name for part in parts for begins, name in FAMILIES if re.match(begins, part)), "")


def named_in_text(config: str) -> str:
    """The architecture that the text of a `config.json` names; empty where it names none."""
    try:
        return named_by_config(json.loads(config))
    except (ValueError, RecursionError):
        return ""


def named_by_config(config: object) -> str:
    """The architecture that a `config.json`, read, names; empty where it names none."""
    names = config.get("architectures") if isinstance(config, dict) else None
    return names[0] if isinstance(names, list) and names and isinstance(names[0], str) else ""
