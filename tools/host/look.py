"""Looking at a host: every standard probe in one round trip, each answer handed on as soon as it is whole."""

from __future__ import annotations

import secrets
import shlex
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Protocol

from tools.host.errors import ConnectionLost, NoShell, OtherShell
from tools.host.framing import DISCOVERY, Answer, Splitter, compose, fill
from tools.host.probes import STANDARD, Probe
from tools.host.transport import Transport
from transcripts.errors import HostError
from transcripts.facts import Evidence

LIMIT_S: Final = 60.0
LIMIT_BYTES: Final = 16 << 20
COST: Final = "cost"
STARTED_WITH: Final = frozenset({"process", "unit_files"})
OTHER_SHELLS: Final = frozenset({"fish", "csh", "tcsh", "nu", "xonsh", "elvish", "pwsh", "rc", "es", "ion"})
_MISSING: Final = ("failed to run command", "command not found", "not found")
_DENIED: Final = ("Permission denied", "Operation not permitted", "insufficient permissions", "Access denied")


@dataclass(frozen=True, slots=True)
class Observation:
    """What one probe brought; the caller numbers it and reads facts from it."""

    probe: str
    command: str
    host: str
    at: str
    exit: int | None
    text: str
    truncated: bool = False
    seconds: float = 0.0
    problem: str = ""

    def evidence(self, identity: str) -> Evidence:
        """The same under the number that the caller gives it."""
        return Evidence(
            identity,
            self.probe,
            self.command,
            self.host,
            self.at,
            self.exit,
            self.text,
            self.truncated,
            self.seconds,
            self.problem,
        )


class Host(Protocol):
    """Something that can be looked at, and asked single commands that the policy allows."""

    @property
    def name(self) -> str: ...

    def observe(self, probes: Iterable[Probe]) -> AsyncGenerator[Observation, None]: ...

    async def run(self, command: str, *, limit_s: float = 20.0, limit_bytes: int = 256 * 1024) -> Observation: ...

    async def close(self) -> None: ...


class ShellHost:
    """A host behind a transport."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    @property
    def name(self) -> str:
        return self.transport.name

    async def observe(self, probes: Iterable[Probe]) -> AsyncGenerator[Observation, None]:
        """One script for all of them. Raises HostError; what had arrived was handed on before."""
        asked = {probe.name: probe for probe in probes}
        marker = secrets.token_hex(16)
        splitter = Splitter(marker)
        script = compose(asked.values(), marker)
        slots: dict[str, str] = {}
        begun = time.monotonic()
        received = 0
        try:
            # Closed by name: a generator that is merely left would end the remote side some time later.
            async with aclosing(self.transport.script(script, limit_s=LIMIT_S, limit_bytes=LIMIT_BYTES)) as stream:
                async for data in stream:
                    received += len(data)
                    for answer in splitter.feed(data):
                        probe = asked.get(answer.name)
                        if probe is not None:
                            yield observation(probe, answer, slots, self.name, _now())
                        elif answer.name == DISCOVERY:
                            slots = slots_of(answer.output.decode("utf-8", "replace"))
                            yield self._discovery(answer)
        finally:
            if not splitter.done:
                await self._end(slots.get("SID", ""))
        if not splitter.done:
            raise ConnectionLost(self.name) if received else NoShell(self.name)
        if splitter.cpu_s is not None:
            yield self._cost(splitter.cpu_s, time.monotonic() - begun, received, len(asked))

    async def run(self, command: str, *, limit_s: float = 20.0, limit_bytes: int = 256 * 1024) -> Observation:
        """One regenerated command line of the policy. Raises HostError."""
        marker = secrets.token_hex(16)
        # One stream from the start: over SSH two would arrive in either order.
        script = f"exec 2>&1\necho {marker}\n( {command} ) </dev/null; code=$?; printf '\\n{marker} %s\\n' \"$code\"\n"
        output = b""
        async with aclosing(self.transport.script(script, limit_s=limit_s, limit_bytes=limit_bytes)) as stream:
            async for data in stream:
                output += data
        said = output.partition(f"{marker}\n".encode())[2]  # what a login script says first is not the command's
        body, found, code = said.rpartition(f"\n{marker} ".encode())
        text = (body if found else said).decode("utf-8", "replace")
        exit_status = int(code) if found and code.strip().isdigit() else None
        return Observation(
            "command", command, self.name, _now(), exit_status, text, not found, 0.0, problem_of(text, exit_status)
        )

    async def close(self) -> None:
        await self.transport.close()

    async def _end(self, session: str) -> None:
        """End a script that was left half-way: OpenSSH takes no signals for a root login, so a second one is sent."""
        if not session.isdecimal() or not self.transport.login_shell:
            return
        with suppress(HostError):
            script = f"PATH=/usr/bin:/bin\nexec pkill -KILL -s {int(session)}\n"
            async with aclosing(self.transport.script(script, limit_s=5.0, limit_bytes=1024)) as stream:
                async for _ in stream:
                    pass

    def _cost(self, cpu_s: float, seconds: float, received: int, asked: int) -> Observation:
        text = f"cpu_seconds={cpu_s:.2f}\nseconds={seconds:.2f}\nbytes={received}\nprobes={asked}\n"
        return Observation(COST, "(what looking cost the host)", self.name, _now(), 0, text, seconds=round(seconds, 2))

    def _discovery(self, answer: Answer) -> Observation:
        text = answer.output.decode("utf-8", "replace")
        shell = slots_of(text).get("SHELL", "").rpartition("/")[2]
        if self.transport.login_shell and shell in OTHER_SHELLS:
            raise OtherShell(self.name, shell)
        return Observation(DISCOVERY, "(the probe script's own discovery)", self.name, _now(), answer.exit, text)


async def look(
    host: Host,
    *,
    skip: frozenset[str] = frozenset(),
    redact: Callable[[str], str] = str,
    learn: Callable[[str], None] | None = None,
    unlearnt: frozenset[str] = STARTED_WITH,
) -> AsyncGenerator[Observation, None]:
    """The standard probes that are not in `skip`, redacted, in order of arrival. Raises HostError.

    `learn` is given what the server was started with, before anything is redacted: what comes earlier waits for it, so
    that a key of the command line is known in a log that tells it in another form. A probe of `unlearnt` is asked for
    again where it is in `skip`, and then only learnt from.
    """
    if skip.issuperset((DISCOVERY, *(probe.name for probe in STANDARD))):
        return
    learnt = (STARTED_WITH - skip) | unlearnt if learn else frozenset[str]()
    wanted = [probe for probe in STANDARD if probe.name not in skip or probe.name in learnt]
    awaited = {probe.name for probe in wanted} & learnt
    held: list[Observation] = []
    lost: HostError | None = None
    async with aclosing(host.observe(wanted)) as stream:
        try:
            async for seen in stream:
                if learn and seen.probe in learnt:
                    learn(seen.text)
                awaited.discard(seen.probe)
                held.append(seen)
                while held and not awaited:
                    if (first := held.pop(0)).probe not in skip:
                        yield _redacted(first, redact)
        except HostError as error:
            lost = error
    for seen in held:
        if seen.probe not in skip:
            yield _redacted(seen, redact)
    if lost is not None:
        raise lost


async def learn_start(host: Host, learn: Callable[[str], None], unlearnt: frozenset[str] = STARTED_WITH) -> None:
    """Let `learn` know what the server was started with, and keep nothing of it. Raises HostError."""
    async with aclosing(host.observe([probe for probe in STANDARD if probe.name in unlearnt])) as stream:
        async for seen in stream:
            if seen.probe in unlearnt:
                learn(seen.text)


def _redacted(seen: Observation, redact: Callable[[str], str]) -> Observation:
    return replace(seen, command=redact(seen.command), text=redact(seen.text))


def observation(probe: Probe, answer: Answer, slots: dict[str, str], host: str, at: str) -> Observation:
    """A probe's answer as it is kept: the command as it was run, the text, and a word where it brought nothing."""
    text = answer.output.decode("utf-8", "replace")
    text = text[:-1] if text.endswith("\n\n") else text
    problem = "skipped" if answer.skipped else problem_of(text, answer.exit)
    command = shlex.join(fill(probe.argv, slots))
    return Observation(probe.name, command, host, at, answer.exit, text, answer.truncated, answer.seconds, problem)


def slots_of(text: str) -> dict[str, str]:
    """What the script found for itself, by slot."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key.upper(): value for key, sign, value in pairs if sign and value}


def problem_of(text: str, exit_status: int | None) -> str:
    """In a word why nothing came: missing, denied, timeout, refused; empty when something did."""
    if exit_status == 0 or exit_status is None:
        return ""
    head = text[:2000]
    if exit_status in (124, 137):
        return "timeout"
    if exit_status == 127 or (exit_status == 126 and any(word in head for word in _MISSING)):
        return "missing"
    if any(word in head for word in _DENIED):
        return "denied"
    if exit_status == 7 or "Connection refused" in head:
        return "refused"
    if "No such file or directory" in head:
        return "missing"
    return "" if head.strip() else "empty"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
