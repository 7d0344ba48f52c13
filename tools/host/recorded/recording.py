"""A recorded host: figures and files in, the answer of any command of the catalogue out."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from tools.host.recorded.derived import DerivedHost
from tools.host.recorded.errors import RecordingUnreadable
from tools.host.recorded.figures import Figures, read_figures
from tools.host.recorded.files import Missing
from tools.host.recorded.host_programs import programs_of
from tools.host.recorded.shell import Reply, Shell


class Recording(DerivedHost):
    """A recorded host that answers: commands, and what the probe script finds out by itself."""

    def answer(self, command: str | Sequence[Sequence[str]]) -> Reply:
        """Exit status and both streams of a command line, or of a pipeline given as argument lists."""
        return self.shell.line(command) if isinstance(command, str) else self.shell.pipeline(command)

    @cached_property
    def shell(self) -> Shell:
        return Shell(programs_of(self), self.files.glob)

    def discovery(self) -> dict[str, str]:
        """What the probe script finds out by itself before it asks anything (tools/host/probe.sh)."""
        server, launch = self.figures.server, self.launch
        if server is None or launch is None:
            return {}
        flags = launch.flags
        found = {"UNIT": launch.unit, "PORT": str(flags.get("port", "30000"))}
        if self.serving:
            # The window of the start in the journal: from a minute before it to half an hour after.
            since = round(server.started.timestamp()) - 60
            found |= {"PID": str(server.pid), "CGROUP": f"/system.slice/{launch.unit}"}
            found |= {"SINCE": str(since), "UNTIL": str(since + 1860)}
        for name, flag in (("MODEL", "model_path"), ("DRAFT", "speculative_draft_model_path")):
            folder = str(flags.get(flag, ""))
            if folder.startswith("/"):
                found[name] = folder
        if server.dist_info and self._readable(f"{server.dist_info}/METADATA"):
            found["DIST"] = server.dist_info
        if self._readable(f"{server.package}/launch_server.py"):
            found["PACKAGE"] = server.package
            if self._readable(f"{server.package}/_version.py"):
                found["VERSION"] = f"{server.package}/_version.py"
            for top in (server.package.rpartition("/")[0], server.package.rsplit("/", 2)[0]):
                if self._readable(f"{top}/.git/HEAD"):
                    found["GIT"] = f"{top}/.git/refs/heads/main"
        return found

    def _readable(self, path: str) -> bool:
        try:
            self.files.read(path)
        except (Missing, IsADirectoryError):
            return False
        return True

    def altered(self, changes: Mapping[str, Any], into: Path) -> Recording:
        """A copy of the folder with some figures changed.

        `changes` maps `memory.available_gib` or `load.phases.0.hit_rate` to a value, and `flag:--name` to what the
        unit shall say behind that flag (None removes it, True is a switch). Raises RecordingUnreadable for an
        unknown figure.
        """
        shutil.copytree(self.folder, into)
        path = into / "host.yaml"
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
        for name, value in changes.items():
            if name.startswith("flag:"):
                _retype(into / "root", self.figures, name[5:], value)
            else:
                _set(loaded, name, value)
        path.write_text(yaml.safe_dump(loaded, sort_keys=False), encoding="utf-8")
        return Recording(into, tree=self.tree)


def _set(loaded: Any, name: str, value: Any) -> None:
    *path, last = name.split(".")
    here = loaded
    for part in path:
        here = here[int(part)] if isinstance(here, list) else here.setdefault(part, {})
    if isinstance(here, list):
        here[int(last)] = value
    else:
        here[last] = value


def _retype(root: Path, figures: Figures, flag: str, value: Any) -> None:
    """Change, add or remove one flag in the unit file, a flag a line as the shipped units write them."""
    if figures.server is None:
        raise RecordingUnreadable("This recording has no unit to change.")
    path = root / "etc/systemd/system" / figures.server.unit
    lines = path.read_text(encoding="utf-8").splitlines()
    lines = [line for line in lines if line.split()[:1] != [flag]]
    if value is not None:
        place = next(number for number, line in enumerate(lines) if line.startswith("ExecStart="))
        lines.insert(place + 1, f"  {flag} \\" if value is True else f"  {flag} {value} \\")
    for number, line in enumerate(lines[:-1]):
        following = lines[number + 1]
        if line.endswith("\\") and not following.startswith("  "):
            lines[number] = line.removesuffix("\\").rstrip()
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def shipped() -> Path:
    """The folder of the recordings that travel inside the package."""
    return Path(str(resources.files("transcripts") / "recorded"))


def names() -> tuple[tuple[str, str], ...]:
    """(name, title) of every recording that ships, `slots` first, then by name."""
    folders = sorted(shipped().iterdir(), key=lambda item: (item.name != "slots", item.name))
    return tuple((folder.name, read_figures(folder).title) for folder in folders if (folder / "host.yaml").is_file())


def load(where: str | Path, *, tree: Path | None = None) -> Recording:
    """A recording by name or by folder. Raises RecordingUnreadable with the names there are."""
    if isinstance(where, str) and "/" not in where and (shipped() / where / "host.yaml").is_file():
        return Recording(shipped() / where, tree=tree)
    folder = Path(where)
    if not folder.is_dir():
        there = ", ".join(name for name, _ in names())
        raise RecordingUnreadable(f"there is no recording {str(where)!r}.", f"There are: {there}; or give a folder.")
    return Recording(folder, tree=tree)
