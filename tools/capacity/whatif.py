"""Settings that an operator names, evaluated whole: `--set kv-cache-dtype=fp8_e4m3 --set dp-size=4`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from tools.capacity import pools, versions
from tools.capacity.attention_dp import attention_dp_unknown, has_attention_dp, model_class
from tools.capacity.deployment import Deployment
from tools.capacity.errors import SettingRefused
from tools.capacity.host import hicache_refused
from tools.capacity.host_pools import kept_now
from tools.capacity.lever import AS_SET, Change, Lever, Move
from tools.capacity.levers import Catalogue
from tools.capacity.scenario import Scenarios, Settings, divides_attention
from tools.capacity.sums import GB, Missing
from transcripts.facts import Facts

_SWITCHES = ("enable-dp-attention", "enable-hierarchical-cache", "disable-speculative")
_VALUES = (
    "kv-cache-dtype",
    "mem-fraction-static",
    "hicache-ratio",
    "hicache-size",
    "attn-dp-size",
    "dp-size",
    "dcp-size",
    "max-running-requests",
    "max-total-tokens",
)
_ON = frozenset({"", "true", "1", "yes", "on"})
_MOST = 1e12  # beyond what any of the levers counts, in tokens, requests or GB
NO_CAP = "none"  # as the value of max-total-tokens: the option is left out
MEMORY_LEVERS = frozenset(f"--{name}" for name in (*_SWITCHES, *_VALUES))


def what_if(
    facts: Facts, wanted: Mapping[str, str], catalogue_has: Callable[[str], bool] | None = None
) -> Lever | tuple[Missing, ...]:
    """The named settings as one lever, checked together. Raises SettingRefused for what the version does not allow."""
    server = Deployment(facts)
    scenarios = Scenarios(server)
    if scenarios.missing:
        return scenarios.missing
    settings = scenarios.now
    changes: list[Change] = []
    for name, value in wanted.items():
        flag = "--" + name.removeprefix("--").replace("_", "-")
        if catalogue_has is not None and flag[2:] not in _SWITCHES and not catalogue_has(flag):
            raise SettingRefused(f"SGLang {server.version} has no {flag}.", "`sglscout flags` lists what it has.")
        settings = _apply(server, settings, flag[2:], value)
        before = server.setting(flag[2:].replace("-", "_"))
        changes.append((flag, None if before is None else str(before.value), value))
    _check(server, settings, wanted)
    final = settings
    has = catalogue_has or (lambda flag: True)
    unknown = attention_dp_unknown(server) if final.dp not in (1, scenarios.now.dp) else ""
    move = Move(AS_SET, tuple(changes), lambda _: final, "", unknown, uncertain=bool(unknown))
    return Catalogue(scenarios, has).lever(AS_SET, (move,))


def limit_that_fits(facts: Facts, wanted: int, beside: Mapping[str, str] | None = None) -> int | None:
    """The largest `--max-running-requests` up to `wanted` that the GPUs have memory for, with other levers `beside`.

    As the flag counts, over all data-parallel ranks, and never below the limit in force: the same sum as the lever's.
    None where memory or the model's shape is not known, or a lever is none that can be summed.
    """
    found = _beside(facts, beside or {})
    if found is None:
        return None
    scenarios, settings = found
    parts = scenarios.server.limit_parts(settings.dp)
    asked = max(1, wanted // parts)
    most = scenarios.limit_that_fits(settings, asked)
    return wanted if most == asked else most * parts


def pool_tokens_with(facts: Facts, wanted: Mapping[str, str]) -> int | None:
    """Tokens of one pool with these levers set; None as for `limit_that_fits`."""
    found = _beside(facts, wanted)
    return None if found is None else found[0].evaluate(found[1]).tokens_per_pool


def _beside(facts: Facts, wanted: Mapping[str, str]) -> tuple[Scenarios, Settings] | None:
    server = Deployment(facts)
    scenarios = Scenarios(server)
    if scenarios.missing:
        return None
    settings = scenarios.now
    try:
        for name, value in wanted.items():
            settings = _apply(server, settings, name.removeprefix("--"), value)
    except SettingRefused:
        return None
    return scenarios, settings


def _apply(server: Deployment, settings: Settings, name: str, value: str) -> Settings:
    if name == "kv-cache-dtype":
        element = pools.element_bytes(value, server.shape.element_bytes if server.shape else 2.0)
        if element is None:
            raise SettingRefused(f"--{name} {value} is no KV cache type.", "Types: bf16, fp8_e4m3, fp8_e5m2, fp4_e2m1.")
        return replace(settings, element=element)
    if name in _SWITCHES:
        if value.lower() not in _ON:
            raise SettingRefused(f"--{name} takes no value, {value[:40]!r} is given.", "Leave the option out for off.")
        return _switched(settings, name)
    if name == "max-total-tokens" and value == NO_CAP:
        return replace(settings, cap=None)
    number = _number(name, value)
    if name == "mem-fraction-static":
        if not 0 < number < 1:
            raise SettingRefused(f"--{name} {value} does not lie between 0 and 1.", "0.88, for instance.")
        return replace(settings, fraction=number)
    if name == "hicache-ratio":
        if number <= 0:
            raise SettingRefused(f"--{name} {value} is no ratio.", "It is the host pool over the device pool, as 2.")
        return replace(settings, ratio=number)
    whole = {
        "hicache-size": lambda: replace(settings, size_gb=number, ratio=settings.ratio or 2.0),
        "attn-dp-size": lambda: replace(settings, dp=int(number)),
        "dp-size": lambda: replace(settings, dp=int(number)),
        "dcp-size": lambda: replace(settings, dcp=int(number)),
        "max-running-requests": lambda: replace(settings, limit=int(number)),
        "max-total-tokens": lambda: replace(settings, cap=int(number)),
    }
    if name not in whole:
        known = ", ".join((*_VALUES, *_SWITCHES))
        raise SettingRefused(f"--{name} is not one of the memory levers.", f"Levers: {known}.")
    if number != int(number) or number < 1:
        raise SettingRefused(f"--{name} {value} is not a whole number from 1.", "Give one.")
    return whole[name]()


def _switched(settings: Settings, name: str) -> Settings:
    if name == "disable-speculative":
        return replace(settings, speculative=False)
    if name == "enable-hierarchical-cache":
        return replace(settings, ratio=settings.ratio or 2.0)
    return settings


def _number(name: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not abs(number) <= _MOST:  # nan is not
        raise SettingRefused(f"--{name} {value[:40]} is not a number that a server can take.", "Give one.")
    return number


def _check(server: Deployment, settings: Settings, wanted: Mapping[str, str]) -> None:
    """Rules of the code on the settings together."""
    shape = server.shape
    if shape is not None and not divides_attention(shape, server.tp, settings.dp):
        raise SettingRefused(
            f"dp {settings.dp} does not divide tp {server.tp} and the attention heads.", "Take a divisor of tp."
        )
    if settings.dp not in (1, server.attention_dp) and has_attention_dp(server) is False:
        raise SettingRefused(
            f"{model_class(server)} has no DP attention in SGLang {server.version}.", "Leave out the dp setting."
        )
    if settings.dp > 1 and server.algorithm in ("STANDALONE", "NGRAM") and settings.speculative:
        raise SettingRefused(f"{server.algorithm} does not run with DP attention.", "Take another draft, or dp 1.")
    if settings.dcp > 1 and not versions.has_dcp(server.version):
        raise SettingRefused(f"SGLang {server.version} has no --dcp-size.", "It came with 0.5.15.")
    if settings.dcp > 1 and (server.tp // settings.dp) % settings.dcp:
        raise SettingRefused(f"dcp {settings.dcp} does not divide the {server.tp // settings.dp} attention ranks.")
    if settings.dcp > 1 and settings.ratio and server.has_draft and settings.speculative:
        raise SettingRefused("HiCache takes no draft model under --dcp-size.", "Drop one of the three.")
    if settings.hicache and (refused := hicache_refused(server, settings.size_gb > 0)):
        raise SettingRefused(f"{refused}.", "Leave HiCache off.")
    by_size = "hicache-size" in wanted and versions.host_pool_must_exceed_device(server.version)
    here = kept_now(server) if by_size else None
    if here is not None and here.on_host(0.0, settings.size_gb)[0].rows <= here.device[0].rows:
        raise SettingRefused(
            f"{settings.size_gb:g} GB make a host pool that is not larger than the device pool.",
            f"It takes more than {here.device[0].rows * here.device[0].row_bytes / GB:.2f} GB.",
        )
    if "hicache-ratio" in wanted and settings.ratio <= 1 and versions.host_pool_must_exceed_device(server.version):
        raise SettingRefused("the host pool must be larger than the device pool.", "Take a ratio above 1.")
