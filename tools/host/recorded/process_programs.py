"""Programs that list processes: ps, pgrep, pidof, top."""

from __future__ import annotations

import re

from tools.host.recorded import host_memory
from tools.host.recorded.derived import DerivedHost
from tools.host.recorded.options import Options, UsageMistake, parse
from tools.host.recorded.processes import Process

Output = tuple[int, str, str]

_PS = Options(
    values={
        "o": "format",
        "format": "format",
        "p": "pid",
        "pid": "pid",
        "ppid": "ppid",
        "C": "command",
        "sort": "sort",
        "q": "pid",
        "u": "user",
    },
    switches={
        "e": "all",
        "A": "all",
        "f": "full",
        "w": "wide",
        "L": "threads",
        "no-headers": "bare",
        "l": "long",
        "a": "all",
        "x": "all",
    },
)
_PS_COLUMNS = {
    "pid": ("PID", 7),
    "ppid": ("PPID", 7),
    "rss": ("RSS", 5),
    "rsz": ("RSZ", 5),
    "vsz": ("VSZ", 6),
    "etimes": ("ELAPSED", 7),
    "etime": ("ELAPSED", 11),
    "stat": ("STAT", -4),
    "s": ("S", -1),
    "comm": ("COMMAND", -15),
    "ucmd": ("CMD", -15),
    "args": ("COMMAND", -27),
    "cmd": ("CMD", -27),
    "command": ("COMMAND", -27),
    "user": ("USER", -8),
    "uid": ("UID", 5),
    "lstart": ("STARTED", 24),
    "pcpu": ("%CPU", 4),
    "%cpu": ("%CPU", 4),
    "pmem": ("%MEM", 4),
    "%mem": ("%MEM", 4),
    "nlwp": ("NLWP", 4),
    "ni": ("NI", 3),
    "start": ("STARTED", 8),
    "stime": ("STIME", 5),
    "time": ("TIME", 8),
    "tty": ("TT", -8),
    "psr": ("PSR", 3),
    "unit": ("UNIT", -31),
    "cgroup": ("CGROUP", -27),
}


def ps(host: DerivedHost, argv: list[str]) -> Output:
    words = [word if word.startswith("-") or not re.fullmatch(r"[auxwf]+", word) else f"-{word}" for word in argv[1:]]
    bsd = words != argv[1:]
    words = ["-e" if bsd and word != old else word for word, old in zip(words, argv[1:], strict=True)]
    try:
        asked = parse(_PS, words)
    except UsageMistake as mistake:
        return 1, "", f"error: {mistake}\n"
    chosen = _chosen(host, asked.all("pid"), asked.all("ppid"), asked.all("command"), every=asked.has("all") or bsd)
    formats = ",".join(asked.all("format"))
    if bsd and not formats:
        formats = "user,pid,pcpu,pmem,vsz,rss,tty,stat,start,time,args"
    elif asked.has("full") and not formats:
        formats = "user,pid,ppid,pcpu,stime,tty,time,cmd"
    columns = [part.partition("=") for part in (formats or "pid,tty,time,comm").split(",") if part]
    names = [name.strip() for name, _, _ in columns]
    unknown = [name for name in names if name not in _PS_COLUMNS]
    if unknown:
        return 1, "", f'error: unknown user-defined format specifier "{unknown[0]}"\n'
    key = (asked.last("sort") or "").split(",")[0]
    if key.lstrip("+-") in ("rss", "vsz", "pmem", "%mem", "pid", "etimes"):
        field = "resident_kib" if key.lstrip("+-") != "pid" else "pid"
        chosen.sort(key=lambda process: getattr(process, field), reverse=key.startswith("-"))
    bare = asked.has("bare") or all(equals and not title for _, equals, title in columns)
    rows = [] if bare else [_ps_row([_PS_COLUMNS[name][0] for name in names], names)]
    rows += [_ps_row([_ps_cell(host, process, name) for name in names], names) for process in chosen]
    return (0 if chosen else 1), "".join(row + "\n" for row in rows), ""


def _chosen(
    host: DerivedHost, pids: list[str], parents: list[str], commands: list[str], *, every: bool
) -> list[Process]:
    wanted = {int(pid) for item in pids for pid in re.split(r"[ ,]+", item) if pid.isdecimal()}
    under = {int(pid) for item in parents for pid in re.split(r"[ ,]+", item) if pid.isdecimal()}
    names = {name[:15] for item in commands for name in item.split(",")}
    return [
        process
        for process in host.processes
        if every or process.pid in wanted or process.parent in under or process.command in names
    ]


def _ps_row(cells: list[str], names: list[str]) -> str:
    shown = []
    for place, (cell, name) in enumerate(zip(cells, names, strict=True)):
        width = _PS_COLUMNS[name][1]
        last = place == len(names) - 1
        shown.append(cell.rjust(width) if width > 0 else cell if last else cell.ljust(-width)[: max(-width, 15)])
    return " ".join(shown)


def _ps_cell(host: DerivedHost, process: Process, name: str) -> str:
    now, machine = host.figures.now, host.figures
    age = now - process.started
    total_kib = machine.memory.total_gib * host_memory.KIB_PER_GIB
    busy = process.rank is not None
    args = " ".join(process.arguments) or f"[{process.command}]"
    days, rest = divmod(int(age.total_seconds()), 86_400)
    clock = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return {
        "pid": str(process.pid),
        "ppid": str(process.parent),
        "rss": str(process.resident_kib),
        "rsz": str(process.resident_kib),
        "vsz": str(process.resident_kib * 9),
        "etimes": str(int(age.total_seconds())),
        "etime": f"{days}-{clock}" if days else clock,
        "stat": "Ssl" if process.parent == 1 else "Sl",
        "s": "S",
        "comm": process.command,
        "ucmd": process.command,
        "args": args,
        "cmd": args,
        "command": args,
        "user": "root",
        "uid": "0",
        "lstart": process.started.strftime("%a %b %e %H:%M:%S %Y"),
        "pcpu": "99.2" if busy else "0.3",
        "%cpu": "99.2" if busy else "0.3",
        "pmem": f"{process.resident_kib / total_kib * 100:.1f}",
        "%mem": f"{process.resident_kib / total_kib * 100:.1f}",
        "nlwp": "64" if busy else "8",
        "ni": "0",
        "start": process.started.strftime("%b %d" if days else "%H:%M:%S"),
        "stime": process.started.strftime("%b%d"),
        "time": clock,
        "tty": "?",
        "psr": str(process.pid % 64),
        "unit": host.launch.unit if host.launch and process.pid > 3000 else "init.scope",
        "cgroup": f"0::/system.slice/{host.launch.unit}" if host.launch and process.pid > 3000 else "0::/init.scope",
    }[name]


def pgrep(host: DerivedHost, argv: list[str]) -> Output:
    asked = parse(
        Options(
            values={"u": "user", "P": "parent"},
            switches={"f": "full", "a": "args", "l": "names", "o": "oldest", "n": "newest", "x": "exact"},
        ),
        argv[1:],
    )
    pattern = re.compile(asked.operands[0]) if asked.operands else re.compile("")
    hits = [
        process
        for process in host.processes
        if pattern.search(" ".join(process.arguments) if asked.has("full") else process.command)
    ]
    hits = hits[:1] if asked.has("oldest") else hits[-1:] if asked.has("newest") else hits
    lines = []
    for process in hits:
        tail = (
            f" {' '.join(process.arguments)}"
            if asked.has("args")
            else f" {process.command}"
            if asked.has("names")
            else ""
        )
        lines.append(f"{process.pid}{tail}\n")
    return int(not hits), "".join(lines), ""


def pidof(host: DerivedHost, argv: list[str]) -> Output:
    names = {word[:15] for word in argv[1:] if not word.startswith("-")}
    found = [str(process.pid) for process in reversed(host.processes) if process.command in names]
    return int(not found), " ".join(found) + "\n" if found else "", ""


def top(host: DerivedHost, argv: list[str]) -> Output:
    """Batch mode only, one screen, busiest first."""
    if "b" not in "".join(word for word in argv[1:] if word.startswith("-")):
        return 1, "", "top: failed tty get\n"
    fields = host_memory.meminfo(host.figures.memory)
    mib = {name: f"{value / 1024:>8.1f}" for name, value in fields.items()}
    cache = f"{(fields['Buffers'] + fields['Cached'] + fields['SReclaimable']) / 1024:>8.1f}"
    used = f"{(fields['MemTotal'] - fields['MemAvailable']) / 1024:>8.1f}"
    swap = f"{mib['SwapTotal']} total, {mib['SwapFree']} free,      0.0 used."
    lines = [
        f"top - {host.figures.now:%H:%M:%S} up,  1 user",
        f"Tasks: {len(host.processes):>3} total",
        f"MiB Mem : {mib['MemTotal']} total, {mib['MemFree']} free, {used} used, {cache} buff/cache",
        f"MiB Swap: {swap} {mib['MemAvailable']} avail Mem",
        "",
        "    PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND",
    ]
    for process in sorted(host.processes, key=lambda item: -item.resident_kib):
        cells = {name: _ps_cell(host, process, name) for name in ("pcpu", "pmem", "time")}
        sizes = f"{process.resident_kib * 9 // 1024:>6}m {process.resident_kib // 1024:>5}m   1024"
        load = f"{cells['pcpu']:>5} {cells['pmem']:>5} {cells['time']:>9}"
        lines.append(f"{process.pid:>7} root      20   0 {sizes} S {load} {process.command}")
    return 0, "\n".join(lines) + "\n", ""
