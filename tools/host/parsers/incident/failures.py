"""Failed allocations with their figures and the phase they failed in; refused flags; refused inputs."""

# ruff: noqa: E501  (a pattern reads better on one line)
from __future__ import annotations

import re
from typing import Final

from tools.host.parsers.incident.containers import without_container_images
from tools.host.parsers.incident.denials import happened
from tools.host.parsers.incident.messages import is_settings
from tools.host.parsers.page import Page
from transcripts.facts import Grade

_GIB: Final = {
    "kib": 1 / (1 << 20),
    "mib": 1 / 1024,
    "gib": 1.0,
    "mb": 1 / 1024,
    "gb": 1.0,
    "kb": 1 / (1 << 20),
    "bytes": 1 / (1 << 30),
    "tib": 1024.0,
}
_SIZE = r"(\d+(?:\.\d+)?) ?([KMGT]i?B|bytes)"
_TRIED: Final = re.compile(rf"tried to allocate {_SIZE}|{_SIZE} (?:allocation|request)\b", re.I)
_FREE: Final = re.compile(rf"of which {_SIZE} is free|{_SIZE} free\b", re.I)
_TOTAL: Final = re.compile(rf"total capacity of {_SIZE}", re.I)
_RESERVED: Final = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated", re.I)
_ALLOCATED: Final = re.compile(
    rf"memory {_SIZE} is allocated by PyTorch|{_SIZE} is allocated by PyTorch|{_SIZE} resident", re.I
)
_VIABLE: Final = re.compile(r"minimum viable = (?:1 - available/pre = )?(0?\.\d+)|mem-fraction-static above (0?\.\d+)")
_UNRECOGNIZED: Final = re.compile(
    r"unrecognized arguments?: (.*)|no such option:? (--[\w-]+)|unknown (?:argument|option|flag):? ['\"]?(--?[\w-]+)",
    re.I,
)
_CHOICE: Final = re.compile(r"argument (--[\w-]+)(?:/\S+)?: invalid choice: ['\"]?([^'\" ]+)", re.I)
_CHOICES: Final = re.compile(r"choose from:? (.*)", re.I)
_MISSING: Final = re.compile(r"argument (--[\w-]+)(?:/\S+)?: expected", re.I)
_AMBIGUOUS: Final = re.compile(r"ambiguous option: (--[\w-]+)(?:=\S+)? could match (--.*)", re.I)
_DEPRECATED: Final = re.compile(r"['\"`]?(--[\w-]+)['\"`]?.{0,30}(?:deprecated|renamed|has been removed)", re.I)
_INPUT: Final = re.compile(r"length \((\d+) tokens\) exceeds the maximum allowed length \((\d+) tokens\)", re.I)
# managers/tokenizer_manager.py: the limit is the model's length as configured, whatever the pool holds
_OVER_CONTEXT: Final = re.compile(
    r"input \((\d+) tokens\) is longer than the model's context length \((\d+) tokens\)", re.I
)
# the same with the tokens of the answer counted in
_ASKED_IN_ALL: Final = re.compile(
    r"maximum context length of (\d+) tokens\. you requested a total of (\d+) tokens", re.I
)
_WANTED: Final = re.compile(r"try to allocate (\d+) tokens", re.I)
_AVAILABLE: Final = re.compile(r"ava[il]+able tokens: (\d+)|available_size\(?\)?=(\d+)", re.I)
_HOST: Final = re.compile(r"requesting (\d+(?:\.\d+)?) GB but only have (\d+(?:\.\d+)?) GB", re.I)
_PIN: Final = re.compile(r"hostregister failed.*size=(\d+)", re.I)
_DENIED: Final = re.compile(r"(?:permission denied|read-only file system|not writable)[^/]*([/~][\w./~-]+)", re.I)
_HOLDS: Final = re.compile(r"KV pool holds (\d+) tokens, fewer than --context-length (\d+)", re.I)
_WORKSPACE: Final = re.compile(r"with size (\d+) and alignment", re.I)
_TOKENS: Final = (
    (_INPUT, ("rejected_input_tokens", "input_limit_tokens")),
    (_OVER_CONTEXT, ("rejected_input_tokens", "context_len")),
    (_ASKED_IN_ALL, ("context_len", "rejected_input_tokens")),
    (_HOLDS, ("kv_pool", "context_len")),
)
# A line without any of these is read by none of the patterns above.
_TRIGGER: Final = re.compile(
    r"allocat|[KMGT]i?B request|bytes request|total capacity|reserved by|viable|static above|exceeds the maximum|longer than the model|maximum context|requesting"
    r"|hostregister|denied|read-only|writable|alignment|unrecognized|no such option|unknown (?:argument|option|flag)"
    r"|argument --|pool holds|ambiguous option|deprecated|renamed|has been removed",
    re.I,
)

# Frames and words of a traceback, most telling first. Frames are SGLang's own (srt/...) unless they are torch's.
_PHASES: Final[tuple[tuple[str, str], ...]] = (
    ("warmup", r"_execute_server_warmup|_wait_and_warmup"),  # the whole stack is the self-test
    (
        "load",
        r"create_weights|load_model\b.*|loading (?:the )?(?:model|weights|checkpoint)|while loading|during (?:model |weight )?load(?!ed)|weight_loader|load_weights|get_model\(|initialize_model|process_weights_after_loading|before .{0,12}load weight end",
    ),
    (
        "draft",
        r"draft (?:model |worker |weights? )?(?:(?:is|was|gets) (?:being )?)?(?:load|init)|load\w* (?:the )?draft|eagle_worker.*__init__|draft (?:kv )?pool",
    ),
    (
        "graph_capture",
        r"capture (?:\w+ )*(?:cuda |hip )?graph|graph captur|capture_one_batch_size|capturing|cuda_graph_runner\S*.*(?:capture|__init__)|during capture",
    ),
    ("decode", r"\bin forward_decode\b"),  # the logits of a decode step are a batch of rows, no whole prompt's
    ("logits", r"logprob|logits_processor|compute_.*logprobs|lm_head|log_softmax|_get_logits"),
    (
        "multimodal",
        r"image[_ ]?process|pixtral|vision|visual|\bvit\b|get_image_feature|embed_mm|mm_utils|general_mm_embed|image request|\bimages?\b|\bpictures?\b|siglip|pixel_values|preprocess",
    ),
    ("warmup", r"warm-?up|self-?test|_execute_server_warmup"),
    (
        "decode",
        r"forward_decode|decode oom|decode (?:dies|fails)|oom (?:in|at|during|while) decod\w*|decode_out_of|retract|verify|in decode|during decod\w+|decode (?:step|batch)|spec.*verify",
    ),
    (
        "prefill",
        r"forward_extend|models/\w+\.py.{0,40}in forward|forward_absorb|forward_normal|prefill|indexer|mqa_logits|extend_batch|fused_moe workspace|fused_moe|chunk",
    ),
    (
        "pools",
        r"init_memory_pool|memory[_ ]pool|before the server is up|kv cache allocat|init_cuda_graphs|alloc.*kv (?:cache|pool)|req_to_token|before ready",
    ),
)
_PATTERNS: Final = tuple((name, re.compile(pattern, re.I)) for name, pattern in _PHASES)
_OOM: Final = re.compile(
    r"(?:cuda|hip) out of memory|OutOfMemoryError|\bOOMs?\b(?![- ]?kill)|runs? out of (?:gpu )?memory|(?:prefill|request|warmup)\S* dies",
    re.I,
)
_HOST_OOM: Final = re.compile(
    r"oom.?kill|killed process|out of memory: kill|host\b|\brss\b|resident|node\b.*(?:ram|memory)|\bram\b|cgroup|oomkilled|system ?oom|victim process|global_oom|^\s*oom(?:_kill|_group_kill)?[ :=]+\d+\s*$",
    re.I,
)
# What the server prints as it starts, in its order; the last one before a failure tells what it was doing.
_STAGES: Final = (
    ("weights", re.compile(r"load weight begin", re.I)),
    ("weights_end", re.compile(r"load weight end", re.I)),
    ("pools_end", re.compile(r"kv cache is allocated|memory pool end", re.I)),
    ("capture", re.compile(r"capture (?:\w+ )*(?:cuda |hip )?graph begin|capturing batches", re.I)),
    ("capture_end", re.compile(r"capture (?:\w+ )*(?:cuda |hip )?graph end", re.I)),
    ("ready", re.compile(r"max_total_num_tokens=|fired up", re.I)),  # printed once the draft is there as well
)
_TELLS_STAGE: Final = re.compile(r"oad weight|aptur|KV Cache is|emory pool end|max_total_num_tokens=|fired up")
_DRAFT_CLASS: Final = re.compile(r"type=\w*(?:eagle|mtp|nextn|draft|dflash|dspark)", re.I)
_BATCH: Final = re.compile(r"\b(Prefill|Decode) batch\b.*#")
_REACH = 40  # lines of a traceback that are looked at around the failed allocation


def _gib(amount: str, unit: str) -> float:
    return round(float(amount) * _GIB[unit.lower()], 6)


def _pair(found: re.Match[str]) -> tuple[str, str]:
    groups = [group for group in found.groups() if group is not None]
    return groups[0], groups[1]


def read(page: Page, line: str, number: int, grade: Grade) -> None:
    """Figures of one line."""
    if not _TRIGGER.search(line):
        return
    sizes = (("oom_request_gib", _TRIED), ("oom_reserved_gib", _RESERVED), ("gpu_total_gib", _TOTAL))
    for name, pattern in sizes:
        if found := pattern.search(line):
            page.add(name, _gib(*_pair(found)), number, grade=grade)
    if _TRIED.search(line) and (found := _FREE.search(line)):
        page.add("oom_free_gib", _gib(*_pair(found)), number, grade=grade)
    _share(page, line, number, grade)
    if found := _VIABLE.search(line):
        page.add("minimum_fraction", float(found.group(1) or found.group(2)), number, grade=grade)
    _refused(page, line, number, grade)
    if found := _HOST.search(line):
        page.add("host_requested_gb", float(found.group(1)), number, grade=grade)
        page.add("host_offered_gb", float(found.group(2)), number, grade=grade)
    if found := _PIN.search(line):
        page.add("pin_bytes", int(found.group(1)), number, grade=grade)
    if found := _DENIED.search(line):
        page.add("denied_path", found.group(1), number, grade=grade)
    if found := _WORKSPACE.search(line):
        page.add("workspace_wanted_bytes", int(found.group(1)), number, grade=grade)
    _flags(page, line, number, grade)


def _refused(page: Page, line: str, number: int, grade: Grade) -> None:
    for pattern, names in _TOKENS:
        if found := pattern.search(line):
            for name, tokens in zip(names, found.groups(), strict=True):
                page.add(name, int(tokens), number, grade=grade)


def _share(page: Page, line: str, number: int, grade: Grade) -> None:
    total, allocated = _TOTAL.search(line), _ALLOCATED.search(line)
    if total and allocated:
        share = _gib(*_pair(allocated)) / max(_gib(*_pair(total)), 0.001)
        page.add("oom_allocated_share", round(share, 3), number, grade=grade)


def _flags(page: Page, line: str, number: int, grade: Grade) -> None:
    if found := _UNRECOGNIZED.search(line):
        rest = next(group for group in found.groups() if group is not None)
        for flag in re.findall(r"--?[A-Za-z][\w-]*", rest):
            page.add("rejected_flag", flag, number, scope="unrecognized", grade=grade)
    if found := _CHOICE.search(line):
        page.add("rejected_flag", found.group(1), number, scope="invalid_choice", grade=grade)
        page.add("rejected_value", found.group(2), number, scope=found.group(1), grade=grade)
        if choices := _CHOICES.search(line):
            page.add("flag_choices", choices.group(1)[:2000], number, scope=found.group(1), grade=grade)
    if found := _AMBIGUOUS.search(line):
        page.add("rejected_flag", found.group(1), number, scope="ambiguous", grade=grade)
        names = " ".join(re.findall(r"--[\w-]+", found.group(2)))
        page.add("ambiguous_with", names, number, scope=found.group(1), grade=grade)
    if found := _MISSING.search(line):
        page.add("rejected_flag", found.group(1), number, scope="missing_value", grade=grade)
    if found := _DEPRECATED.search(line):
        page.add("deprecated_flag", found.group(1), number, grade=grade)


def read_phase(page: Page, lines: list[str], told: list[tuple[int, str]], grade: Grade) -> None:
    """Where GPU memory ran out: the frames around each failed allocation, `unknown` where none is told.

    `told` are those of the lines, with their numbers, that may tell of one.
    """
    wanted = next(filter(None, (_WANTED.search(line) for _, line in told)), None)
    available = next(filter(None, (_AVAILABLE.search(line) for _, line in told)), None) if wanted else None
    if wanted and available:
        want, have = int(wanted.group(1)), int(available.group(1) or available.group(2))
        page.add("wanted_tokens", want, 0, grade=grade)
        page.add("available_tokens", have, 0, grade=grade)
        if want <= have:
            page.add("wanted_below_available", have - want, 0, grade=grade)
    boot = _Boot()
    for number, line in told:
        boot.see(line)
        if not _OOM.search(happened(line)) or _HOST_OOM.search(line):
            continue
        before = lines[max(0, number - _REACH) : number]
        beside = [one for one in (*before, *lines[number : number + 3]) if not (_is_end(one) or is_settings(one))]
        phase = _named_in(line)
        phase = "draft" if boot.drafting and phase in ("", "load", "pools") else phase
        phase = phase or _named_in("\n".join(one for one in beside if not _BATCH.search(one)))
        phase = phase or ("pools" if boot.after_pools else "") or _last_batch(before) or "unknown"
        page.add("oom_phase", phase, number, grade=grade)


def _named_in(text: str) -> str:
    """The phase that frames or words tell; empty where none do."""
    plain = without_container_images(text)
    return next((name for name, pattern in _PATTERNS if pattern.search(plain)), "")


def _last_batch(lines: list[str]) -> str:
    """What the scheduler ran last, where nothing else tells: both kinds of line stand in every log under load."""
    last = next(filter(None, (_BATCH.search(line) for line in reversed(lines))), None)
    return last.group(1).lower() if last else ""


def _is_end(line: str) -> bool:
    """A line that ends a stage names what is over, not what failed."""
    return any(name.endswith("_end") and pattern.search(line) for name, pattern in _STAGES)


class _Boot:
    """How far a start has come: a draft's weights are begun after the target's pools or graphs, or are of its class."""

    def __init__(self) -> None:
        self._last = ""
        self._draft = False

    @property
    def drafting(self) -> bool:
        """Whether the draft's weights were the last thing begun or loaded, or what comes of them is made."""
        return self._draft and self._last in ("weights", "weights_end")

    @property
    def after_pools(self) -> bool:
        """Whether the pools were the last thing made."""
        return self._last == "pools_end"

    def see(self, line: str) -> None:
        if not _TELLS_STAGE.search(line):
            return
        stage = next((name for name, pattern in _STAGES if pattern.search(line)), "")
        if stage == "ready":
            self._draft = False
        elif stage == "weights":
            self._draft = self._last in ("capture_end", "pools_end")
        elif stage == "weights_end":
            self._draft = self._last == "pools_end" or _DRAFT_CLASS.search(line) is not None or self._draft
        elif stage == "capture":
            self._draft = False
        self._last = stage or self._last
