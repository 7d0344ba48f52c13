"""Scheduler lines under load (sglang 0.5.9 srt/managers/scheduler_metrics_mixin.py:213, :366; scheduler.py:2242)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tools.host.recorded.launch import Argument
from tools.host.recorded.start import STAMP, Line, Start
from tools.host.recorded.traffic import Event


def load_lines(start: Start, events: list[Event]) -> Iterator[Line]:
    """The lines that the first rank and the HTTP server print for these events."""
    clients = ("10.20.0.31", "10.20.0.32", "10.20.0.35")
    for number, event in enumerate(events):
        stamp = event.at.strftime(STAMP)
        if event.kind == "done":
            client = f"{clients[number % 3]}:{40000 + (number * 37) % 20000}"
            yield Line(event.at, f'[{stamp}] INFO:     {client} - "POST /v1/chat/completions HTTP/1.1" 200 OK')
        else:
            yield Line(event.at, f"[{stamp}{start.tag(0)}] {_TEXTS[event.kind](start, event)}")


def _usage(start: Start, event: Event) -> float:
    return event.used_tokens / start.ledger.pool.tokens


def _prefill(start: Start, event: Event) -> str:
    text = (
        f"Prefill batch, #new-seq: {event.sequences}, #new-token: {event.new_tokens}, "
        f"#cached-token: {event.cached_tokens}, token usage: {_usage(start, event):.2f}, "
        f"#running-req: {event.running}, #queue-req: {event.queue}, "
    )
    if start.modern:
        waiting = event.queue * event.new_tokens // max(event.sequences, 1)
        return f"{text}#pending-token: {waiting}, cuda graph: False, input throughput (token/s): {event.rate:.2f}"
    return f"{text}input throughput (token/s): {event.rate:.2f}, cuda graph: False"


def _decode(start: Start, event: Event) -> str:
    captured = bool(start.ledger.graph_sizes) and event.running <= start.ledger.graph_sizes[-1]
    return (
        f"Decode batch, #running-req: {event.running}, #token: {event.used_tokens}, "
        f"token usage: {_usage(start, event):.2f}, {accepted(start.arguments, event, modern=start.modern)}"
        f"cuda graph: {captured}, gen throughput (token/s): {event.rate:.2f}, #queue-req: {event.queue}"
    )


def accept_rate(arguments: Mapping[str, Argument], accept_len: float, *, modern: bool) -> float:
    """0.5.9 divides accepted tokens with the bonus token by all draft tokens, later versions without it."""
    drafts = int(str(arguments.get("speculative_num_draft_tokens") or 1))
    return (accept_len - 1) / max(drafts - 1, 1) if modern else accept_len / drafts


def accepted(arguments: Mapping[str, Argument], event: Event, *, modern: bool) -> str:
    if not arguments.get("speculative_algorithm"):
        return ""
    rate = accept_rate(arguments, event.accept_len, modern=modern)
    return f"accept len: {event.accept_len:.2f}, accept rate: {rate:.2f}, "


def _retract(start: Start, event: Event) -> str:
    state = "#mamba_num_gained: 0, " if start.modern else ""
    return (
        f"KV cache pool is full. Retract requests. #retracted_reqs: {event.retracted}, "
        f"#new_tokens_gained: {event.new_tokens}, {state}"
        f"#new_token_ratio: {event.ratio_before:.4f} -> {event.ratio_after:.4f}"
    )


_TEXTS = {"prefill": _prefill, "decode": _decode, "retract": _retract}
