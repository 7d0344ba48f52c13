"""Why a host was not reached, each kind with what to do next.

HostError (transcripts.errors, exit 4)
├── NameUnknown        no address for the name          ├── KeyUnknown     host key never seen
├── Refused            nobody listens                   ├── KeyChanged     another key than was remembered
├── TimedOut           no answer in time                ├── KeyRevoked     known_hosts says never again
├── LoginRefused       no key or password was taken     ├── JumpFailed     the host on the way
├── ConnectionLost     it broke in the middle           ├── NoShell        no POSIX shell answers there
└── Busy               it hung up before its greeting   └── OtherShell     the login shell is none we speak
"""

from __future__ import annotations

from transcripts.errors import HostError


class NameUnknown(HostError):
    def __init__(self, host: str) -> None:
        super().__init__(f"no address is known for {host!r}.", "Check the name, or your SSH configuration.")


class Refused(HostError):
    def __init__(self, where: str) -> None:
        super().__init__(f"{where} refused the connection.", "Check that sshd listens there, and the port.")


class TimedOut(HostError):
    def __init__(self, where: str, stage: str, seconds: float) -> None:
        super().__init__(
            f"{where} gave no answer in {seconds:.0f} s ({stage}).", "Check the network, or that it is up."
        )


class KeyUnknown(HostError):
    def __init__(self, host: str, fingerprint: str) -> None:
        super().__init__(
            f"the host key of {host} is unknown ({fingerprint}).",
            f"Compare it with the host's own, then `sglscout trust {host}`.",
        )


class KeyChanged(HostError):
    def __init__(self, host: str, fingerprint: str, remembered: str) -> None:
        super().__init__(
            f"the host key of {host} has changed: {fingerprint}, remembered is {remembered}.",
            "If the host was set up anew, remove its old line from known_hosts; otherwise do not connect.",
        )


class KeyRevoked(HostError):
    def __init__(self, host: str) -> None:
        super().__init__(f"the host key of {host} is marked as revoked.", "Do not connect; ask who runs the host.")


class LoginRefused(HostError):
    def __init__(self, where: str, why: str) -> None:
        super().__init__(
            f"{where} took no login: {why}.", "Check the user, and that your key is in its agent or files."
        )


class JumpFailed(HostError):
    def __init__(self, jump: str, why: str) -> None:
        super().__init__(f"the jump host {jump} did not let us through: {why}", "Check it by itself first.")


class ConnectionLost(HostError):
    def __init__(self, where: str) -> None:
        super().__init__(f"the connection to {where} was lost.", "What had arrived is kept; resume to go on.")


class NoShell(HostError):
    def __init__(self, where: str) -> None:
        super().__init__(f"no POSIX shell answered at {where}.", "The login needs `sh`; use another user, or a bundle.")


class OtherShell(HostError):
    def __init__(self, where: str, shell: str) -> None:
        super().__init__(
            f"the login shell at {where} is {shell}, which does not read commands as a POSIX shell does.",
            "Use a user whose login shell is sh, bash, dash or zsh.",
        )


class Busy(HostError):
    def __init__(self, where: str) -> None:
        super().__init__(
            f"{where} hung up before its greeting.", "Too many may be logging in there at once; try again in a minute."
        )
