"""Where a name leads: user, address, port, keys, jumps, known hosts, as `ssh -G` reads the configuration."""

from __future__ import annotations

import getpass
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from transcripts.errors import UsageError
from transcripts.paths import at_home

_TARGET = re.compile(
    r"^(?:(?P<user>[A-Za-z0-9._-]+)@)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d+))?$"
)


@dataclass(frozen=True, slots=True)
class SshOptions:
    """What overrules the operator's configuration; `config_file` None reads none at all."""

    config_file: Path | None = Path("~/.ssh/config")
    known_hosts: tuple[Path, ...] | None = None
    key_files: tuple[Path, ...] | None = None
    port: int | None = None
    connect_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Route:
    """One hop, resolved. `known_as` are the names its key may stand under; the first is where a new one is kept."""

    alias: str
    user: str
    host: str
    port: int
    key_files: tuple[Path, ...]
    known_hosts: tuple[Path, ...]
    jumps: tuple[str, ...]
    agent: bool
    known_as: tuple[str, ...] = ()
    certificates: tuple[Path, ...] = ()


def resolve(target: str, options: SshOptions) -> Route:
    """The route to `[user@]host[:port]`. Raises UsageError on what is no such thing."""
    found = _TARGET.match(target)
    if found is None or found["host"].startswith("-"):
        raise UsageError(f"{target!r} is no host.", "Write USER@HOST[:PORT], or a name of your SSH configuration.")
    host = found["host"].strip("[]")
    values = _configured(host, found["user"], options)
    port = options.port or int(found["port"] or values.get("port", ["22"])[0])
    known = options.known_hosts or tuple(
        at_home(name) for key in ("userknownhostsfile", "globalknownhostsfile") for name in values.get(key, [])
    )
    keys = options.key_files or tuple(at_home(name) for name in values.get("identityfile", []))
    jump = values.get("proxyjump", ["none"])[0]
    address = values.get("hostname", [host])[0]
    if jump == "none" and values.get("proxycommand", ["none"])[0] != "none":
        raise UsageError(
            f"{host} is reached by a ProxyCommand, which is a program and is not run.", "Write it as ProxyJump."
        )
    return Route(
        alias=host,
        user=found["user"] or values.get("user", [getpass.getuser()])[0],
        host=address,
        port=port,
        key_files=tuple(key for key in keys if key.exists()),
        known_hosts=known,
        jumps=() if jump == "none" else tuple(jump.split(",")),
        agent=options.key_files is None and values.get("identitiesonly", ["no"])[0] != "yes",
        known_as=tuple(dict.fromkeys(values.get("hostkeyalias", [address, host]))),
        certificates=tuple(at_home(name) for name in values.get("certificatefile", [])),
    )


def _configured(host: str, user: str | None, options: SshOptions) -> dict[str, list[str]]:
    """Lower-case option -> values. `ssh -G` follows Include and Match; without ssh, paramiko reads the one file."""
    if options.config_file is None:
        return {}
    path = at_home(options.config_file)
    program = shutil.which("ssh")
    if program is None:
        return _read_by_paramiko(host, path)
    words = [program, "-G"]
    if path != at_home("~/.ssh/config"):
        words += ["-F", str(path)]
    if user:
        words += ["-l", user]
    done = subprocess.run([*words, "--", host], capture_output=True, text=True, timeout=10, check=False)
    if done.returncode != 0:
        raise UsageError(f"ssh does not read your configuration: {done.stderr.strip()}.", "Mend it, then try again.")
    values: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        values.setdefault(key, []).extend(value.split() if key.endswith("knownhostsfile") else [value])
    return values


def _read_by_paramiko(host: str, path: Path) -> dict[str, list[str]]:
    import paramiko

    defaults = {"userknownhostsfile": ["~/.ssh/known_hosts"], "globalknownhostsfile": ["/etc/ssh/ssh_known_hosts"]}
    defaults["identityfile"] = ["~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"]
    if not path.exists():
        return defaults
    found = paramiko.SSHConfig.from_path(str(path)).lookup(host)
    return defaults | {key: value if isinstance(value, list) else [str(value)] for key, value in found.items()}
