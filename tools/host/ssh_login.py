"""From an address to a connection that is logged in: socket, greeting, host key, login. Blocking; run in a thread.

Nothing is believed before the host key was found among the known ones, and no key is ever added here.
"""

from __future__ import annotations

import logging
import random
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tools.host.errors import (
    Busy,
    JumpFailed,
    KeyChanged,
    KeyRevoked,
    KeyUnknown,
    LoginRefused,
    NameUnknown,
    Refused,
    TimedOut,
)
from tools.host.known_hosts import KnownKey, fingerprint, keys_for
from tools.host.ssh_config import Route, SshOptions
from transcripts.errors import HostError

if TYPE_CHECKING:
    import paramiko

KEEPALIVE_S: Final = 15
TRIES: Final = 5


def log_in(route: Route, options: SshOptions, behind: paramiko.Transport | None) -> paramiko.Transport:
    """A connection whose host key is verified and whose login was taken. Raises a kind of HostError."""
    known = keys_for(route.known_as, route.port, route.known_hosts)
    client = _greeted(route, options, behind, tuple(key.kind for key in known if not key.revoked))
    try:
        _verify(route, client, known)
        _authenticate(route, client)
    except BaseException:
        client.close()
        raise
    client.set_keepalive(KEEPALIVE_S)
    return client


def shown_key(route: Route, options: SshOptions, behind: paramiko.Transport | None) -> tuple[str, bytes]:
    """Kind and key that a host shows; nothing is logged in to and nothing is believed."""
    client = _greeted(route, options, behind, ())
    try:
        key = client.get_remote_server_key()
        return key.get_name(), key.asbytes()
    finally:
        client.close()


def where(route: Route) -> str:
    return f"{route.user}@{route.alias}" + ("" if route.port == 22 else f":{route.port}")


def _greeted(
    route: Route, options: SshOptions, behind: paramiko.Transport | None, kinds: tuple[str, ...]
) -> paramiko.Transport:
    """Tried again where a server hangs up at once: sshd does so while too many others are logging in."""
    for attempt in range(TRIES):
        try:
            sock = _socket(route, options) if behind is None else _through(route, options, behind)
            return _start(route, options, sock, kinds)
        except Busy:
            if attempt == TRIES - 1:
                raise
            time.sleep(0.2 * 2**attempt * (0.5 + random.random()))  # noqa: S311  spreads tries, guards nothing
    raise Busy(where(route))


def _socket(route: Route, options: SshOptions) -> socket.socket:
    try:
        sock = socket.create_connection((route.host, route.port), timeout=options.connect_s)
    except socket.gaierror as error:
        raise NameUnknown(route.alias) from error
    except ConnectionRefusedError as error:
        raise Refused(where(route)) from error
    except TimeoutError as error:
        raise TimedOut(where(route), "connecting", options.connect_s) from error
    except OSError as error:
        raise HostError(f"{where(route)} cannot be reached: {error.strerror}.", "Check the network.") from error
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # or every command waits 40 ms for an acknowledgement
    return sock


def _through(route: Route, options: SshOptions, behind: paramiko.Transport) -> Any:
    import paramiko

    try:
        return behind.open_channel(
            "direct-tcpip", (route.host, route.port), ("127.0.0.1", 0), timeout=options.connect_s
        )
    except (paramiko.SSHException, EOFError) as error:
        raise JumpFailed(behind.getpeername()[0], f"{where(route)} is not reached from there ({error})") from error


def _start(route: Route, options: SshOptions, sock: Any, kinds: tuple[str, ...]) -> paramiko.Transport:
    """Version and keys exchanged, nothing believed yet. Kinds of key that are known are asked for first."""
    import paramiko

    logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # its traces are no message for an operator
    began = time.monotonic()
    client: paramiko.Transport | None = None
    try:
        client = paramiko.Transport(sock)
        client.banner_timeout = options.connect_s
        client.auth_timeout = options.connect_s
        _prefer(client, kinds)
        client.start_client(timeout=options.connect_s)
        client.get_remote_server_key()  # a peer that stalls makes the line above return without a word
    except (paramiko.SSHException, EOFError, OSError) as error:
        if client is not None:
            client.close()
        raise _no_greeting(route, options, error, time.monotonic() - began) from error
    return client


def _prefer(client: paramiko.Transport, kinds: tuple[str, ...]) -> None:
    if kinds:
        security = client.get_security_options()
        wanted = [name for name in security.key_types if _same_kind(name, kinds)]
        security.key_types = (*wanted, *(name for name in security.key_types if name not in wanted))


def _same_kind(name: str, kinds: tuple[str, ...]) -> bool:
    return name in kinds or (name.startswith("rsa-sha2") and "ssh-rsa" in kinds)


def _no_greeting(route: Route, options: SshOptions, error: Exception, took_s: float) -> HostError:
    text = str(error)
    at_once = took_s < options.connect_s / 2
    if at_once and (isinstance(error, (ConnectionResetError, EOFError, BrokenPipeError)) or "banner" in text):
        return Busy(where(route))
    if isinstance(error, TimeoutError) or any(word in text for word in ("imeout", "banner", "No existing")):
        return TimedOut(where(route), "no SSH greeting", options.connect_s)
    return HostError(f"{where(route)} does not speak SSH as we do: {text or 'it hung up'}.", "Try `ssh -v`.")


def _verify(route: Route, client: paramiko.Transport, known: tuple[KnownKey, ...]) -> None:
    """Raises unless the key shown is one that was remembered."""
    shown = client.get_remote_server_key()
    key, kind = shown.asbytes(), shown.get_name()
    if any(each.revoked and each.key == key for each in known):
        raise KeyRevoked(route.alias)
    if any(each.key == key and not each.revoked for each in known):
        return
    others = [each for each in known if each.kind == kind and not each.revoked]
    name = route.alias if route.port == 22 else f"{route.alias}:{route.port}"
    if others:
        raise KeyChanged(name, fingerprint(key), fingerprint(others[0].key))
    raise KeyUnknown(name, fingerprint(key))


def _authenticate(route: Route, client: paramiko.Transport) -> None:
    """Keys of the files and of the agent, then locked keys. Raises LoginRefused with what was tried."""
    import paramiko

    tried: list[str] = []
    for name, key in _keys(route, tried):
        try:
            further = client.auth_publickey(route.user, key)
        except paramiko.BadAuthenticationType as error:
            raise LoginRefused(where(route), f"it wants {', '.join(error.allowed_types)}") from error
        except paramiko.AuthenticationException:
            tried.append(name)
            continue
        except (paramiko.SSHException, EOFError) as error:
            raise LoginRefused(where(route), f"it hung up after {', '.join(tried) or 'no key'} ({error})") from error
        if client.is_authenticated():
            return
        if further:
            raise LoginRefused(where(route), f"it took {name} and also wants {', '.join(further)}")
    raise LoginRefused(where(route), f"tried {', '.join(tried)}" if tried else "there is no key to offer")


def _keys(route: Route, tried: list[str]) -> Iterator[tuple[str, Any]]:
    """Keys in the order in which they are offered: those of the files (a locked one by the agent where that holds it),
    the agent's others, and last the locked ones, for which a passphrase is asked."""
    import paramiko

    locked: list[Path] = []
    for path in route.key_files:
        try:
            key = paramiko.PKey.from_path(path)
        except (paramiko.PasswordRequiredException, TypeError):  # the latter comes from the library below it
            locked.append(path)
        except (paramiko.SSHException, ValueError, OSError) as error:
            tried.append(f"{path.name} ({error})")
        else:
            yield from _with_certificates(path, key, route.certificates)
    agent = {key.asbytes(): key for key in paramiko.Agent().get_keys()} if route.agent or locked else {}
    for path in [path for path in locked if _public(path) in agent]:
        locked.remove(path)
        yield f"{path.name} (by the agent)", agent.pop(_public(path))
    if route.agent:
        for key in agent.values():
            yield f"agent key {key.get_fingerprint().hex()[:8]}", key
    for path in locked:
        key = _unlocked(path, tried)
        if key is not None:
            yield from _with_certificates(path, key, route.certificates)


def _with_certificates(path: Path, key: Any, more: tuple[Path, ...]) -> Iterator[tuple[str, Any]]:
    """A key with each certificate that fits it, then the key alone."""
    for certificate in (path.with_name(f"{path.name}-cert.pub"), *more):
        if certificate.exists():
            try:
                key.load_certificate(str(certificate))
            except (ValueError, OSError):
                continue  # a certificate of another kind of key
            yield f"{path.name} with {certificate.name}", key
            key.public_blob = None
    yield path.name, key


def _public(path: Path) -> bytes:
    """The public half of a key file, from the file beside it; empty when there is none."""
    import base64

    try:
        return base64.b64decode(path.with_name(f"{path.name}.pub").read_text(encoding="utf-8").split()[1])
    except (OSError, ValueError, IndexError):
        return b""


def _unlocked(path: Path, tried: list[str]) -> Any:
    """An encrypted key: its passphrase is asked for at a terminal, and never kept."""
    import getpass
    import sys

    import paramiko

    if not sys.stdin.isatty():
        tried.append(f"{path.name} (needs a passphrase; load it into ssh-agent)")
        return None
    try:
        return paramiko.PKey.from_path(path, getpass.getpass(f"Passphrase for {path}: "))
    except (paramiko.SSHException, ValueError) as error:
        tried.append(f"{path.name} ({error})")
        return None
