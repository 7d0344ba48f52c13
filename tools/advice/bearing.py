"""Whether what is cited for a change has to do with it: the line names it, or the quantity that it moves.

A reference also bears where a finding that calls for this very change rests on it; who advises says which those are.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from tools.advice.change import Change
from transcripts.facts import Evidence, Facts

# By words of a name, how a server, a tool or the kernel speaks of what it is about; the first that fits counts.
_SPEAKS_OF: Final[tuple[tuple[str, str], ...]] = (
    (
        r"hicache|hierarchical|lmcache|radix",
        r"hicache|hierarch|radix|cached|evict|load_back|\bMem(?::|Available|Total|Free)|host[_ ](?:mem|pool)",
    ),
    (r"cuda-graph|piecewise", r"graph|captur|#running|running_req|out of memory"),
    (r"spec|draft|eagle", r"spec|draft|accept|eagle|mtp|out of memory"),
    (r"tokenizer-worker|image|mm-|multimodal", r"image|vision|multimodal|tokenizer|processor|gpu_used|out of memory"),
    (r"prefill|chunk", r"prefill|chunk|new-token|out of memory|ttft|first_token"),
    (
        r"running|queued|priority",
        r"running|queue|token usage|usage_|kv_pool|max_total_num_tokens|retract|out of memory",
    ),
    (
        r"conservativeness|clip_max_new|decode-steps|interval",
        r"retract|running|queue|token usage|new_token_ratio|usage_",
    ),
    (r"context-length|longer_context", r"context|too long|longer than|max_position|input"),
    (
        r"mem|total-tokens|kv-cache|mamba|swa|page-size|offload|weights|quantization",
        r"mem|kv[_ ]|pool|token usage|usage_|#token|max_total_num_tokens|retract|[MG]i?B\b|page|state",
    ),
    (r"parser|template", r"parser|template|tool|reasoning"),
    (r"backend|attention|moe|runner|kernel", r"backend|attention|moe|kernel|capability|arch|fp8|nan|garbl"),
    (r"tp|dp|ep|pp|nnodes|rank|nccl|all-reduce|ib", r"\b[TDEP]P\d|\b[tdep]p_|rank|nccl|gpu|weight|out of memory|world"),
    (r"shm|ipc", r"shm|shared memory|/dev/shm"),
    (r"nofile", r"open files|nofile|file descr"),
    (r"memlock|memory|swap|drop_caches", r"mem|pinned|lock|killed|cgroup|swap"),
    (r"huge", r"huge|pin|alloc"),
    (r"workspace", r"workspace|alloc"),
    (r"metrics|log", r"metric|log"),
)
_EMPTY_WORDS: Final = re.compile(
    r"enable|disable|size|max|min|num|mode|type|path|static|server|config|sglang|sgl|use|not|auto|level|name|the"
)
_LEAST: Final = 3  # letters of a word that tells one option from another
_WORD: Final = re.compile(r"[a-z0-9]+")


def bearing(
    change: Change,
    premise: Collection[str],
    evidence: Mapping[str, Evidence],
    citations: Mapping[str, str],
    facts: Facts,
) -> tuple[str, ...]:
    """Of the change's evidence, what has to do with it, or is among the `premise` of a finding that calls for it.

    `citations` are the lines quoted, by their ids.
    """
    about = _about(change)
    return tuple(
        reference
        for reference in change.evidence
        if reference in premise or any(about.search(text) for text in _texts(reference, evidence, citations, facts))
    )


def _about(change: Change) -> re.Pattern[str]:
    """Its name as typed or as the code spells it, and how its subject is spoken of; else the words of its name."""
    name = change.flag.removeprefix("--").lower().replace("_", "-")
    words = [word for word in _WORD.findall(name) if len(word) >= _LEAST and not _EMPTY_WORDS.fullmatch(word)]
    said = next((told for key, told in _SPEAKS_OF if re.search(key, name)), "|".join(words))
    if change.kind == "upgrade":
        said = r"version|error|exception|traceback|fail|leak|hang|retract|out of memory"
    spelled = re.escape(name).replace(r"\-", "[-_]")
    return re.compile("|".join(filter(None, (spelled, said))), re.IGNORECASE)


def _texts(
    reference: str, evidence: Mapping[str, Evidence], citations: Mapping[str, str], facts: Facts
) -> Iterator[str]:
    """The line that is referred to, every line of what is referred to whole, the names of the figures read there."""
    if reference in citations:
        yield citations[reference]
        return
    name, _, line = reference.partition(":")
    found = evidence[name]
    if line:
        yield found.text.splitlines()[int(line) - 1] if found.lines else ""
    else:
        yield found.text
    for fact in facts:
        if fact.source == reference or (not line and fact.source.partition(":")[0] == name):
            yield f"{fact.name} {fact.scope}"
