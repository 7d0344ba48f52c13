"""A real OpenSSH server on loopback for tests: own keys, own configuration, high port, ended by its own process id."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.needs import needs
from tools.host import SshOptions


@dataclass(frozen=True, slots=True)
class Sshd:
    port: int
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def key(self) -> Path:
        return self.folder / "client"

    @property
    def known_hosts(self) -> Path:
        return self.folder / "known_hosts"

    def options(self, **more: object) -> SshOptions:
        values = {"config_file": None, "known_hosts": (self.known_hosts,), "key_files": (self.key,), "port": self.port}
        return SshOptions(**(values | more))  # type: ignore[arg-type]


def _keygen(path: Path, kind: str = "ed25519", *more: str) -> None:
    program = needs("ssh-keygen", apt="openssh-client")
    subprocess.run([program, "-q", "-t", kind, "-N", "", "-f", str(path), *more], check=True, stdin=subprocess.DEVNULL)


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def sshd(folder: Path, *settings: str) -> Iterator[Sshd]:
    """A running server whose only user is the one who runs the tests."""
    program = needs("sshd", apt="openssh-server")
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    Path("/run/sshd").mkdir(exist_ok=True)
    _keygen(folder / "host")
    _keygen(folder / "client")
    (folder / "authorized_keys").write_bytes((folder / "client.pub").read_bytes())
    port = free_port()
    kind, key = (folder / "host.pub").read_text().split()[:2]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {kind} {key}\n")
    config = [
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder}/host",
        f"AuthorizedKeysFile {folder}/authorized_keys",
        f"PidFile {folder}/pid",
        "StrictModes no",
        "UsePAM no",
        "PermitRootLogin yes",
        "PasswordAuthentication no",
        *settings,
    ]
    (folder / "config").write_text("\n".join(config) + "\n")
    process = subprocess.Popen(
        [program, "-D", "-f", str(folder / "config"), "-E", str(folder / "log")], start_new_session=True
    )
    try:
        _wait(port)
        yield Sshd(port, folder, process)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def _wait(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise AssertionError("sshd did not start")
