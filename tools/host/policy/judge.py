"""From text to verdict: grammar, then each stage against the catalogue, then the worst of all.

Deny beats ask beats allow. What does not parse is denied; a command that the catalogue does not know asks.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tools.host.policy import paths
from tools.host.policy.catalogue import ENTRIES, HTTP_READER_ONLY, WRAPPERS, Wrapper, changes, refused
from tools.host.policy.grammar import Refused, parse
from tools.host.policy.options import Entry, read
from tools.host.policy.send import regenerate
from tools.host.policy.verdict import Finding, Privacy, Stage, Verdict, ask, deny, worst

_SYSTEM_FOLDERS: Final = frozenset({"/usr/bin", "/bin", "/usr/sbin", "/sbin"})
_PROGRAM: Final = re.compile(r"[A-Za-z0-9_.+/-]+")
_LOOSE_FOLDERS: Final = re.compile(r"/(tmp|var/tmp|dev/shm|home|root|run|proc)(/|$)")
SGLANG_PORTS: Final = frozenset({30000})  # sglang 0.5.9 srt/server_args.py:311
_PRIVACY: Final[dict[Privacy, int]] = {"plain": 0, "redact": 1, "ask": 2}


@dataclass(frozen=True, slots=True)
class _Judged:
    argv: tuple[str, ...]
    findings: tuple[Finding, ...]
    entry: Entry | None
    privacy: Privacy = "plain"
    paths: tuple[str, ...] = ()
    carves: bool = False


def judge(command: str, *, user: str = "root", reader: bool = False, ports: frozenset[int] = SGLANG_PORTS) -> Verdict:
    """The verdict on one command line for the login `user`.

    `ports` are those at which the server was found on the host; without a host it is SGLang's own default.
    `reader` is set by the program's own probes alone, never for text from a model: it lets through what is allowed only
    because the probe's parser takes the keys out (SGLang's server info).
    """
    try:
        calls = parse(command)
    except Refused as refused:
        return Verdict("deny", f"[{refused.tag}] {refused.why}", refused.position, (), "", "plain", command, user)
    plan = tuple(Stage(tuple(word.text for word in call.words), call.joined, call.stderr) for call in calls)
    verdict = judge_stages(plan, asked=command, user=user, reader=reader, ports=ports)
    open_words = {word.text for call in calls for word in call.words if word.glob}
    quoted = next((word for call in calls for word in call.words if word.glob and word.text not in verdict.paths), None)
    if quoted is not None and verdict.kind != "deny":
        reason = f"[glob] {quoted.text} is a pattern where no path belongs: quote it"
        return replace(verdict, kind="deny", reason=reason, command="", position=quoted.position)
    return replace(verdict, globs=tuple(path for path in verdict.paths if path in open_words))


def judge_stages(
    plan: Sequence[Stage],
    *,
    asked: str = "",
    user: str = "root",
    reader: bool = False,
    ports: frozenset[int] = SGLANG_PORTS,
) -> Verdict:
    """The verdict on stages that are argv already."""
    judged = [_judge_stage(stage, reader, ports) for stage in plan]
    findings = [finding for stage in judged for finding in stage.findings]
    findings.extend(_between(plan, judged))
    done = tuple(replace(stage, argv=result.argv) for stage, result in zip(plan, judged, strict=True))
    gravest = worst(findings)
    kind = gravest.kind if gravest else "allow"
    privacy = max((stage.privacy for stage in judged), key=_PRIVACY.__getitem__)
    return Verdict(
        kind=kind,
        reason=f"[{gravest.tag}] {gravest.why}"
        if gravest
        else "[read] every stage is a reading entry of the catalogue",
        position=None,
        stages=tuple(stage.argv for stage in done),
        command="" if kind == "deny" else regenerate(done),
        privacy="ask" if kind == "ask" and privacy == "plain" else privacy,
        asked=asked,
        user=user,
        plan=done,
        paths=tuple(dict.fromkeys(path for stage in judged for path in stage.paths)),
        ports=ports,
    )


def _judge_stage(stage: Stage, reader: bool, ports: frozenset[int]) -> _Judged:
    program, *rest = stage.argv
    name = program.rpartition("/")[2]
    findings = [*_program(program, name)]
    arguments = tuple(rest)
    wrapper = WRAPPERS.get(name)
    if wrapper is not None and (name not in ENTRIES or wrapper.inner(arguments)):
        return _unwrap(stage, wrapper, findings, reader, ports)
    if name not in ENTRIES and (refusal := refused(name)) is not None:
        return _Judged(stage.argv, (refusal, *findings), None)
    entry = ENTRIES.get(name)
    if entry is None:
        if any(map(paths.mentions_secret, arguments)):
            findings.append(deny("secret", f"{name} is given a file that holds keys"))
        if changes(arguments):
            findings.append(deny("mutate", f"{name} is not in the catalogue, and is told to change something"))
        findings.append(ask("unknown", f"{name} is not in the catalogue"))
        return _Judged(stage.argv, tuple(findings), None, "ask")
    if stage.joined == "|" and not entry.reads_input:
        findings.append(deny("shape", f"{name} does not read what is piped into it"))
    argv = [program if program.startswith("/") and findings else entry.path]
    top, sub = entry, entry
    if entry.verbs:
        verb = arguments[0] if arguments else ""
        if (found := entry.verbs.get(verb)) is not None:
            sub, arguments = found, arguments[1:]
            argv.append(verb)
        elif not entry.options or (verb and not verb.startswith("-")):
            return _Judged(
                stage.argv, (entry.unknown or deny("mutate", f"{name} {verb} is not a reading verb"), *findings), None
            )
    findings.extend(each.finding for each in {id(top): top, id(sub): sub}.values() if each.finding is not None)
    # What the entry adds stands there already when a verdict is given anew on real paths.
    given = tuple(word for word in arguments if word not in sub.adds or word in sub.options)
    parsed, problems = read(sub, given, stage.joined == "|", ports)
    if reader:
        problems = [problem for problem in problems if problem is not HTTP_READER_ONLY]
    argv.extend(word for word in sub.adds if word not in arguments)
    carves = sub.carves is not None and sub.carves(parsed)
    return _Judged((*argv, *arguments), (*findings, *problems), sub, sub.privacy, parsed.paths, carves)


def _program(program: str, name: str) -> list[Finding]:
    folder, slash, _ = program.rpartition("/")
    if not _PROGRAM.fullmatch(program):
        return [deny("shape", f"{program!r} is not the name of a program")]
    if not slash:
        return []
    if not program.startswith("/"):
        return [deny("exec", f"{program} is a program at a relative path")]
    if "/../" in program or "/./" in program or "//" in program:
        return [deny("path", f"{program} is written with '..' or '//'")]
    if folder in _SYSTEM_FOLDERS:
        return []
    known = ENTRIES.get(name)
    if known is not None and known.path == program:
        return []
    if _LOOSE_FOLDERS.match(program):
        return [deny("exec", f"{program} lies where others than root may write")]
    return [ask("path", f"{program} is not where the system keeps {name}")]


def _unwrap(stage: Stage, wrapper: Wrapper, findings: list[Finding], reader: bool, ports: frozenset[int]) -> _Judged:
    """A wrapper is as bad as what it runs; one with any option not known here is refused."""
    inner = wrapper.inner(stage.argv[1:])
    if not inner:
        return _Judged(
            stage.argv, (deny("wrapper", f"{stage.argv[0]} is used in a way that is not read"), *findings), None
        )
    judged = _judge_stage(replace(stage, argv=inner), reader, ports)
    kept = stage.argv[1 : len(stage.argv) - len(inner)]
    extra = (wrapper.finding,) if wrapper.finding else ()
    return replace(judged, argv=(wrapper.path, *kept, *judged.argv), findings=(*judged.findings, *findings, *extra))


def _between(plan: Sequence[Stage], judged: Sequence[_Judged]) -> list[Finding]:
    """What a pipeline does that its stages alone do not, and what is cut out of a text that may hold keys."""
    findings: list[Finding] = []
    bearing = False
    for stage, result in zip(plan, judged, strict=True):
        if stage.joined != "|":
            bearing = False
        entry = result.entry
        reads_keys = any(map(paths.bears_keys, result.paths))
        if result.carves and (bearing or reads_keys):
            findings.append(ask("secret", f"{stage.argv[0]} can cut a key out of its line, past redaction"))
        bearing = bearing or reads_keys or (entry is not None and entry.bears_keys)
    return findings
