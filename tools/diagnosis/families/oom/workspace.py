"""Buffers of a fixed size that a batch outgrows while the card has room."""

from __future__ import annotations

from tools.diagnosis.changes import FRACTION, Forbidden, plan, step
from tools.diagnosis.clues import Clue, Entry, said, symptom
from tools.diagnosis.model import Actions, Proposal, Question
from tools.diagnosis.view import View, as_number

_DISPATCH = "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK"
_MOST_DISPATCHED = 1_024  # DeepEP's low-latency kernels count in that many (sglang 0.5.9 token_dispatcher/deepep.py)
_NOT_THE_CARD: tuple[Forbidden, ...] = (
    ("lower", FRACTION, "the card has room; the buffer is fixed"),
    ("raise", FRACTION, "the card has room; the buffer is fixed"),
)


def _workspace(view: View) -> Actions:
    wanted = view.number("workspace_wanted_bytes") or 402653184.0
    to = 1 << (int(max(wanted, 402653184 + 1)) - 1).bit_length()
    name = "SGLANG_FLASHINFER_WORKSPACE_SIZE" if view.at_least(0, 5, 6) else "FLASHINFER_WORKSPACE_SIZE"
    chunk = view.value("--chunked-prefill-size") or view.number("chunked_prefill_size") or 8192
    return plan(
        Proposal(
            "env",
            "raise",
            name,
            view.env(name) or 402653184,
            to,
            "bytes",
            "a buffer of fixed size is too small for this batch; the card is not full",
        ),
        step(
            view,
            "lower",
            "--chunked-prefill-size",
            int(max(1024, (chunk if chunk > 0 else 8192) / 2)),
            "smaller batches need less of it",
            unit="tokens",
        ),
        never=_NOT_THE_CARD,
        alternatives=(("another attention backend", "it has no such buffer"),),
    )


def _dispatch(view: View) -> Actions:
    """Low-latency dispatch takes so many tokens of a rank at once: decode batch x draft tokens must stay within."""
    now = int(as_number(view.env(_DISPATCH)) or 128)
    each = int(view.value("--speculative-num-draft-tokens") or 1) if view.speculative else 1
    batch = view.number("graph_max_bs") or view.value("--cuda-graph-max-bs") or view.value("--max-running-requests")
    changes = []
    if view.typed("--deepep-mode") == "low_latency" and view.typed("--disaggregation-mode") != "decode":
        why = "prefill then takes the other path, which has no such buffer"
        changes.append(step(view, "set", "--deepep-mode", "auto", why))
    wanted = int(batch or 0) * each
    adjustable = not view.before(0, 4, 8) and now < _MOST_DISPATCHED
    if adjustable:
        to = min(_MOST_DISPATCHED, max(2 * now, 1 << (max(wanted, 1) - 1).bit_length()))
        why = "as many tokens as a rank sends at once: requests of its decode batch x draft tokens"
        changes.append(Proposal("env", "raise", _DISPATCH, view.env(_DISPATCH) or now, to, "tokens", why))
    if not wanted or wanted > _MOST_DISPATCHED or not adjustable:
        fits = (_MOST_DISPATCHED if adjustable else now) // each
        why = "batches of that many are the largest that the buffer takes"
        changes.append(step(view, "lower", "--cuda-graph-max-bs", fits, why, unit="requests"))
    return plan(*changes, never=_NOT_THE_CARD)


def _outgrown(view: View) -> Actions:
    return _dispatch(view) if said("dispatch_overflow")(view) else _workspace(view)


ENTRIES = (
    Entry(
        "oom.fixed_workspace",
        "A workspace of fixed size is too small for the batch; the card itself has room.",
        for_=(
            Clue(6, said("workspace_overflow"), "a fixed workspace overflowed"),
            Clue(6, said("dispatch_overflow"), "a batch is larger than the buffer of the experts' all-to-all"),
            Clue(2, symptom("workspace"), "a workspace is named"),
        ),
        settle=Question("Which buffer, and how large is it made?", "the error line; the environment"),
        act=_outgrown,
    ),
)
