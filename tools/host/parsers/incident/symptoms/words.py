"""Words that patterns of more than one theme share."""

# ruff: noqa: E501  (a pattern reads better on one line)
from __future__ import annotations

from typing import Final

CACHE: Final = r"(?:kv|cache|pool|memory|token usage|usage|hbm|vram)"
REQ: Final = r"(?:requests?|prompts?|users?|clients?|agents?|sessions?|streams?|conversations?|chats?|everybody|everyone|others?)"
OOM: Final = r"(?:out of (?:gpu |device )?memory|\boom\b|runs? out of (?:gpu )?memory|ran out of|cuda out of)"
SLOW: Final = r"(?:slow\w*|crawl\w*|drips?|dripping|halved?|worse|degrad\w*|awful|long|longer|climbs?|rises?|rose|grows?|jumps?|explod\w*|minutes|tens of seconds|times)"
TOKENS: Final = r"(?:tok(?:en)?s?(?:/s| per second| a second| rate| speed| latency)|decode|decoding|tpot|itl|inter-token|answers?|streams?|streaming|generation|output speed)"
TTFT: Final = r"(?:ttft|first token|time to first|prefill)"
