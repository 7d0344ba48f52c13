"""The SGLang tree of a host as a stream: text files only, packed there, checked to have come whole."""

from __future__ import annotations

import re
import secrets
import shlex
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from tools.host.errors import ConnectionLost
from tools.host.look import Host, ShellHost
from transcripts.errors import Inconclusive

LIMIT_S: Final = 300.0
LIMIT_BYTES: Final = 256 << 20
FILE_KIB: Final = 2048
ENDINGS: Final = ("py", "pyi", "md", "rst", "txt", "json", "toml", "yaml", "yml", "cfg", "cu", "cuh", "h", "cpp", "rs")
_FOLDER: Final = re.compile(r"/[A-Za-z0-9@._:/+=,-]+")


async def fetch_tree(host: Host, package_folder: str) -> AsyncGenerator[bytes, None]:
    """A gzipped tar of the text files below a folder of the host, paths relative to it; nothing of it is run.

    Raises Inconclusive when the folder cannot be packed there, and ConnectionLost when the stream broke off.
    """
    if not isinstance(host, ShellHost):
        raise Inconclusive("a bundle holds no source tree.", "Name a version or a tree.")
    if _FOLDER.fullmatch(package_folder) is None or ".." in package_folder:
        raise Inconclusive(f"{package_folder!r} is no folder of a package.", "Name a version or a tree.")
    marker = secrets.token_hex(16).encode()
    opening, ending = b"%s begin\n" % marker, b"\n%s 0\n" % marker
    held = b""
    begun = False
    script = _script(package_folder, marker.decode())
    async with aclosing(host.transport.script(script, limit_s=LIMIT_S, limit_bytes=LIMIT_BYTES)) as stream:
        async for data in stream:
            held += data
            if not begun:
                _, begun_here, rest = held.partition(opening)
                if not begun_here:
                    continue
                begun, held = True, rest
            if len(held) > len(ending):
                yield held[: -len(ending)]
                held = held[-len(ending) :]
    if not begun:
        raise Inconclusive(f"{package_folder} cannot be packed on {host.name}.", "Name its version, or a copy of it.")
    if held != ending:
        raise ConnectionLost(host.name)


def _script(folder: str, marker: str) -> str:
    names = " -o ".join(f"-name '*.{ending}'" for ending in ENDINGS)
    quoted = shlex.quote(folder)
    return (
        "exec 2>/dev/null\nPATH=/usr/sbin:/usr/bin:/sbin:/bin; LC_ALL=C; export PATH LC_ALL\n"
        f"cd {quoted} && test -r __init__.py && command -v tar && printf '%s\\n' '{marker} begin' || exit 3\n"
        f"timeout -k 2 {LIMIT_S:.0f} find . -type f -size -{FILE_KIB}k \\( {names} \\) -print |\n"
        f"  timeout -k 2 {LIMIT_S:.0f} tar -c -z -f - -T -\n"
        f"printf '\\n%s %s\\n' '{marker}' \"$?\"\n"
    )
