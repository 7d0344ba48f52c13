"""Answers about what a change or an option does beside helping: speed, memory, safety, and what waiting costs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from agent.case import Case
from agent.document import document
from agent.models.playbook import chosen
from agent.models.playbook.answer import cited
from agent.models.playbook.operating import (
    last,
    looks,
    lost,
    nothing_to_change,
    restart_cost,
    restarts,
    sources,
    span,
)
from agent.models.playbook.seen import said_of
from agent.models.playbook.wished import settings_named
from agent.views.words import GPU_WALL, amount, checked
from tools.spoken import HICACHE
from transcripts.facts import Fact

Json = dict[str, Any]
Found = re.Match[str]
SEEN_GIB: Final = 0.01
_NAMED: Final = {"gen_throughput_p50": "tokens generated per second", "accept_len_p50": "accept length"}


def slower(case: Case, found: Found) -> str:
    """What the change, or the option that was named, is known to cost; no latency is promised."""
    told = chosen.named_outside_the_change(case, found.string)
    if told:
        return "\n".join(_known_of(case, word) for word in told) or ""
    made = document(case)
    if not made["changes"]:
        return nothing_to_change(case)
    unknown = cited("Nothing that was read says that requests get slower by it", sources(case), case)
    return "\n".join([_risk(case, made) or unknown, *_measured(case, made)])


def faster(case: Case, found: Found) -> str:
    """What grows by the change; a gain in speed is measured, not promised."""
    made = document(case)
    if not made["changes"]:
        return nothing_to_change(case)
    lines = [cited("No gain in speed is promised; a restart and a measurement tell it", sources(case), case)]
    row = _row_of_the_change(made)
    if row is not None:
        lines.append(cited(chosen.in_short(row), row.get("evidence", ()), case))
    return "\n".join([*lines, *_measured(case, made)])


def _measured(case: Case, made: Json) -> Iterator[str]:
    before = [fact for name in _NAMED if (fact := last(case, name)) is not None]
    if before:
        told = ", ".join(f"{_NAMED[fact.name]} {amount(fact.value)}" for fact in before)
        yield cited(f"To compare with, under load before it: {told}", [fact.source for fact in before], case)
    watched = "; ".join(
        f"{row['metric']}: better is {row['better']}, worse is {row['worse']}" for row in made["verify"]
    )
    if watched:
        yield cited(f"How much is not promised, it is measured: {watched}", sources(case), case)


def _row_of_the_change(made: Json) -> Json | None:
    """The option that is the change, or whose name is told by its flags."""
    wanted = {each["flag"] for each in made["changes"]}
    words = [word for _, flag, word in chosen.ALIASES if flag in wanted]
    rows = [row for row in made["options"] if row.get("running_factor") is not None]
    same = (row for row in rows if {each[0] for each in row.get("changes") or ()} == wanted)
    alike = (row for row in rows if not row.get("combined") and any(word in row["name"].lower() for word in words))
    return next(same, None) or next(alike, None)


def _risk(case: Case, made: Json) -> str:
    row = _row_of_the_change(made)
    if row is None or not row.get("risk"):
        return ""
    return cited(f"Known of this change: {row['risk']}", row.get("evidence", ()), case)


def _known_of(case: Case, word: str) -> str:
    rows = [row for row in chosen.alone(case, word) if row.get("risk") or row.get("why_not")]
    for row in rows[:1]:
        against = "; ".join(each for each in (row.get("risk"), row.get("why_not")) if each)
        text = f"Known of {row['name']}, which is not part of the change: {against}; how much is not promised"
        return cited(text, row.get("evidence", ()), case)
    return cited(f"Nothing that was read says what {word} does to speed", looks(case), case)


def quality(case: Case, found: Found) -> str:
    """Whether answers can change by the change, or by the option that was named."""
    outside = chosen.named_outside_the_change(case, found.string)
    if outside:
        return "\n".join(_known_of(case, word) for word in outside)
    made = document(case)
    if not made["changes"]:
        return nothing_to_change(case)
    row = _row_of_the_change(made)
    if row is not None and "quality" in row.get("risk", ""):
        return _risk(case, made)
    flags = ", ".join(each["flag"] for each in made["changes"])
    text = f"{flags}: nothing that was read says that answers change by it"
    return cited(text, sources(case), case)


def speculation(case: Case, _found: Found) -> str:
    """What shows whether drafts pay, and what goes with them."""
    lines = list(said_of(case, "accept_len_p50"))[:2]
    meaning = "accept length is how many tokens a step keeps, 1 without drafts; each step costs more with them"
    if lines:
        lines.append(cited(meaning, [fact.source for fact in case.facts.all("accept_len_p50")], case))
    rows = chosen.alone(case, "speculative")[:1]
    lines += [cited(f"Without it: {chosen.in_short(row)}", row.get("evidence", ()), case) for row in rows]
    told = "Whether it is faster at this load was not measured: compare tokens per second with and without it"
    return "\n".join([*lines, cited(told, looks(case), case)])


def down_with(case: Case, found: Found) -> str:
    """How long a restart takes with a value that is named: the weights are loaded again whatever it is."""
    named, cost = settings_named(case, found.string), restart_cost(case, found)
    if not named or not cost or "load_seconds" not in case.facts:
        return ""
    values = ", ".join(f"{flag} {value:g}" for flag, values in named.items() for value in values)
    same = f"With {values} the same weights are loaded, so about as long; it was not measured"
    return "\n".join([cost, cited(same, [fact.source for fact in case.facts.all("load_seconds")[-1:]], case)])


def out_of_memory(case: Case, found: Found) -> str:
    """What is free on the fullest GPU before and after the change, and what follows if it runs out."""
    made = document(case)
    before, after = _free(made["memory"]), _free(made["memory_after"])
    if before is None:
        lines = [cited("The memory of a GPU was not seen step by step, so that cannot be told", looks(case), case)]
    else:
        text = f"{before['gib']:.2f} GiB are free on a GPU; {before['why_not_spare']}"
        lines = [cited(text, [before["source"]], case)]
    grown = _graphs_that_grow(case)
    lines += [cited(wall["what"].removeprefix(GPU_WALL), wall["evidence"], case) for wall in grown]
    if before is not None and after is not None:
        lines.append(cited(f"after the change {_least(case)} {after['gib']:.2f} GiB", [after["source"]], case))
    elif before is not None and made["changes"]:
        flags = ", ".join(each["flag"] for each in made["changes"])
        lines.append(cited(f"{flags} was checked against GPU and host memory before it was shown", sources(case), case))
    policy = case.facts.get("unit_restart_policy")
    if re.search(r"\bif\b|happen", found.string) and policy is not None:
        text = f"If it runs out, the server ends and its requests with it; the unit restarts it by: {policy.value}"
        lines.append(cited(text, [policy.source], case))
    worse = [each for each in made["rollback"].get("when", ()) if "memory" in each or "retraction" in each]
    if worse and made["changes"]:
        lines.append(cited(f"Go back at {', '.join(worse)}", sources(case), case))
    return "\n".join(lines)


def _graphs_that_grow(case: Case) -> list[Json]:
    """Walls of GPU memory that the change brings nearer."""
    return [wall for wall in (case.advised.walls if case.advised else ()) if wall["what"].startswith(GPU_WALL)]


def _least(case: Case) -> str:
    return "at least" if _graphs_that_grow(case) else "about"


def _free(steps: list[Json]) -> Json | None:
    return next(({"why_not_spare": "", **step} for step in steps if step["name"] == "free"), None)


def _free_told(case: Case, made: Json) -> Iterator[str]:
    """What is free on the fullest GPU now, and after the change where that is summed."""
    free, left = _free(made["memory"]), _free(made["memory_after"])
    if free is not None:
        after = f", after the change {_least(case)} {left['gib']:.2f}" if left else ""
        yield cited(f"Free on a GPU: {free['gib']:.2f} GiB{after}", [free["source"]], case)


def _of_host_memory(case: Case) -> Json | None:
    """The first option by itself that takes host RAM."""
    rows = (row for row in chosen.options_of(case) if row.get("host_gb") and not row.get("combined"))
    return next(rows, None)


def host_memory(case: Case, _found: Found) -> str:
    """What is left of host RAM, what would be taken, and what running out means."""
    lines = [line for name in ("mem_available_bytes", "swap_free_bytes") for line in said_of(case, name)]
    row = _of_host_memory(case)
    lines += [cited(chosen.in_short(row), row.get("evidence", ()), case)] if row is not None else []
    known = [fact for name in ("mem_available_bytes", "mem_total_bytes") if (fact := case.facts.get(name)) is not None]
    if known:
        rule = "what is recommended leaves max(10 GiB, 5 % of MemTotal) free"
        rule += "; when host RAM runs out, the kernel kills a process"
        lines.append(cited(rule, [fact.source for fact in known], case))
    return "\n".join(lines)


def context_length(case: Case, found: Found) -> str:
    """What another context length does: it bounds one request and sizes no pool (sglang 0.5.9
    srt/server_args.py:2961)."""
    longest, pool = case.facts.get("context_len"), case.facts.get("kv_pool")
    held = last(case, "tokens_per_request_p95") or last(case, "tokens_per_request")
    known = [fact for fact in (longest, pool) if fact is not None]
    text = "--context-length says how long one request may get and does not change the size of the KV pool"
    text += f"; it is {amount(longest.value)} tokens here" if longest is not None else ""
    text += f", the pool holds {amount(pool.value)}" if pool is not None else ""
    lines = [cited(text, [fact.source for fact in known] or looks(case), case)]
    if held is not None:
        text = f"A request holds what was sent and answered, here up to about {amount(round(float(held.value)))} tokens"
        lines.append(cited(f"{text}; a smaller limit refuses longer ones, it makes none shorter", [held.source], case))
    wanted = settings_named(case, found.string).get("--context-length", [])
    for tokens in (each for each in wanted if longest is None or each != longest.value):
        text = f"{amount(tokens)} tokens would "
        known = [fact for fact in (held, pool) if fact is not None]
        text += "refuse some of those seen" if held and float(held.value) > tokens else "refuse what is longer"
        text += (
            f"; one request of that length is {tokens / float(pool.value):.2f} of the pool" if pool is not None else ""
        )
        lines.append(cited(text, [fact.source for fact in known] or looks(case), case))
    lines += [
        cited(f"Do not {rule['do']} it for this: {rule['why']}", sources(case), case)
        for rule in (case.advised.must_not if case.advised else ())
        if rule["flag"] == "--context-length"
    ]
    return "\n".join(lines)


def longest_answers(case: Case, _found: Found) -> str:
    """How far the longest answers that clients ask for bound admission."""
    walls = [wall for wall in (case.advised.walls if case.advised else ()) if "max_tokens" in wall["what"]]
    return "\n".join(cited(wall["what"], wall["evidence"], case) for wall in walls)


def pinning(case: Case, _found: Found) -> str:
    """How long host memory is pinned at start: what is known of it, and how much there is to pin."""
    lines, row = list[str](), _of_host_memory(case)
    if row is not None:
        text = f"{row['name']} pins {amount(row['host_gb'])} GB at start, which takes minutes"
        lines.append(cited(text, row["evidence"], case))
    starts = case.facts.all("load_seconds")
    told = "How long was not seen here: no start that was looked at pinned host memory"
    held = chosen.in_force(case, HICACHE)
    if held is not None and held[0].lower() == "true":
        told = "The starts that were seen pin it already"
    if starts:
        told += f"; the last start took {amount(starts[-1].value)} s"
    lines.append(cited(told, [fact.source for fact in starts[-1:]] or looks(case), case))
    return "\n".join(lines)


def graphs(case: Case, _found: Found) -> str:
    """What captured graphs take now and after the change, and the batches that they cover."""
    made = document(case)
    lines = [cited(each["what"], each["evidence"], case) for each in _graphs_that_grow(case)]
    after = {step["name"]: step for step in made["memory_after"]}
    most = "up to" if lines else "about"
    for step in made["memory"]:
        if "graph" in step["name"] and step["source"]:
            then = after.get(step["name"])
            text = f"{step['name']}: {step['gib']:.2f} GiB now"
            if then is not None and abs(then["gib"] - step["gib"]) >= SEEN_GIB:
                text += f", {most} {then['gib']:.2f} after the change"
            lines.append(cited(text, [step["source"]], case))
    largest = case.facts.get("graph_max_bs")
    if largest is not None:
        text = f"They are captured at start, for batches up to {amount(largest.value)} so far"
        lines.append(cited(f"{text}; larger limits capture more sizes, which takes memory", [largest.source], case))
    return "\n".join([*lines, *(_free_told(case, made) if lines else ())])


def works_here(case: Case, found: Found) -> str:
    """Whether an option can work on this host: what stands in force, what is checked, and what is not known."""
    named = chosen.named(found.string)
    if len(named) != 1:
        return chosen.together(case, found)
    _, flag, word = named[0]
    lines: list[str] = []
    if word == "fp8":
        lines += _kernels(case)
    for each in case.advised.changes if case.advised else ():
        if each["flag"] == flag and each.get("valid"):
            lines.append(cited(f"{flag} {each['to'] or 'on'}: {checked(each)}", each["evidence"], case))
    lines += [cited(chosen.in_short(row), row.get("evidence", ()), case) for row in chosen.alone(case, word)[:1]]
    return "\n".join(line for line in lines if line)


def _kernels(case: Case) -> Iterator[str]:
    """The GPU, the attention backend in force, and that nothing here ran it with another KV type."""
    gpu, capability = case.facts.get("gpu_name", "gpu0"), case.facts.get("compute_capability", "gpu0")
    named = chosen.in_force(case, "--attention-backend")
    typed = named[0] if named else "not known: neither the start log nor /server_info was seen"
    known = [fact.source for fact in (gpu, capability) if fact is not None] + ([named[1]] if named else [])
    card = f" on {gpu.value}" if gpu is not None else ""
    card += f" (compute capability {capability.value})" if capability is not None else ""
    yield cited(f"The attention backend in force is {typed}{card}", known or looks(case), case)
    told = "Not known: whether that backend takes an FP8 KV cache of this model on this GPU, and how fast"
    yield cited(
        f"{told}; nothing here ran it; the next start tells, and the way back is at hand", known or looks(case), case
    )


def safe(case: Case, found: Found) -> str:
    """What was checked of the change, its memory, its risks, what a restart loses, and the way back."""
    made = document(case)
    if not made["changes"]:
        return nothing_to_change(case)
    lines = []
    for each in made["changes"]:
        text = checked(each)
        text += "" if each["confirmed"] else "; NOT CONFIRMED on a live host"
        lines.append(cited(f"{each['flag']}: {text}; memory was checked", each["evidence"], case))
    lines.append(_risk(case, made))
    lines += _free_told(case, made)
    if restarts(case):
        lines.append(lost(case, found).partition("\n")[0])
    back = (
        f"The way back takes {len(made['rollback'].get('commands', ())) or 'a few'} commands: ask `how do I undo this`"
    )
    lines.append(cited(f"{back}; nothing is applied by sglscout", sources(case), case))
    return "\n".join(line for line in lines if line)


def _load(case: Case) -> list[Fact]:
    """What ran at the last look and, where that was seen, what waited; empty where the first was not."""
    running, waiting = last(case, "running_p50"), last(case, "queue_p50")
    return [] if running is None else [fact for fact in (running, waiting) if fact is not None]


def _held(load: list[Fact]) -> str:
    told = zip(load, ("ran", "waited"), strict=False)
    return " and ".join(f"{amount(fact.value)} {word}" for fact, word in told)


def safe_now(case: Case, found: Found) -> str:
    """Whether this is the moment for a restart: who is there, how long a start takes, what was decided."""
    lines = []
    load = _load(case)
    if not load:
        lines.append(cited("Whether requests run now was not seen", looks(case), case))
    else:
        busy = any(float(fact.value) > 0 for fact in load)
        moment = "Not without loss: at the last look" if busy else "Nothing would be lost: at the last look"
        lines.append(cited(f"{moment} {_held(load)}", [fact.source for fact in load], case))
    lines.append(restart_cost(case, found))
    allowed = case.facts.get("unit_timeout", "start")
    if allowed is not None:
        lines.append(cited(f"systemd allows a start {span(allowed)}", [allowed.source], case))
    again = f'`sglscout resume {case.opened.id} "look again"` tells how busy it is at that moment'
    lines.append(cited(f"Before it, {again}; have the way back at hand", sources(case), case))
    if case.weighed is None or case.weighed.kind != "cause":
        lines.append(cited("And nothing that is recommended asks for a restart", looks(case), case))
    return "\n".join(line for line in lines if line)


def wait(case: Case, _found: Found) -> str:
    """What waiting costs and what it does not; what comes meanwhile is not promised."""
    process = case.facts.get("running")
    if process is not None and process.value is False:
        text = "The server was not running when it was looked at: nobody is served until it starts"
        return cited(text, [process.source], case)
    lines = []
    load = _load(case)
    if load:
        text = f"At the last look {_held(load)}; whether that gets worse meanwhile is not promised"
        lines.append(cited(text, [fact.source for fact in load], case))
    else:
        lines.append(cited("How busy it is was not seen, so what waiting costs is not known", looks(case), case))
    if case.advised is not None and case.advised.changes:
        text = "The change does not run out: nothing of it is lost by waiting"
        text += ", and a restart at a quiet time ends fewer requests" if restarts(case) else ""
        lines.append(cited(text, sources(case), case))
    again = f'`sglscout resume {case.opened.id} "look again"` tells how it is then'
    return "\n".join([*lines, cited(again, looks(case), case)])
