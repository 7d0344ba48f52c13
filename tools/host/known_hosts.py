"""Host keys that were seen before, read line by line as OpenSSH writes them.

Hashed names, wildcards, negations and ports are matched here; one `@cert-authority` line, or one that cannot be read,
costs nothing but itself; `@revoked` keys are refused.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from transcripts.paths import made_own


@dataclass(frozen=True, slots=True)
class KnownKey:
    kind: str
    key: bytes
    revoked: bool


def keys_for(hosts: Iterable[str], port: int, files: tuple[Path, ...]) -> tuple[KnownKey, ...]:
    """Every key that these files hold for a host, under any of its names, revoked ones marked."""
    wanted = [_name(host, port) for host in hosts]
    return tuple(key for path in files for names, key in _lines(path) if any(_matches(names, each) for each in wanted))


def remember(path: Path, host: str, port: int, kind: str, key: bytes) -> None:
    """Add one line to a file of known hosts, which is made if needed."""
    name = _name(host, port)
    made_own(path.parent)
    with path.open("a", encoding="utf-8") as file:
        file.write(f"{name} {kind} {base64.b64encode(key).decode()}\n")
    path.chmod(0o600)


def fingerprint(key: bytes) -> str:
    """`SHA256:…` as ssh shows it."""
    return "SHA256:" + base64.b64encode(hashlib.sha256(key).digest()).decode().rstrip("=")


def _name(host: str, port: int) -> str:
    return host.lower() if port == 22 else f"[{host.lower()}]:{port}"


def _lines(path: Path) -> Iterator[tuple[str, KnownKey]]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        mark = words.pop(0) if words[0].startswith("@") else ""
        if mark == "@cert-authority" or len(words) < 3:
            continue
        try:
            key = base64.b64decode(words[2], validate=True)
        except ValueError:
            continue
        yield words[0], KnownKey(words[1], key, mark == "@revoked")


def _matches(names: str, wanted: str) -> bool:
    matched = False
    for name in names.split(","):
        if name.startswith("|1|"):
            matched |= _hashed(name, wanted)
        elif name.startswith("!"):
            if fnmatchcase(wanted, _pattern(name[1:])):
                return False
        else:
            matched |= fnmatchcase(wanted, _pattern(name))
    return matched


def _pattern(name: str) -> str:
    """Brackets stand for themselves in a host pattern; only `*` and `?` are wild."""
    return name.lower().replace("[", "[[]")


def _hashed(name: str, wanted: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in name[3:].split("|"))
    except ValueError:
        return False
    return hmac.compare_digest(hmac.new(salt, wanted.encode(), hashlib.sha1).digest(), digest)
