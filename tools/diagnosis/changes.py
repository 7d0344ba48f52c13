"""Proposals with values: how far to move a lever, worked out from what the evidence holds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tools.diagnosis.model import Actions, ChangeKind, Do, Expectation, MustNot, Proposal, Scalar, Watch
from tools.diagnosis.sums import slots_that_fit
from tools.diagnosis.view import View, as_number

Forbidden = tuple[Do, str, str]

FRACTION = "--mem-fraction-static"
_CAP = "--max-total-tokens"
_LARGEST_PAGE = 256  # tokens; a pool ends at a page
_FULL = 0.99
_CEILING = 0.96  # above it nothing is left for graphs and activations on any card that was measured
_FLOOR = 0.3
_HEADROOM_GIB = 1.0  # added to what an allocation lacked, so that the next one of its size also fits

# Defaults that a change is compared with where nothing was typed (sglang 0.5.9 srt/server_args.py, class ServerArgs).
DEFAULTS: dict[str, float] = {
    "--chunked-prefill-size": 8192,
    "--max-prefill-tokens": 16384,
    "--schedule-conservativeness": 1.0,
    "--hicache-ratio": 2.0,
    "--swa-full-tokens-ratio": 0.8,
    "--mamba-full-memory-ratio": 0.9,
    "--page-size": 1,
    "--tokenizer-worker-num": 1,
    "--cuda-graph-max-bs": 256,
    "SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION": 4096,
}


def step(
    view: View,
    do: Do,
    flag: str,
    to: Scalar | None,
    why: str,
    *,
    unit: str = "",
    kind: ChangeKind = "flag",
    evidence: Sequence[str] = (),
) -> Proposal:
    """A change of one option, from what is in effect where that is known."""
    was: Scalar | None = None
    if kind == "flag" and flag.startswith("--"):
        typed = view.typed(flag) or (view.setting(flag) if do != "remove" or _switched_on(view, flag) else "")
        was = True if do == "remove" and typed == "True" else as_number(typed)
        was = was if was is not None else (typed or None)
    elif kind == "env":
        was = view.env(flag) or None
    return Proposal(kind, do, flag, _plain(was), _plain(to), unit, why, (*view.flag_sources(flag), *evidence))


def _switched_on(view: View, flag: str) -> bool:
    """A switch that the server reports as on, where no launch command was seen that could lack it."""
    return "flag" not in view.facts and view.setting(flag).lower() == "true"


def _plain(value: Scalar | None) -> Scalar | None:
    if isinstance(value, float) and value.is_integer() and abs(value) >= 2:
        return int(value)
    return value


def scale(
    view: View, flag: str, factor: float, why: str, *, multiple: int = 1, least: float = 1, unit: str = "tokens"
) -> Proposal:
    """Raise or lower an integer option by a factor, to a multiple, never past `least`."""
    now = view.value(flag)
    base = now if now is not None and now > 0 else DEFAULTS.get(flag, 0)
    to = max(least, math.floor(base * factor / multiple) * multiple) if base else least
    return step(view, "raise" if factor > 1 else "lower", flag, to, why, unit=unit)


def fewer_running(view: View, share: float, why: str) -> Proposal:
    """Lower the limit on running requests to a share of what runs, so that it binds; of the limit where none is seen.

    Never more than nine tenths of the pool carry. Counted over all data-parallel ranks, as the flag counts.
    """
    running = view.number("running_p95") or view.number("running_max")
    limit = view.value("--max-running-requests") or view.running_limit or 0
    base = min(running * view.schedulers, limit or math.inf) if running else limit or 64
    fit = slots_that_fit(view)
    to = int(base * share) if fit is None else min(int(base * share), fit.requests)
    return step(view, "lower", "--max-running-requests", max(1, to), why, unit="requests")


def fraction_now(view: View) -> float | None:
    """The fraction in effect; of several that were typed, the one that was reported to fail last."""
    tried = view.facts.get("fraction_tried", "too_high") or view.facts.get("fraction_tried", "too_low")
    if tried is not None and not view.typed(FRACTION):
        return float(tried.value)
    return view.value(FRACTION)


def lower_fraction(view: View, why: str, least_step: float = 0.03) -> Proposal:
    """By what the failed allocation lacked on this card, at least one step, never below what the weights need."""
    now = fraction_now(view)
    down = least_step
    total = total_gib(view)
    request, free = view.number("oom_request_gib"), view.number("oom_free_gib")
    if request is not None and free is not None and total:
        down = max(0.01, math.ceil((max(request - free, 0.0) + _HEADROOM_GIB) / total * 100) / 100)
    base = now if now is not None else 0.88
    works = view.number("fraction_tried", "works")
    to = round(max(_FLOOR, base - down), 2)
    if works is not None and works < base:
        to = works
    floor = weights_floor(view)
    if floor is not None and to < floor + 0.01:
        why = f"{why}; weights alone need {floor:.3f}, so the window is narrow"
        to = round(max(to, min(math.ceil((floor + 0.005) * 100) / 100, base - 0.005)), 3)
    return Proposal("flag", "lower", FRACTION, now, to, "fraction", why, view.flag_sources(FRACTION))


def raise_fraction(view: View, why: str, up: float = 0.03) -> Proposal:
    """Past what the weights need where that is known, else one step; never to where nothing is left for activations."""
    now = fraction_now(view)
    base = now if now is not None else 0.88
    floor = weights_floor(view)
    to = base + up
    if floor is not None:
        # The pool should be worth the start: a tenth of what the weights leave, at least one per cent of the card.
        to = max(floor + max(0.01, (1 - floor) * 0.25), base + 0.01)
        why = f"{why}; weights need more than {floor:.3f}"
    else:
        why = f"{why}; how much is not known, one step: `Load weight end` with its avail mem gives the sum"
    to = round(min(max(to, base + 0.01), max(_CEILING, base + 0.005)), 3 if to > _CEILING - 0.005 else 2)
    if to <= base:
        to = round(base + 0.005, 3)
    return Proposal("flag", "raise", FRACTION, now, to, "fraction", why, view.flag_sources(FRACTION))


def cap_lifted(view: View) -> list[Proposal]:
    """The typed cap on the pool taken off, where the pool ends at it: no other lever makes it larger meanwhile.

    The pool's size is what was printed, else what decode lines come to: tokens over usage.
    """
    cap, pool = view.value(_CAP) if view.typed(_CAP) else None, view.number("kv_pool", "")
    each, running, usage = view.number("tokens_per_request"), view.number("running_max"), view.number("usage_max", "")
    if pool is None and each and running == 1 and usage and usage >= _FULL:
        pool = each / usage
    if not cap or not pool or not cap - _LARGEST_PAGE < pool <= cap:
        return []
    return [step(view, "remove", _CAP, None, f"it ends the pool at {pool:,.0f} tokens", unit="tokens")]


def smaller_kv(view: View) -> str:
    """The FP8 type for this card: kernels for e4m3 begin with compute capability 8.9, older cards convert e5m2."""
    try:
        capability = float(view.facts.text("compute_capability"))
    except ValueError:
        capability = 9.0
    return "fp8_e5m2" if capability < 8.9 else "fp8_e4m3"


def weights_floor(view: View) -> float | None:
    """1 - free after weights / free before them: below it the server has no room for any cache."""
    printed = view.number("minimum_fraction")
    if printed is not None:
        return printed
    before, after = view.number("weights_before_gib", ""), view.number("weights_after_gib", "")
    took = view.number("weights_gib", "")
    if before is None and after is not None and took is not None:
        before = after + took
    if before is None:
        before = total_gib(view)
    if before and after is None and took is not None:
        after = before - took
    if not before or after is None or after >= before:
        return None
    return round(1 - after / before, 4)


def total_gib(view: View) -> float | None:
    """Size of one card."""
    mib = view.number("gpu_memory_mib")
    if mib is not None:
        return mib / 1024
    return view.number("gpu_total_gib")


def upgrade(why: str, to: str | None = None, evidence: Sequence[str] = ()) -> Proposal:
    """Another version; `to` only where the evidence or the tree names it."""
    return Proposal("upgrade", "upgrade", "sglang", None, to, "", why, tuple(evidence))


def plan(
    *changes: Proposal,
    never: Sequence[Forbidden] = (),
    alternatives: Sequence[tuple[str, str]] = (),
    expected: Sequence[tuple[str, str]] = (),
    verify: Sequence[Watch] = (),
    notes: Sequence[str] = (),
    most: int = 4,
) -> Actions:
    """Actions from plain tuples, the first changes only; what would set the value in force changes nothing and is out.

    `most` is for changes that help only all together.
    """
    telling = [one for one in changes if one.do != "set" or one.to is None or str(one.to) != str(one.from_)]
    return Actions(
        tuple(telling[:most]),
        tuple(MustNot(*one) for one in never),
        tuple(alternatives),
        tuple(Expectation(*one) for one in expected),
        tuple(verify),
        tuple(notes),
    )


NOT_MEMORY: tuple[Forbidden, ...] = (
    ("set", FRACTION, "GPU memory plays no part"),
    ("lower", FRACTION, "GPU memory plays no part"),
    ("raise", FRACTION, "GPU memory plays no part"),
)
HICACHE_FOR_RUNNING: Forbidden = (
    "set",
    "--enable-hierarchical-cache",
    "it keeps prefixes in host RAM; a running request still needs every token on the GPU",
)
HIGHER_FRACTION: Forbidden = ("raise", FRACTION, "memory is not what binds")
