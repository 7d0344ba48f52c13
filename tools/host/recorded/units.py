"""systemctl over the recorded unit: show, cat, status, is-active, list-units."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tools.host.recorded.figures import Figures, Server
from tools.host.recorded.host_memory import KIB_PER_GIB
from tools.host.recorded.journal import Entry
from tools.host.recorded.launch import Launch
from tools.host.recorded.options import Options, UsageMistake, parse
from tools.host.recorded.processes import Process

INFINITY = "infinity"
_STATES = {
    "running": ("active", "running", "success"),
    "restarting": ("activating", "auto-restart", "signal"),
    "failed": ("failed", "failed", "signal"),
    "stopped": ("inactive", "dead", "success"),
    "absent": ("inactive", "dead", "success"),
}


@dataclass(frozen=True, slots=True)
class Units:
    figures: Figures
    launch: Launch | None
    server: Server | None
    running: tuple[Process, ...]
    journal: list[Entry]

    def systemctl(self, argv: list[str]) -> tuple[int, str, str]:
        try:
            asked = parse(_SYSTEMCTL, argv[1:])
        except UsageMistake as mistake:
            return 1, "", f"systemctl: {mistake}\n"
        verb, *names = asked.operands or ["list-units"]
        if verb == "show":
            return self._show(names, asked.all("property"), bare=asked.has("value"))
        if verb == "cat":
            return self._cat(names)
        if verb == "status":
            return self._status(names)
        if verb in ("is-active", "is-enabled", "is-failed"):
            return self._is(verb, names)
        if verb in ("list-units", "list-unit-files", "list-timers"):
            return 0, self._list(verb, names, bare=asked.has("bare")), ""
        return 1, "", f"Unknown command verb {verb}.\n"

    def _known(self, name: str) -> Launch | None:
        full = name if "." in name else f"{name}.service"
        return self.launch if self.launch is not None and self.launch.unit == full else None

    def _cat(self, names: list[str]) -> tuple[int, str, str]:
        out, err = [], ""
        for name in names:
            launch = self._known(name)
            if launch is None:
                err += f"No files found for {name}.\n"
            else:
                out += [f"# {file.path}\n{file.text}" for file in launch.files]
        return int(bool(err)), "\n".join(out), err

    def _show(self, names: list[str], wanted: list[str], *, bare: bool) -> tuple[int, str, str]:
        keys = [key for item in wanted for key in item.split(",")]
        blocks = []
        for name in names or [""]:
            launch = self._known(name)
            values = self.properties(launch) if launch else self._absent(name)
            chosen = [key for key in values if key in keys] if keys else list(values)
            if bare:
                chosen = [key for key in keys if key in values] or chosen
            blocks.append("".join(f"{values[key]}\n" if bare else f"{key}={values[key]}\n" for key in chosen))
        return 0, "\n".join(blocks), ""

    def _absent(self, name: str) -> dict[str, str]:
        full = name if "." in name else f"{name}.service"
        return {"Id": full, "LoadState": "not-found", "ActiveState": "inactive", "SubState": "dead", "MainPID": "0"}

    def properties(self, launch: Launch) -> dict[str, str]:
        """Properties in the order systemd prints them."""
        server = self.server
        state = server.state if server else "stopped"
        active, sub, result = _STATES[state]
        if server is not None and server.failure == "host_oom" and state != "running":
            result = "oom-kill"
        running = state == "running"
        main = self._main()
        path = launch.files[0].path
        drop_ins = " ".join(file.path for file in launch.files[1:])
        argv = " ".join(launch.argv)
        memory = sum(process.resident_kib for process in self.running if main in (process.pid, process.parent)) * 1024
        began = _stamp(server.started) if server else ""
        start = (
            f"{{ path={launch.argv[0]} ; argv[]={argv} ; ignore_errors=no ; start_time=[{began}] ; stop_time=[n/a] ; "
            f"pid={main} ; code=(null) ; status=0/0 }}"
        )
        return {
            "Type": launch.value("Type", "simple"),
            "Restart": launch.value("Restart", "no"),
            "RestartUSec": _span(launch.value("RestartSec", "100ms")),
            "TimeoutStartUSec": _span(launch.value("TimeoutStartSec", "1min 30s")),
            "TimeoutStopUSec": _span(launch.value("TimeoutStopSec", "1min 30s")),
            "MainPID": str(main if running else 0),
            "ControlPID": "0",
            "Result": result,
            "NRestarts": str(server.restarts if server else 0),
            "ExecMainStartTimestamp": began,
            "ExecMainPID": str(main),
            "ExecMainCode": "0" if running else "2",
            "ExecMainStatus": "0" if running or result == "success" else "9",
            "ExecStart": start,
            "ControlGroup": f"/system.slice/{launch.unit}" if running else "",
            "MemoryCurrent": str(memory) if running else "[not set]",
            "TasksCurrent": str(64 * sum(1 for process in self.running if process.rank is not None) + 41),
            "MemoryHigh": size_of(launch.value("MemoryHigh", INFINITY), self.figures.memory.total_gib),
            "MemoryMax": size_of(launch.value("MemoryMax", INFINITY), self.figures.memory.total_gib),
            "MemorySwapMax": INFINITY,
            "Environment": " ".join(shlex.quote(f"{key}={value}") for key, value in launch.env.items()),
            "EnvironmentFiles": launch.value("EnvironmentFile"),
            "LimitNOFILE": limit_of(launch.value("LimitNOFILE"), "524288"),
            "LimitNOFILESoft": limit_of(launch.value("LimitNOFILE"), "1024"),
            "LimitMEMLOCK": limit_of(launch.value("LimitMEMLOCK"), "8388608"),
            "LimitMEMLOCKSoft": limit_of(launch.value("LimitMEMLOCK"), "8388608"),
            "WorkingDirectory": launch.value("WorkingDirectory"),
            "OOMPolicy": launch.value("OOMPolicy", "stop"),
            "User": launch.value("User"),
            "Id": launch.unit,
            "Names": launch.unit,
            "Description": launch.value("Description"),
            "LoadState": "loaded",
            "ActiveState": active,
            "SubState": sub,
            "FragmentPath": path,
            "DropInPaths": drop_ins,
            "UnitFileState": "enabled"
            if any(key == "WantedBy" for _, key, _ in launch.files[0].settings())
            else "static",
            "ActiveEnterTimestamp": began if running else "",
            "NeedDaemonReload": "no",
        }

    def _main(self) -> int:
        return self.server.pid if self.server else 0

    def _status(self, names: list[str]) -> tuple[int, str, str]:
        launch = self._known(names[0]) if names else None
        if launch is None:
            return 4, "", f"Unit {names[0] if names else ''} could not be found.\n"
        values = self.properties(launch)
        running = values["ActiveState"] == "active"
        dot = "●" if running else "×" if values["ActiveState"] == "failed" else "○"
        enabled = f"{values['FragmentPath']}; {values['UnitFileState']}; preset: enabled"
        lines = [
            f"{dot} {launch.unit} - {values['Description']}",
            f"     Loaded: loaded ({enabled})",
        ]
        if values["DropInPaths"]:
            lines.append(f"    Drop-In: {values['DropInPaths']}")
        since = values["ExecMainStartTimestamp"]
        ended = "" if running else f" (Result: {values['Result']})"
        lines.append(f"     Active: {values['ActiveState']} ({values['SubState']}){ended} since {since}")
        if running:
            memory = int(values["MemoryCurrent"]) / 1024 / KIB_PER_GIB
            lines += [
                f"   Main PID: {values['MainPID']} (python3)",
                f"      Tasks: {values['TasksCurrent']} (limit: 629145)",
                f"     Memory: {memory:.1f}G",
                f"     CGroup: /system.slice/{launch.unit}",
            ]
            mine = [process for process in self.running if self._main() in (process.pid, process.parent)]
            for place, process in enumerate(mine):
                branch = "└─" if place == len(mine) - 1 else "├─"
                lines.append(f"             {branch}{process.pid} {' '.join(process.arguments)}")
        entries = [entry for entry in self.journal if entry.unit == launch.unit][-10:]
        tail = [
            f"{entry.at:%b %d %H:%M:%S} {self.figures.machine.hostname} {entry.identifier}[{entry.pid}]: {entry.text}"
            for entry in entries
        ]
        return (0 if running else 3), "\n".join([*lines, "", *tail]) + "\n", ""

    def _is(self, verb: str, names: list[str]) -> tuple[int, str, str]:
        launch = self._known(names[0]) if names else None
        values: Mapping[str, str] = self.properties(launch) if launch else self._absent(names[0] if names else "")
        if verb == "is-enabled":
            if launch is None:
                return 4, "not-found\n", ""
            return 0, values["UnitFileState"] + "\n", ""
        state = values["ActiveState"]
        good = state == ("active" if verb == "is-active" else "failed")
        return (0 if good else 3 if verb == "is-active" else 1), state + "\n", ""

    def _list(self, verb: str, patterns: list[str], *, bare: bool) -> str:
        import fnmatch

        rows = [("ssh.service", "active", "running", "OpenBSD Secure Shell server")]
        if self.figures.gpus:
            rows.append(("nvidia-persistenced.service", "active", "running", "NVIDIA Persistence Daemon"))
        if self.launch is not None:
            values = self.properties(self.launch)
            rows.append((self.launch.unit, values["ActiveState"], values["SubState"], values["Description"]))
        if verb == "list-timers":
            rows = []
        if patterns:
            rows = [row for row in rows if any(fnmatch.fnmatch(row[0], pattern) for pattern in patterns)]
        rows.sort()
        wide = max((len(row[0]) for row in rows), default=4)
        text = "".join(
            f"{'' if bare else '  '}{row[0]:<{wide}} loaded {row[1]:<6} {row[2]:<7} {row[3]}\n" for row in rows
        )
        if bare:
            return text
        head = f"  {'UNIT':<{wide}} LOAD   ACTIVE SUB     DESCRIPTION\n"
        return f"{head}{text}\n{len(rows)} loaded units listed.\n"


_SYSTEMCTL = Options(
    values={
        "p": "property",
        "P": "property",
        "property": "property",
        "n": "lines",
        "lines": "lines",
        "o": "output",
        "output": "output",
        "t": "type",
        "type": "type",
        "state": "state",
    },
    switches={
        "no-pager": "ignored",
        "l": "ignored",
        "full": "ignored",
        "all": "ignored",
        "a": "ignored",
        "value": "value",
        "no-legend": "bare",
        "plain": "ignored",
        "quiet": "ignored",
        "q": "ignored",
        "no-ask-password": "ignored",
        "failed": "failed",
        "system": "ignored",
    },
)


def _stamp(at: datetime) -> str:
    return at.strftime("%a %Y-%m-%d %H:%M:%S UTC")


def _span(text: str) -> str:
    """A time span as systemd prints it: `1200` is `20min`."""
    if not text.isdigit():
        return text
    seconds = int(text)
    parts = []
    for unit, size in (("h", 3600), ("min", 60), ("s", 1)):
        amount, seconds = divmod(seconds, size)
        if amount:
            parts.append(f"{amount}{unit}")
    return " ".join(parts) or "0"


def size_of(text: str, total_gib: float) -> str:
    """Bytes of a memory setting: suffixes are powers of 1024, per cent are of the RAM."""
    if text.endswith("%"):
        return str(round(float(text[:-1]) / 100 * total_gib * KIB_PER_GIB) * 1024)
    shift = {"K": 10, "M": 20, "G": 30, "T": 40}.get(text[-1:].upper())
    return str(int(float(text[:-1]) * (1 << shift))) if shift and text[:-1].replace(".", "").isdigit() else text


def limit_of(text: str, default: str) -> str:
    if not text:
        return default
    return INFINITY if text == INFINITY else size_of(text, 0.0).split(":")[-1]
