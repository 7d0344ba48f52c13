"""What a researcher should establish in the tree of the deployed version, for the explanations that are alive."""

from __future__ import annotations

import re

from tools.diagnosis import offload
from tools.diagnosis.model import Anchor, Assessment, ResearchQuestion
from tools.diagnosis.view import View
from transcripts.facts import Facts

_ANY = "srt/**/*.py"

FIELDS = {
    "limits": "Limits on running requests and tokens",
    "memory": "GPU memory and the static fraction",
    "offload": "Options that use host RAM",
    "scheduler": "Admission, prefill and retraction",
}

_OTHERS = (
    ResearchQuestion(
        "limits.spec_default",
        "Where does a limit on running requests come from when none is typed and speculative decoding is on?",
        (
            Anchor(
                r"Max running requests is reset to \d+ for speculative decoding",
                _ANY,
                "--max-running-requests",
                "speculative decoding sets this limit when none is typed",
                "does",
            ),
            Anchor(
                r"max_running_requests = 48",
                _ANY,
                "--max-running-requests",
                "48 is a default of speculative decoding, not a result of memory",
                "answer",
            ),
        ),
        ("--max-running-requests", "--speculative-algorithm"),
    ),
    ResearchQuestion(
        "limits.running",
        "How is the running limit derived, divided over data-parallel ranks, and bounded?",
        (
            Anchor(
                r"max_running_requests // \(?self\.dp_size|max_running_requests // attn_dp_size",
                _ANY,
                "--max-running-requests",
                "the limit is for the whole server and is divided by the data-parallel ranks",
                "does",
            ),
            Anchor(
                r"max_running_requests was reduced from",
                _ANY,
                "--max-running-requests",
                "the server lowers a limit that the pool does not carry, and says so",
                "constraint",
            ),
            Anchor(
                r"max_running_requests is capped to",
                _ANY,
                "--max-mamba-cache-size",
                "state slots cap the running limit, and the server says so",
                "constraint",
            ),
        ),
        ("--max-running-requests",),
    ),
    ResearchQuestion(
        "limits.input_length",
        "What bounds the length of one request: the context or the pool?",
        (
            Anchor(
                r"the maximum allowed length",
                _ANY,
                "--context-length",
                "an input longer than the smaller of context and pool is refused",
                "constraint",
            ),
        ),
        ("--context-length", "--max-total-tokens"),
    ),
    ResearchQuestion(
        "memory.pool_sizing",
        "From what is the KV pool sized, and what has to fit beside it?",
        (
            Anchor(
                r"mem_fraction_static",
                "srt/model_executor/model_runner_kv_cache_mixin.py",
                "--mem-fraction-static",
                "the pool is what is free after weights, less the part that the fraction leaves out",
                "answer",
            ),
            Anchor(
                r"try to increase --mem-fraction-static|leave no GPU memory for the KV cache",
                _ANY,
                "--mem-fraction-static",
                "when weights take more than the fraction, the server asks for a higher one",
                "constraint",
            ),
            Anchor(
                r"draft weights are now|draft weights are counted|using speculative decoding, draft",
                _ANY,
                "--mem-fraction-static",
                "this version counts the draft model inside the static part",
                "does",
            ),
        ),
        ("--mem-fraction-static",),
    ),
    ResearchQuestion(
        "memory.graphs",
        "Which graph sizes are captured, and what happens above them?",
        (
            Anchor(
                r"[Cc]apture cuda graph failed|graph failed:",
                _ANY,
                "--cuda-graph-max-bs",
                "a failed capture names its remedies",
                "answer",
            ),
            Anchor(
                r"cuda_graph_max_bs",
                "srt/{server_args.py,arg_groups/**/*.py}",
                "--cuda-graph-max-bs",
                "the largest captured batch",
                "does",
            ),
        ),
        ("--cuda-graph-max-bs",),
    ),
    ResearchQuestion(
        "memory.kv_dtype",
        "Which element types may the KV cache have, and which backends take them?",
        (
            Anchor(
                r"kv-cache-dtype of fp8_e4m3|only supports fp8_e4m3",
                _ANY,
                "--kv-cache-dtype",
                "a backend limits the type",
                "constraint",
            ),
            Anchor(
                r"FlashAttention3 only supports fp8_e4m3",
                _ANY,
                "--kv-cache-dtype",
                "e5m2 moves attention to another backend",
                "does",
            ),
        ),
        ("--kv-cache-dtype", "--attention-backend"),
    ),
    ResearchQuestion(
        "scheduler.admission",
        "What does admission reserve for requests that run, and how is it loosened?",
        (
            Anchor(
                r"SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION|CLIP_MAX_NEW_TOKENS",
                _ANY,
                "--schedule-conservativeness",
                "the reserve of a request is cut at this many tokens",
                "does",
            ),
            Anchor(
                r"init_new_token_ratio",
                "srt/managers/**/*.py",
                "--schedule-conservativeness",
                "the reserve starts high and decays while decoding",
                "does",
            ),
            Anchor(
                r"ignore_eos",
                "srt/managers/schedule_policy.py",
                "--disable-radix-cache",
                "requests that ignore the end reserve their whole output",
                "constraint",
            ),
        ),
        ("--schedule-conservativeness",),
    ),
    ResearchQuestion(
        "scheduler.retraction",
        "What happens to a request that is thrown back, and to the last one?",
        (
            Anchor(
                r"Retract requests|Decode out of memory happened",
                _ANY,
                "retraction",
                "the pool was full and requests were thrown back",
                "does",
            ),
            Anchor(
                r"even after retracting all other requests|No space left for only one request",
                _ANY,
                "retraction",
                "a request larger than the pool ends the scheduler",
                "constraint",
            ),
            Anchor(r"aborted last request", _ANY, "retraction", "this version ends that one request only", "does"),
        ),
    ),
    ResearchQuestion(
        "scheduler.prefill",
        "Which settings hold prefill back in favour of decode?",
        (
            Anchor(
                r'"--prefill-decode-interval"|prefill_decode_interval:',
                _ANY,
                "--prefill-decode-interval",
                "decode rounds between prefills",
                "does",
            ),
            Anchor(
                r"[Mm]ixed chunk",
                "srt/{server_args.py,arg_groups/**/*.py}",
                "--enable-mixed-chunk",
                "mixed chunks are switched off by some settings",
                "constraint",
            ),
            Anchor(
                r"chunked prefill size is adjusted to",
                _ANY,
                "--chunked-prefill-size",
                "DP attention divides the chunk",
                "does",
            ),
        ),
        ("--chunked-prefill-size", "--prefill-decode-interval"),
    ),
)
_ALL = {question.id: question for question in (*offload.QUESTIONS, *_OTHERS)}

# What the leading explanations raise: a beginning of a label, and the questions' ids.
_RAISED = (
    ("capacity.spec_default_cap", ("limits.spec_default", "limits.running", "memory.graphs")),
    ("capacity.context", ("limits.input_length", "memory.pool_sizing")),
    ("capacity.", ("limits.running", "memory.pool_sizing", "memory.kv_dtype")),
    ("oom.", ("memory.pool_sizing", "memory.graphs")),
    ("spec.", ("memory.pool_sizing",)),
    ("kv.", ("memory.kv_dtype",)),
    ("retraction.", ("scheduler.retraction", "scheduler.admission")),
    ("perf.prefill", ("scheduler.prefill",)),
    ("perf.chunk", ("scheduler.prefill",)),
    ("perf.decode_interval", ("scheduler.prefill",)),
    ("perf.", ("scheduler.admission", "memory.graphs")),
    ("hicache.", ("offload.hierarchical_cache", "offload.hicache_flags", "offload.host_memory", "offload.storage")),
    ("cache.", ("offload.hierarchical_cache", "offload.host_memory", "offload.draft")),
)
_OFFLOAD = re.compile(
    r"off-?load|host (?:ram|memory|cache)|\bram\b|hicache|hierarchical|cpu (?:ram|memory|cache)|swap", re.I
)
_LOOKED_AT = 4


def research_question(identity: str) -> ResearchQuestion | None:
    """The question of that id, None if there is none."""
    return _ALL.get(identity)


def questions(assessment: Assessment, facts: Facts, asked: str = "") -> tuple[ResearchQuestion, ...]:
    """For the leading explanations, and every RAM option when the operator asks about offloading."""
    wanted: list[str] = []
    for one in [one for one in assessment.hypotheses if one.for_][:_LOOKED_AT]:
        wanted += next((ids for beginning, ids in _RAISED if one.label.startswith(beginning)), ())
    if View(facts).speculative:
        wanted.append("limits.spec_default")
    if _OFFLOAD.search(asked) or facts.get("symptom", "host_cache") is not None:
        wanted += [question.id for question in offload.QUESTIONS]
    if not wanted:
        wanted = ["limits.running", "memory.pool_sizing"]
    return tuple(_ALL[identity] for identity in dict.fromkeys(wanted))
