"""What one session works with: the host it looks at and the source tree it reads, each opened when first needed.

A target is plain data on the session's first record, so that a later process opens the same things again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.deployed import Progress, differs, named_by, tree_of
from agent.session import Session
from agent.settings import Settings
from transcripts.errors import HostError, Inconclusive, UsageError
from transcripts.facts import Evidence
from transcripts.records import Located, Note
from transcripts.redaction import has_placeholder

if TYPE_CHECKING:
    from tools.host import Host
    from tools.source import Source

Approve = Callable[[str, str], Awaitable[bool]]
Target = dict[str, Any]


def _silent(_what: str, _done: int, _whole: int | None) -> None:
    return None


async def refused(_command: str, _reason: str) -> bool:
    """Nobody is there to ask, so the answer is no."""
    return False


@dataclass(slots=True)
class Workbench:
    """Use as an async context manager; closing it closes the host and ends the recorded server if there is one."""

    settings: Settings
    session: Session
    progress: Progress = _silent
    approve: Approve = refused
    start_read: bool = False  # this process has read what the server was started with
    _host: Host | None = None
    _named: str = ""
    _source: Source | None = None
    _trees: dict[str, Source] = field(default_factory=dict)
    _missing: dict[str, tuple[str, str]] = field(default_factory=dict)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _source_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def __aenter__(self) -> Workbench:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Leave the host, and end the recorded server if there is one."""
        self._host = None
        await self._stack.aclose()

    @property
    def target(self) -> Target:
        return self.session.case.opened.target

    async def host(self) -> Host:
        """The host of the target, connected. Raises HostError."""
        if self._host is None:
            self._host = await self._open_host()
        return self._host

    @property
    def host_name(self) -> str:
        """What evidence is said to be of."""
        return self._named or str(self.target["host"]).rpartition("@")[2]

    async def look_at(self, bundle: Path) -> None:
        """Another bundle than the target takes its place: what a host that nobody may log in to shows later."""
        from tools import host as hosts

        self._host = await self._stack.enter_async_context(hosts.open_bundle(bundle))
        self._named = bundle.name

    def start_unlearnt(self) -> frozenset[str]:
        """Of what the server was started with, the probes whose keys this process cannot know: none where it has read
        them, nor one whose record shows that it held no key."""
        from tools.host import STARTED_WITH

        if self.start_read:
            return frozenset()
        return STARTED_WITH - {item.probe for item in self.session.case.evidence.values() if _held_no_key(item)}

    async def learn_start(self) -> None:
        """Before anything but a look brings text of the host: a session taken up anew knows no key yet."""
        from tools import host as hosts

        if self.session.learn is not None and (unlearnt := self.start_unlearnt()):
            await hosts.learn_start(await self.host(), self.session.learn, unlearnt)
        self.start_read = True

    async def port(self, number: int) -> int:
        """A port of this machine that leads to that port of the host until the host is left. Raises HostError."""
        from tools import host as hosts

        return await self._stack.enter_async_context(hosts.open_port(await self.host(), number))

    async def _open_host(self) -> Host:
        from tools import host as hosts

        target = self.target
        match target["kind"]:
            case "ssh" | "local":
                return await self._stack.enter_async_context(hosts.connect(target["host"]))
            case "bundle":
                return await self._stack.enter_async_context(hosts.open_bundle(Path(target["path"])))
            case "recorded":
                return await self._stack.enter_async_context(self._recorded())
        raise UsageError(f"a target of kind {target['kind']!r} cannot be opened.", "Update sglscout.")

    @asynccontextmanager
    async def _recorded(self) -> AsyncIterator[Host]:
        """Serve the recording over SSH on loopback, and connect to it as to any host."""
        from tools import host as hosts
        from tools.host import recorded

        where = self.target["recording"]
        server = recorded.load(where).figures.server
        tree = await self._tree_of(server.version) if server else None
        async with recorded.serve(where, tree=tree) as served:
            options = hosts.SshOptions(
                config_file=None, known_hosts=(served.known_hosts,), key_files=(served.client_key,), port=served.port
            )
            async with hosts.connect(f"{served.user}@{served.host}", options=options) as host:
                yield host

    async def _tree_of(self, version: str) -> Path | None:
        """The tree a recorded host has installed: that of its version, if it is to be had."""
        try:
            return (await self._obtain(version)).root
        except Inconclusive:
            return None

    async def source(self) -> Source:
        """The tree of the deployed version, pinned on record. Raises Inconclusive when it is not to be had."""
        async with self._source_lock:
            if self._source is None:
                with named_by("--sglang-version V or --source PATH"):
                    self._source = await self._pinned()
            return self._source

    async def _pinned(self) -> Source:
        case = self.session.case
        located = case.located or (Located.model_validate(case.opened.source) if case.opened.source else None)
        version = located.version if located else case.facts.text("version")
        if not version and not self.target.get("source"):
            raise Inconclusive("the version of SGLang is not known.", "Name a version or a tree.")
        source = await self._of_host(version, located) or await self._obtain(version)
        if located is not None and located.digest and located.digest != source.digest:
            raise Inconclusive(f"the tree of {version} is not the one this case was worked on with.", "Name that tree.")
        if located is None:
            self.session.record(
                Located(
                    version=source.version,
                    origin=source.origin,
                    digest=source.digest,
                    root=str(source.root),
                    differs=differs(source),
                )
            )
        return source

    async def _of_host(self, version: str, located: Located | None) -> Source | None:
        """The tree that the host really runs, brought over as text; None where the release has to stand in for it."""
        from tools import source as sources

        if located is not None:
            if located.origin != "host":
                return None
            return await sources.obtain(version, path=Path(located.root), cache=self.settings.cache)
        facts = self.session.case.facts
        if self.target["kind"] not in ("ssh", "local") or not facts.text("install_path") or self.target.get("source"):
            return None
        try:
            return await tree_of(await self.host(), facts, version, self.settings.cache, self.progress)
        except (Inconclusive, HostError) as error:
            self.session.record(Note(text=f"the host's own tree was not read, the release is read instead: {error}"))
            return None

    async def _obtain(self, version: str) -> Source:
        """The tree of a version, or the one at `--source`; each is opened, or asked for in vain, once."""
        from tools import source as sources

        if version in self._missing:
            raise Inconclusive(*self._missing[version])
        if version not in self._trees:
            path = self.target.get("source")
            try:
                self._trees[version] = await sources.obtain(
                    version or None,
                    path=Path(path) if path else None,
                    cache=self.settings.cache,
                    progress=self.progress,
                )
            except Inconclusive as error:
                self._missing[version] = (error.message, error.hint)
                self.progress(error.message, 0, None)
                raise
        return self._trees[version]


def _held_no_key(item: Evidence) -> bool:
    return not (item.problem or item.truncated or has_placeholder(item.text))
