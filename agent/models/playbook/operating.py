"""Answers about acting on a case: what to type, what it costs, what gets worse, how to verify it, how to go back."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from agent.case import Case
from agent.document import document, next_look
from agent.models.playbook.answer import cited, leading, sources_of
from agent.views.terminal import rolled_back_when
from agent.views.words import amount, change_told
from tools import advice
from transcripts.facts import Fact

Json = dict[str, Any]
Found = re.Match[str]


def change(case: Case, _found: Found) -> str:
    """What to change and why, then the commands, each on a line of its own."""
    advised = case.advised
    changes = advised.changes if advised else ()
    if not changes:
        return nothing_to_change(case)
    lines = [cited(f"{change_told(each)}: {each['why']}", each["evidence"], case) for each in changes]
    stages = [stage for stage in (advised.stages if advised else ()) if stage["commands"]]
    for stage in stages:
        lines += [cited(f"{stage['title']}, with these commands", sources(case), case), *_typed(stage["commands"])]
    if not stages:
        lines.append(
            cited("How the server is launched was not seen; add it to the launch command", sources(case), case)
        )
    return "\n".join(lines)


def by_hand(case: Case, found: Found) -> str:
    """Who applies the change: the operator, with the commands that are shown."""
    alone = cited(
        "Nothing is changed from here: this program only reads, and a change is made by hand", looks(case), case
    )
    return "\n".join([alone, change(case, found)])


def rollback(case: Case, _found: Found) -> str:
    """When to go back, then the commands."""
    made = document(case)
    if not made["changes"]:
        return nothing_to_change(case)
    when = f", when one of these is seen: {'; '.join(rolled_back_when(made))}"
    commands = made["rollback"].get("commands", [])
    if not commands:
        before = "; ".join(f"{each['flag']} to {each['from'] or 'not set'}" for each in made["changes"])
        return cited(f"Put back {before} where the server is launched, and restart it{when}", sources(case), case)
    return "\n".join([cited(f"Go back with these commands{when}", sources(case), case), *_typed(commands)])


def _typed(commands: Iterable[str]) -> list[str]:
    """Commands as lines; what is a note for the reader is no command and left out."""
    return [line for each in commands if not each.startswith("#") for line in each.splitlines()]


def sources(case: Case) -> list[str]:
    """What the changes rest on; everything looked at where there is none."""
    advised = case.advised
    return [ref for each in (advised.changes if advised else ()) for ref in each["evidence"]] or looks(case)


def looks(case: Case) -> list[str]:
    """Looks that brought something."""
    return [item.id for item in case.evidence.values() if not item.problem]


def nothing_to_change(case: Case) -> str:
    """Why there is no change, and what would decide it."""
    kind = case.weighed.kind if case.weighed else "abstain"
    why = "nothing wrong was found" if kind == "healthy" else "the cause is not decided"
    if kind == "cause":
        refused = "; ".join(
            f"{each['what']}: {each['reason']}" for each in (case.advised.refused if case.advised else ())
        )
        why = f"what was proposed did not pass its checks: {refused}" if refused else "the cause has no setting"
    told = f"No change is recommended, since {why}; so there is nothing to undo or to verify"
    lines = [cited(told, looks(case), case)]
    look = next_look(case)
    if kind == "abstain" and look:
        text = f"What would decide it: `{look['command']}` in a busy minute, then `{look['then']}`"
        lines.append(cited(text, [look["from"]], case))
    return "\n".join(lines)


def verify(case: Case, _found: Found) -> str:
    made = document(case)
    lines = [f"the next boot should print {item['what']} ({item['where']})" for item in made["expected"]]
    lines += [
        f"watch {item['metric']} for {item['window_s'] // 60} minutes: better {item['better']}, worse {item['worse']}"
        for item in made["verify"]
    ]
    if lines:
        lines.append(f"after that, `{made['ids']['verify']}` compares with what is known now")
    return _lines(lines, sources(case), case) or nothing_to_change(case)


def wall(case: Case, _found: Found) -> str:
    walls = case.advised.walls if case.advised else ()
    if case.advised is None or not case.advised.changes:
        return nothing_to_change(case)
    return "\n".join(cited(f"Next: {each['what']}", each["evidence"], case) for each in walls)


def must_not(case: Case, _found: Found) -> str:
    rules = case.advised.must_not if case.advised else ()
    return _lines([f"Do not {each['do']} {each['flag']}: {each['why']}" for each in rules], sources(case), case)


def no_restart(case: Case, _found: Found) -> str:
    """What can be done before the next restart, and what has to wait for it."""
    made = document(case)
    live = [stage for stage in made["stages"] if not stage.get("restart")]
    lines = [f"Without a restart: {stage['title']}" for stage in live]
    waiting = [flag for stage in made["stages"] if stage.get("restart") for flag in stage["changes"]]
    if waiting:
        they = "is read at start only, so it waits" if len(waiting) == 1 else "are read at start only, so they wait"
        lines.append(f"{', '.join(waiting)} {they} for the next restart")
        lines.append("the drop-in can be put in place now: it is read when the unit is started again")
    return _lines(lines, sources(case), case) or nothing_to_change(case)


def restart_cost(case: Case, _found: Found) -> str:
    """How long nothing answers, from starts that were seen."""
    starts = [fact for fact in case.facts.all("load_seconds") if isinstance(fact.value, int | float)]
    if not starts:
        return cited("How long a start takes is not known: no whole start was seen in the journal", looks(case), case)
    longest = max(starts, key=lambda fact: float(fact.value))
    last = starts[-1]
    text = f"About {amount(last.value)} s from start to ready, as the last start took"
    count = advice.restart_cost(case.facts).starts
    text += f"; the longest of {count} took {amount(longest.value)} s" if count > 1 else ""
    text += f"; with a rollback twice that, {amount(2 * float(longest.value))} s"
    if not restarts(case):
        text += "; what is recommended needs no restart" if case.advised and case.advised.changes else ""
    return cited(text, [last.source, longest.source], case)


def span(timeout: Fact) -> str:
    """`20min` as systemd tells it, `1200 s` as a unit file does."""
    return f"{timeout.value} s" if str(timeout.value).isdecimal() else str(timeout.value)


def restarts(case: Case) -> bool:
    """Whether the change needs the server to be started again."""
    return any(stage.get("restart") for stage in (case.advised.stages if case.advised else ()))


def lost(case: Case, _found: Found) -> str:
    """What happens to requests when the server is restarted."""
    running, waiting = last(case, "running_p50"), last(case, "queue_p50")
    if running is None:
        return cited("How many requests run now was not seen; a restart ends those that do", looks(case), case)
    held = f"{amount(running.value)} requests ran" + (f" and {amount(waiting.value)} waited" if waiting else "")
    stop = case.facts.get("unit_timeout", "stop")
    until = f"the stop timeout of {span(stop)}" if stop is not None else "the stop timeout of the unit"
    named = [fact.source for fact in (running, waiting, stop) if fact is not None]
    lines = [
        cited(f"At the last look {held}; a restart ends them: what has not finished when {until} is over is lost, and "
              "its client has to send it again", named, case)
    ]  # fmt: skip
    usage, pool = last(case, "usage_p50"), last(case, "kv_pool")
    if usage is not None and pool is not None:
        tokens = float(pool.value) * float(usage.value)
        text = f"up to {amount(round(tokens))} tokens of KV in the pool go as well, cached prefixes among them"
        lines.append(cited(text, [usage.source, pool.source], case))
    if not restarts(case):
        lines.append(cited("what is recommended needs no restart, so nothing is lost", sources(case), case))
    return "\n".join(lines)


def ended(case: Case, _found: Found) -> str:
    """What ending requests by hand would give; none is ended from here."""
    held, most, waiting = (last(case, name) for name in ("tokens_per_request", "tokens_per_request_p95", "queue_p50"))
    lines = []
    if held is not None:
        each = amount(round(float(held.value)))
        text = f"How long each request is was not seen; a running one holds about {each} tokens"
        text += f", one in twenty {amount(round(float(most.value)))} or more" if most is not None else ""
        lines.append(cited(text, [fact.source for fact in (held, most) if fact is not None], case))
    else:
        lines.append(cited("Which requests run and how long each is was not seen", looks(case), case))
    text = "One that is ended is lost, its client has to send it again, and its room goes to the next that waits"
    text += f": {amount(waiting.value)} waited at the last look" if waiting is not None and waiting.value else ""
    lines.append(cited(text, [waiting.source] if waiting is not None else looks(case), case))
    row = leading(case)
    if row is not None:
        named = sources_of(row.supporting)
        kept = "What causes it stays" if case.weighed and case.weighed.kind == "cause" else "The strongest lead stays"
        lines.append(cited(f"{kept}: {row.statement}", named, case))
    return "\n".join([*lines, cited("Nothing is ended from here: this program only reads", looks(case), case)])


def logs(case: Case, _found: Found) -> str:
    """How to see the server's log, and which part of it was read."""
    name, pid = case.facts.get("unit_name"), case.facts.get("pid")
    lines = []
    if name is not None:
        lines.append(cited(f"`journalctl -u {name.value} -f` follows it on the host", [name.source], case))
    elif pid is not None:
        lines.append(cited(f"No unit was seen; PID {pid.value} is the server's", [pid.source], case))
    read = [item for item in case.evidence.values() if not item.problem and item.probe in _LOGS]
    lines += [
        cited(f"{item.id} ({item.probe}) has {amount(item.lines)} lines of what was read", [item.id], case)
        for item in read
    ]
    if read:
        lines.append(cited(f"Here `show {read[0].id}:1` shows a line of it", [read[0].id], case))
    return "\n".join(lines)


_LOGS: Final = frozenset({
    "journal_boot", "journal_recent", "container_boot", "container_log", "podman_log", "log_boot", "log_recent",
    "pasted",
})  # fmt: skip


def message(case: Case, found: Found) -> str:
    """What others need to know, in a few lines: what is wrong, what will be done, what that costs."""
    row = leading(case)
    lines = []
    if row is not None:
        named = sources_of(row.supporting)
        decided = (
            "What is wrong" if case.weighed and case.weighed.kind == "cause" else "Not decided yet; the first lead"
        )
        lines.append(cited(f"{decided}: {row.statement}", named, case))
    lines += [
        cited(f"What is to be done: {change_told(each)}", each["evidence"], case)
        for each in (case.advised.changes if case.advised else ())
    ]
    if restarts(case):
        lines += [restart_cost(case, found), lost(case, found).partition("\n")[0]]
    told = f"`sglscout writeup {case.opened.id}` tells all of it, `--share` without hosts, users and prompts"
    return "\n".join([*(line for line in lines if line), cited(told, looks(case), case)])


def permanent(case: Case, _found: Found) -> str:
    """Where the change is kept."""
    launch = case.advised.launch if case.advised else {}
    if not launch:
        return nothing_to_change(case)
    kept = f"It is written to {launch['path']}" if launch.get("path") else f"It stands in the {launch['form']} command"
    return cited(f"{kept}, so it holds after a reboot and until the way back is taken", sources(case), case)


def drain(case: Case, found: Found) -> str:
    """Whether requests have to be kept away before a restart, and how to see that none is left."""
    told = lost(case, found)
    if not restarts(case):
        return told
    how = (
        "So keep new ones away at your gateway first, and restart when none runs: "
        f'`sglscout resume {case.opened.id} "look again"` tells how many do'
    )
    return "\n".join([*told.splitlines()[:1], cited(how, sources(case), case)])


def unit(case: Case, _found: Found) -> str:
    """The unit or other form that starts the server, and the file that the change is written to."""
    name, file, form = (case.facts.get(each) for each in ("unit_name", "unit_file", "launch_form"))
    lines = []
    if name is not None:
        text = f"{name.value} starts it" + (f", from {file.value}" if file is not None else "")
        lines.append(cited(text, [each.source for each in (name, file) if each], case))
    elif form is not None:
        lines.append(cited(f"No unit was seen; it is launched as {form.value}", [form.source], case))
    launch = case.advised.launch if case.advised else {}
    if launch.get("path"):
        lines.append(cited(f"The change is written to {launch['path']}", sources(case), case))
    return "\n".join(lines) or cited("What was looked at does not tell how it is started", looks(case), case)


def restart_how(case: Case, _found: Found) -> str:
    """The command that restarts it; it is the operator's to run."""
    name = case.facts.get("unit_name")
    if name is None:
        return ""
    text = f"`systemctl restart {name.value}` restarts it; sglscout only reads and leaves that to you"
    return cited(text, [name.source], case)


def touched(case: Case, _found: Found) -> str:
    """What was run on the host; nothing of it writes."""
    asked = [item for item in case.evidence.values() if item.host not in ("", "operator")]
    shown = "; ".join(
        f"`{item.command}`" for item in asked if not item.problem and item.command[:1] != "(" and len(item.command) < 70
    )
    lines = [
        cited(f"Nothing was changed: {len(asked)} looks were made, each a command that only reads", looks(case), case)
    ]
    if shown:
        lines.append(cited(f"Among them {'; '.join(shown.split('; ')[:5])}", looks(case), case))
    more = "the appendix of the write-up lists every command with its exit code"
    return "\n".join([*lines, cited(more, looks(case), case)])


def last(case: Case, name: str) -> Fact | None:
    """The value of a measure at the last look, if it is a number."""
    fact = case.facts.get(name)
    return fact if fact is not None and isinstance(fact.value, int | float) else None


def _lines(texts: Iterable[str], references: list[str], case: Case) -> str:
    return "\n".join(_cited_all(texts, references, case))


def _cited_all(texts: Iterable[str], references: list[str], case: Case) -> Iterator[str]:
    for text in texts:
        yield cited(text, references, case)
