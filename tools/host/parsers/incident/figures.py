"""Figures in sentences: usage in per cent, slots, fractions that were tried, sizes, counts."""

# ruff: noqa: E501  (a pattern reads better on one line)
from __future__ import annotations

import re
from typing import Final

from tools.host.parsers.page import Page
from transcripts.facts import Grade

_PERCENT_POOL: Final = re.compile(
    r"(?:kv|cache|pool|token usage|(?<!gpu )(?<!gpu-)(?<!cpu )utili[sz]ation)\b[^.;\n]{0,30}?(\d{1,3}(?:\.\d+)?) ?(?:%|percent)(?! ?(?:slower|faster|less|more|smaller|larger|fewer|higher|lower))|(\d{1,3}(?:\.\d+)?) ?% (?:of (?:the )?)?(?:kv|cache|pool)",
    re.I,
)
_USAGE: Final = re.compile(
    r"(?<!swa )(?<!mamba )(?<!full )(?:token|kv)[ _]usage[:= ]+(?:is |at |of |about |around |stays? (?:at )?)?(0?\.\d+|1\.0+|0\.0+)",
    re.I,
)
_SUB_USAGE: Final = re.compile(
    r"\b(swa|mamba|full)(?: token)?[ _]usage[:= ]+(?:at |of |about )?(0?\.\d+|1\.0+|0\.0+)", re.I
)
_PATH_ROW: Final = re.compile(r"\d% +/\S")  # a row of df: its percentage is a disk's
_LIMIT: Final = re.compile(r"max_running_requests ?= ?(\d+)")
_STATE: Final = re.compile(r"max_mamba_cache_size[ =:]+(\d+)|(\d+) (?:state|mamba) slots", re.I)
_SLOTS: Final = re.compile(r"(?:across|of|holds?|with|has) (\d+) (?:state )?slots|(\d+) slots\b", re.I)
_DIVIDED: Final = re.compile(r"(\d+) slots? ?/ ?(\d+)", re.I)
_POOL: Final = re.compile(r"(?:kv )?pool (?:of |is |has |holds |about |~)*(\d[\d,.]*) ?([kKmM])? tokens", re.I)
_SLOTS_USED: Final = re.compile(
    r"(?:peak|max\w*|most)[\w ]{0,20}slots (?:used|in use|busy)[^\d\n]{0,20}(\d+)|slots (?:used|in use|busy)[^\d\n]{0,20}(\d+)",
    re.I,
)
_STATE_CAP: Final = re.compile(r"capped to (\d+) by the mamba state cache.*?(\d+) state slots per request", re.I)
_POOLS: Final = re.compile(r"full_layer_tokens=(\d+), swa_layer_tokens=(\d+)")
_SWA: Final = re.compile(r"swa pool[^.;\n]{0,20}?(\d[\d,]*) tokens", re.I)
_PINNED_TOTAL: Final = re.compile(
    r"(\d+(?:\.\d+)?) ?(TB|TiB|GB|GiB)(?: of)? (?:host |system |node |total )?(?:ram|dram|host memory|memory on the host|node)\b|(?:host|node|ram|memtotal)[^.;\n]{0,20}?(\d+(?:\.\d+)?) ?(TB|TiB|GB|GiB)",
    re.I,
)
_POOL_WORDS: Final = re.compile(r"allocating|request|pools?\b|asked|pinned|arena", re.I)
_HOST_EACH: Final = re.compile(
    r"allocating (?:\S+ hierarchical kv host pool: \d+ tokens, )?(\d+(?:\.\d+)?) GB host memory", re.I
)
_TRIED: Final = re.compile(
    r"(?:--mem-fraction-static|mem[-_]fraction(?:[-_]static)?|fraction)?[ =\[]*(0\.\d{1,4})(?![\d.])", re.I
)
_TOO_LOW: Final = re.compile(r"not enough memory|increase --mem|pools? (?:are )?empty|no room|leave no", re.I)
_TOO_HIGH: Final = re.compile(r"out of memory|\boom\b|crash|dies|died|cudaerror", re.I)
_WORKS: Final = re.compile(r"\bserver up\b|\bstable\b|\bworks?\b|\bstarts? fine|\bruns? fine|\bpasses\b", re.I)
_FREE_OF: Final = re.compile(r"weights?(?: take| are| of| is)? ~?(\d+(?:\.\d+)?) ?(?:GB|GiB)", re.I)
_FREE_AFTER: Final = re.compile(r"free after load(?:ing)? (\d+(?:\.\d+)?) ?G", re.I)
_TOTAL: Final = re.compile(r"free after load\S* \d+(?:\.\d+)? ?G\S* of (\d+(?:\.\d+)?) ?G", re.I)
_RUNNING: Final = re.compile(r"#running-req:? ?(\d+).{0,40}?(?:p95 (\d+))?(?:, max (\d+))?\)", re.I)
_BATCHES: Final = re.compile(r"(\d[\d,]*) prefill batches.{0,20}?(\d[\d,]*)(?:-\d+)? decode batch", re.I)
# How an operator tells of the load: `48 running, 20 in the queue`. Counted only where the sentence speaks of a queue.
_RUN: Final = re.compile(
    r"(?<![\w.,/-])(\d{1,5}) (?:requests? |users? |streams? |of (?:them|\d+) )?(?:are |is |were )?(?:currently |now |actually )?(?:running|run|active|in flight)\b(?! (?:on|servers?|gpus?|instances?|nodes?|hours?|days?|tok|containers?|replicas?|sglang))|(?<![\w-])(?:running(?: requests?)?|it runs)(?: is|:| =|=)? (\d{1,5})\b(?! ?(?:gpus?|servers?|instances?|nodes?|hours?|days?|x\b|tok|replicas?))",
    re.I,
)
_WAIT: Final = re.compile(
    r"(?<![\w.,/-])(\d{1,6}) (?:more |other |others? |requests? |users? )*(?:are |is |were )?(?:waiting|wait|queued|queue(?:ing)?|pending|in (?:the |a )?queue)\b(?! (?:sec|min|ms|s\b))|\bqueue(?:d)?(?: length)?(?: of| is(?: at)?| at|:| =|=)? (\d{1,6})\b(?! ?(?:s\b|sec|min|ms))",
    re.I,
)
_QUEUE_NAMED: Final = re.compile(r"\b(?:queue[ds]?|queueing|wait(?:s|ing)?|pending|in line)\b", re.I)
_UNITS: Final = {"tb": 1e12, "tib": float(1 << 40), "gb": 1e9, "gib": float(1 << 30)}


def _number(text: str) -> float:
    return float(text.replace(",", ""))


_CHECKPOINT: Final = re.compile(
    r"(\d+(?:\.\d+)?) ?(GB|GiB|G) (?:of )?(?:checkpoint|weights on disk|safetensors)|checkpoint (?:is |of |has |= ?|: ?)?(\d+(?:\.\d+)?) ?(GB|GiB|G)\b",
    re.I,
)
_DRAFT_FILE: Final = re.compile(
    r"(?:draft|head|mtp|eagle)[^\n]{0,60}?(?:its|the) (?:file|checkpoint|safetensors) (?:is|has|=|:)? ?(\d+(?:\.\d+)?) ?(GB|GiB|MB|MiB)\b"
    r"|(?:draft|head|mtp|eagle)[\w ]{0,12} (?:file|checkpoint|safetensors)[^.\d\n]{0,16}(\d+(?:\.\d+)?) ?(GB|GiB|MB|MiB)\b",
    re.I,
)


def read(page: Page, line: str, number: int, grade: Grade) -> None:
    """Figures of one line of prose or log."""
    _usage(page, line, number, grade)
    _limits(page, line, number, grade)
    _fractions(page, line, number, grade)
    if found := _FREE_OF.search(line):
        page.add("weights_gib", float(found.group(1)), number, grade=grade)
    if found := _CHECKPOINT.search(line):
        page.add("checkpoint_gib", float(found.group(1) or found.group(3)), number, grade=grade)
    if found := _DRAFT_FILE.search(line):
        amount, unit = (found.group(1), found.group(2)) if found.group(1) else (found.group(3), found.group(4))
        page.add("draft_file_gib", float(amount) / (1 if unit.lower().startswith("g") else 1024), number, grade=grade)
    if found := _FREE_AFTER.search(line):
        page.add("weights_after_gib", float(found.group(1)), number, grade=grade)
    if found := _TOTAL.search(line):
        page.add("gpu_total_gib", float(found.group(1)), number, grade=grade)
    if found := _HOST_EACH.search(line):
        page.add("host_pool_gb", float(found.group(1)), number, grade=grade)
    if (found := _PINNED_TOTAL.search(line)) and not _POOL_WORDS.search(line):
        amount, unit = (found.group(1), found.group(2)) if found.group(1) else (found.group(3), found.group(4))
        page.add("mem_total_bytes", int(float(amount) * _UNITS[unit.lower()]), number, grade=grade)


def _usage(page: Page, line: str, number: int, grade: Grade) -> None:
    if _PATH_ROW.search(line):
        return
    for pair in _SUB_USAGE.finditer(line):
        scope = {"swa": "swa", "mamba": "state", "full": "full"}[pair.group(1).lower()]
        page.add("usage_max", float(pair.group(2)), number, scope=scope, grade=grade)
        page.add("usage_p95", float(pair.group(2)), number, scope=scope, grade=grade)
    if found := _USAGE.search(line):
        page.add("usage_p95", float(found.group(1)), number, grade=grade)
        page.add("usage_max", float(found.group(1)), number, grade=grade)
    elif found := _PERCENT_POOL.search(line):
        share = float(found.group(1) or found.group(2)) / 100
        if share <= 1:
            page.add("usage_p95", share, number, grade=grade)
            page.add("usage_max", share, number, grade=grade)
    if found := _RUNNING.search(line):
        page.add("running_p50", int(found.group(1)), number, grade=grade)
        page.add("running_p95", int(found.group(2) or found.group(1)), number, grade=grade)
        page.add("running_max", int(found.group(3) or found.group(2) or found.group(1)), number, grade=grade)
    if grade == "claimed" and "#" not in line and _QUEUE_NAMED.search(line):
        for pattern, name in ((_RUN, "running"), (_WAIT, "queue")):
            if found := pattern.search(line):
                for of in ("p95", "max"):
                    page.add(f"{name}_{of}", int(found.group(1) or found.group(2)), number, grade=grade)
    if (found := _BATCHES.search(line)) and _number(found.group(1)) >= 8 * _number(found.group(2)):
        page.add("symptom", True, number, scope="prefill_outnumbers_decode", grade=grade)


_EVICTION: Final = re.compile(
    r"eviction_duration_seconds\b(?:.{0,30}[ =:])(\d+(?:\.\d+)?)\s*$|eviction (?:takes|took)\D{0,20}(\d+(?:\.\d+)?) ?s\b",
    re.I,
)


def _limits(page: Page, line: str, number: int, grade: Grade) -> None:
    if found := _LIMIT.search(line):
        page.add("running_limit", int(found.group(1)), number, grade=grade)
    if (found := _STATE.search(line)) or (
        (found := _SLOTS.search(line)) and re.search(r"mamba|state|ssm|recurrent", line, re.I)
    ):
        page.add("state_slots", int(found.group(1) or found.group(2)), number, grade=grade)
    if found := _DIVIDED.search(line):
        page.add("state_slots", int(found.group(1)), number, grade=grade)
        page.add("state_cap", int(found.group(1)) // max(1, int(found.group(2))), number, grade=grade)
        page.add("state_cap", int(found.group(2)), number, scope="slots_per_request", grade=grade)
    if (found := _POOL.search(line)) and not _SWA.search(line):
        amount = _number(found.group(1)) * {"k": 1000, "m": 1_000_000}.get((found.group(2) or "").lower(), 1)
        page.add("kv_pool", int(amount), number, grade=grade)
    if found := _SLOTS_USED.search(line):
        page.add("state_slots_used", int(found.group(1) or found.group(2)), number, grade=grade)
    if found := _EVICTION.search(line):
        page.add(
            "metric", float(found.group(1) or found.group(2)), number, scope="eviction_duration_seconds", grade=grade
        )
    if found := _STATE_CAP.search(line):
        page.add("state_cap", int(found.group(1)), number, grade=grade)
        page.add("state_cap", int(found.group(2)), number, scope="slots_per_request", grade=grade)
    if found := _POOLS.search(line):
        page.add("kv_pool", int(found.group(1)), number, scope="full", grade=grade)
        page.add("kv_pool", int(found.group(2)), number, scope="swa", grade=grade)
    if found := _SWA.search(line):
        page.add("kv_pool", int(_number(found.group(1))), number, scope="swa", grade=grade)


def _fractions(page: Page, line: str, number: int, grade: Grade) -> None:
    """Fractions of the static part that were tried, by what the same clause says became of them."""
    for clause in re.split(r"[;\n]|, (?=0\.\d|--mem)", line):
        if not re.search(r"mem[-_]frac|fraction|^\s*\[?0\.\d\d|\[0\.\d+\]", clause, re.I):
            continue
        outcome = "too_low" if _TOO_LOW.search(clause) else "too_high" if _TOO_HIGH.search(clause) else ""
        if not outcome and _WORKS.search(clause):
            outcome = "works"
        if outcome:
            for found in _TRIED.finditer(clause):
                if 0.3 <= float(found.group(1)) < 1:
                    page.add("fraction_tried", float(found.group(1)), number, scope=outcome, grade=grade)
