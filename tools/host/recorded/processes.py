"""The processes of a recorded host: SGLang's, and a few of the system's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tools.host.recorded.figures import Figures
from tools.host.recorded.launch import Argument, Launch

FIRST_CHILD = 211


@dataclass(frozen=True, slots=True)
class Process:
    pid: int
    parent: int
    name: str
    arguments: tuple[str, ...]
    resident_kib: int
    started: datetime
    rank: int | None = None

    @property
    def command(self) -> str:
        """The 15 letters the kernel keeps."""
        return self.name[:15]


def processes(figures: Figures, launch: Launch | None, arguments: Mapping[str, Argument]) -> tuple[Process, ...]:
    """Everything that `ps -e` would list, in order of pid."""
    booted = figures.machine.booted
    found = [
        Process(1, 0, "systemd", ("/sbin/init",), 14_236, booted),
        Process(2, 0, "kthreadd", (), 0, booted),
        Process(1187, 1, "systemd-journald", ("/usr/lib/systemd/systemd-journald",), 96_120, booted),
        Process(2204, 1, "sshd", ("sshd: /usr/sbin/sshd -D [listener] 0 of 10-100 startups",), 9_472, booted),
    ]
    if figures.gpus:
        found.append(
            Process(2291, 1, "nvidia-persistenced", ("/usr/bin/nvidia-persistenced", "--verbose"), 2_108, booted)
        )
    if launch is not None and figures.server is not None and figures.server.state == "running":
        found += _server(figures, launch, arguments)
    return tuple(sorted(found, key=lambda process: process.pid))


def _server(figures: Figures, launch: Launch, arguments: Mapping[str, Argument]) -> list[Process]:
    server = figures.server
    if server is None:
        return []
    ranks = int(str(arguments.get("tp_size") or 1))
    started, pid = server.started, server.pid
    later = started + timedelta(seconds=18)
    main = Process(pid, 1, "python3", launch.argv, 5_904_220, started)
    children = [
        Process(
            pid + FIRST_CHILD + rank,
            pid,
            f"sglang::scheduler_TP{rank}" if ranks > 1 else "sglang::scheduler",
            (f"sglang::scheduler_TP{rank}" if ranks > 1 else "sglang::scheduler",),
            round(server.scheduler_rss_gib * 1024 * 1024) + 2_113 * rank,
            later,
            rank,
        )
        for rank in range(ranks)
    ]
    tail = Process(pid + FIRST_CHILD + ranks, pid, "sglang::detokenizer", ("sglang::detokenizer",), 2_871_004, later)
    return [main, *children, tail]
