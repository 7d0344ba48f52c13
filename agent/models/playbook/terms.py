"""Words that the program itself prints, and what each means; words of the field stand with the write-up's terms."""

from __future__ import annotations

import re
from typing import Final

from agent.views.sections.before import TERMS

OWN: Final = (
    (
        r"new.?token.?ratio",
        (
            "the share of the answers that were asked for which the scheduler keeps room for when it admits a "
            "request: 0.7 after idle, sinking with every decode step, raised by a retraction"
        ),
    ),
    (
        r"admission reserve",
        (
            "room in the pool that the scheduler keeps for answers not yet written, so that fewer requests "
            "start at once than the pool could hold"
        ),
    ),
    (
        r"accept len\w*",
        ("how many tokens a step of speculative decoding keeps on average; 1 is what a step gives without a draft"),
    ),
    (
        r"certainty",
        (
            "how far the leading explanation is ahead of the others, from 0 to 1, by the weights of what speaks "
            "for and against each; it is no measured frequency"
        ),
    ),
    (
        r"not confirmed",
        (
            "the evidence was pasted, or is of one kind only: what would confirm the change on the live host "
            "stands with it"
        ),
    ),
    (r"next wall", "what will bind first once the change is in"),
    (
        r"static fraction|mem.?fraction\w*",
        (
            "the share of a GPU's memory that weights and KV pool together may take (--mem-fraction-static); "
            "the rest is for graphs and activations"
        ),
    ),
    (r"prefix tokens?", "tokens of earlier requests that can be kept for reuse, on the GPU and in host RAM together"),
    (
        r"(?:load|loaded).?back\w*",
        ("prefixes that are copied from host RAM to the GPU because a request begins with them"),
    ),
    (r"p95|95th percentile", "the value that 95 of 100 readings do not pass"),
    (r"p50|median", "the value that half of the readings do not pass"),
    (r"headroom", "GPU memory that must stay free for the largest prefill and for images"),
    (
        r"radix\w*(?: cache)?",
        ("the cache of prefixes in the KV pool, kept as a tree, from which requests that begin alike are served"),
    ),
    (
        r"chunk\w*(?: prefill)?(?: size)?",
        ("long prompts are computed in pieces of so many tokens (--chunked-prefill-size)"),
    ),
    (r"prefill", "the computation of a prompt, before the first token of its answer"),
    (r"decode(?: batch)?", "the computation of an answer, one step a token or, with a draft, a few"),
    (
        r"spec(?:ulative)? ?v2|spec_v2",
        (
            "the newer path of speculative decoding, which overlaps the scheduler with the GPU; "
            "SGLANG_ENABLE_SPEC_V2 switches it"
        ),
    ),
    (
        r"conservativ\w*|schedule.?conservativeness",
        (
            "how much of the asked answers the scheduler keeps room for (--schedule-conservativeness); more "
            "admits fewer requests"
        ),
    ),
    (r"drop.?in", "a file beside the unit that replaces its launch command, and is taken away to go back"),
    (r"observed", "read as it stands in a log, a file or an endpoint"),
    (r"derived", "worked out from what was observed"),
    (r"estimated", "worked out with something that was not observed here"),
    (r"claimed", "told by the operator"),
    (r"citations?(?: hold)?|\bs\d+\b", "a line of SGLang's source that was checked against the tree of that version"),
    (r"pinn?(?:ed|ing)?", "host memory that is locked for the GPU to copy from; it cannot be swapped out"),
    (r"numa", "the part of the host's memory that is near to a GPU; what lies in another part is slower to copy"),
    (
        r"mla",
        (
            "attention that keeps one compressed row a token instead of keys and values a head; every rank "
            "holds all of it"
        ),
    ),
    (r"ratio|hicache.?ratio", "size of the host pool over that of the KV pool on the GPU (--hicache-ratio)"),
    (r"weight", "points for an explanation, from what speaks for it less what speaks against it"),
)


def meaning(term: str) -> str:
    """What a term means, as one sentence without its end; empty where it is none of these."""
    own = next((f"{term}: {text}" for called, text in OWN if re.fullmatch(called, term)), "")
    return own or next((text.rstrip(".") for called, text in TERMS if re.search(called, term, re.IGNORECASE)), "")
