"""Programs that report on the whole machine: ps, ss, dmesg, curl, date, uptime, lscpu and their like."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import TYPE_CHECKING

from tools.host.recorded import file_programs, gpu, host_memory, journal
from tools.host.recorded.options import Options, UsageMistake, parse
from tools.host.recorded.processes import Process
from tools.host.recorded.shell import Program
from tools.host.recorded.text_programs import FILTERS

if TYPE_CHECKING:
    from tools.host.recorded.recording import Recording

Output = tuple[int, str, str]


def programs_of(host: Recording) -> dict[str, Program]:
    """Every program the host has, by name. What it lacks (docker, rocm-smi) is simply not there."""
    figures = host.figures
    found: dict[str, Program] = {}
    for name, filtering in FILTERS.items():
        found[name] = lambda argv, stdin, run=filtering: run(host.files, argv, stdin)  # type: ignore[misc]
    for name, reading in file_programs.PROGRAMS.items():
        found[name] = lambda argv, stdin, run=reading: run(host.files, argv, stdin)  # type: ignore[misc]
    simple = {
        "free": lambda argv: host_memory.free(figures.memory, argv),
        "df": lambda argv: file_programs.df(figures.disks, figures.memory, argv),
        "journalctl": lambda argv: journal.journalctl(host.journal, figures, argv),
        "systemctl": lambda argv: host.units.systemctl(argv),
        "ps": lambda argv: _ps(host, argv),
        "pgrep": lambda argv: _pgrep(host, argv),
        "ss": lambda argv: _ss(host, argv),
        "dmesg": lambda argv: _dmesg(host, argv),
        "curl": lambda argv: _curl(host, argv),
        "numactl": lambda argv: _numactl(host, argv),
        "date": lambda argv: _date(host, argv),
        "uptime": lambda argv: (0, _uptime(host), ""),
        "hostname": lambda argv: (0, figures.machine.hostname + "\n", ""),
        "uname": lambda argv: _uname(host, argv),
        "id": lambda argv: _id(argv),
        "whoami": lambda argv: (0, "root\n", ""),
        "nproc": lambda argv: (0, f"{figures.machine.sockets * figures.machine.cores_per_socket * 2}\n", ""),
        "lscpu": lambda argv: (0, _lscpu(host), ""),
        "lsmod": lambda argv: (0, _lsmod(host), ""),
        "sysctl": lambda argv: _sysctl(host, argv),
        "vmstat": lambda argv: _vmstat(host, argv),
        "echo": lambda argv: (0, " ".join(argv[1:]) + "\n", ""),
        "true": lambda argv: (0, "", ""),
        "false": lambda argv: (1, "", ""),
    }
    for name, run in simple.items():
        found[name] = lambda argv, stdin, run=run: run(argv)  # type: ignore[misc]
    if figures.gpus is not None:
        found["nvidia-smi"] = lambda argv, stdin: gpu.nvidia_smi(
            host.cards, host.processes, figures.now.strftime("%a %b %e %H:%M:%S %Y"), argv
        )
    return found


_PS = Options(
    values={"o": "format", "format": "format", "p": "pid", "pid": "pid", "ppid": "ppid", "C": "command", "sort": "sort",
            "q": "pid", "u": "user"},
    switches={"e": "all", "A": "all", "f": "full", "w": "wide", "L": "threads", "no-headers": "bare", "l": "long", "a": "all",
              "x": "all"},
)  # fmt: skip
_PS_COLUMNS = {
    "pid": ("PID", 7), "ppid": ("PPID", 7), "rss": ("RSS", 5), "rsz": ("RSZ", 5), "vsz": ("VSZ", 6),
    "etimes": ("ELAPSED", 7), "etime": ("ELAPSED", 11), "stat": ("STAT", -4), "s": ("S", -1), "comm": ("COMMAND", -15),
    "ucmd": ("CMD", -15), "args": ("COMMAND", -27), "cmd": ("CMD", -27), "command": ("COMMAND", -27),
    "user": ("USER", -8), "uid": ("UID", 5), "lstart": ("STARTED", 24), "pcpu": ("%CPU", 4), "%cpu": ("%CPU", 4),
    "pmem": ("%MEM", 4), "%mem": ("%MEM", 4), "nlwp": ("NLWP", 4), "ni": ("NI", 3), "start": ("STARTED", 8),
    "stime": ("STIME", 5), "time": ("TIME", 8), "tty": ("TT", -8), "psr": ("PSR", 3), "unit": ("UNIT", -31),
    "cgroup": ("CGROUP", -27),
}  # fmt: skip


def _ps(host: Recording, argv: list[str]) -> Output:
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


def _chosen(host: Recording, pids: list[str], parents: list[str], commands: list[str], *, every: bool) -> list[Process]:
    wanted = {int(pid) for item in pids for pid in re.split(r"[ ,]+", item) if pid.isdigit()}
    under = {int(pid) for item in parents for pid in re.split(r"[ ,]+", item) if pid.isdigit()}
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


def _ps_cell(host: Recording, process: Process, name: str) -> str:
    now, machine = host.figures.now, host.figures
    age = now - process.started
    total_kib = machine.memory.total_gib * host_memory.KIB_PER_GIB
    busy = process.rank is not None
    args = " ".join(process.arguments) or f"[{process.command}]"
    days, rest = divmod(int(age.total_seconds()), 86_400)
    clock = f"{rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    return {
        "pid": str(process.pid), "ppid": str(process.parent), "rss": str(process.resident_kib),
        "rsz": str(process.resident_kib), "vsz": str(process.resident_kib * 9), "etimes": str(int(age.total_seconds())),
        "etime": f"{days}-{clock}" if days else clock, "stat": "Ssl" if process.parent == 1 else "Sl", "s": "S",
        "comm": process.command, "ucmd": process.command, "args": args, "cmd": args, "command": args, "user": "root",
        "uid": "0", "lstart": process.started.strftime("%a %b %e %H:%M:%S %Y"), "pcpu": "99.2" if busy else "0.3",
        "%cpu": "99.2" if busy else "0.3", "pmem": f"{process.resident_kib / total_kib * 100:.1f}",
        "%mem": f"{process.resident_kib / total_kib * 100:.1f}", "nlwp": "64" if busy else "8", "ni": "0",
        "start": process.started.strftime("%b %d" if days else "%H:%M:%S"), "stime": process.started.strftime("%b%d"),
        "time": clock, "tty": "?", "psr": str(process.pid % 64),
        "unit": host.launch.unit if host.launch and process.pid > 3000 else "init.scope",
        "cgroup": f"0::/system.slice/{host.launch.unit}" if host.launch and process.pid > 3000 else "0::/init.scope",
    }[name]  # fmt: skip


def _pgrep(host: Recording, argv: list[str]) -> Output:
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


def _ss(host: Recording, argv: list[str]) -> Output:
    letters = "".join(word[1:] for word in argv[1:] if word.startswith("-"))
    listeners = [("0.0.0.0", 22, "sshd", 2204, 3)]  # noqa: S104 - what the recorded host prints
    if host.service is not None and host.figures.server is not None:
        address, port = str(host.arguments.get("host") or "127.0.0.1"), int(str(host.arguments.get("port") or 30000))
        listeners.append((address, port, "python3", host.figures.server.pid, 47))
    if "s" in letters:
        return 0, "Total: 812\nTCP:   143 (estab 71, closed 52, orphaned 0, timewait 52)\n", ""
    head = "State    Recv-Q   Send-Q     Local Address:Port      Peer Address:Port  "
    lines = [head + ("Process" if "p" in letters else "")]
    for address, port, name, pid, descriptor in listeners:
        owner = f'users:(("{name}",pid={pid},fd={descriptor}))' if "p" in letters else ""
        lines.append(
            f"LISTEN   0        2048       {address + ':' + str(port):>18}           0.0.0.0:*      {owner}".rstrip()
        )
    return 0, "\n".join(lines) + "\n", ""


def _dmesg(host: Recording, argv: list[str]) -> Output:
    asked = parse(
        Options(
            values={"l": "level", "level": "level", "f": "facility", "since": "since"},
            switches={
                "T": "human",
                "ctime": "human",
                "k": "k",
                "x": "x",
                "H": "human",
                "P": "P",
                "e": "human",
                "nopager": "P",
            },
            optional={"time-format": "format", "color": "color"},
        ),
        argv[1:],
    )
    levels = {"emerg": 0, "alert": 1, "crit": 2, "err": 3, "warn": 4, "notice": 5, "info": 6, "debug": 7}
    wanted = {levels[name] for item in asked.all("level") for name in item.split(",") if name in levels}
    lines = []
    for entry in host.journal:
        if entry.identifier != "kernel" or (wanted and entry.priority not in wanted):
            continue
        since = (entry.at - host.figures.machine.booted) / timedelta(seconds=1)
        stamp = entry.at.strftime("%a %b %e %H:%M:%S %Y") if asked.has("human") else f"{since:>12.6f}"
        if asked.last("format") == "iso":
            stamp = entry.at.isoformat(timespec="microseconds").replace(".", ",")
        lines.append(f"[{stamp}] {entry.text}\n")
    return 0, "".join(lines), ""


_CURL = Options(
    values={"m": "limit", "max-time": "limit", "connect-timeout": "limit", "H": "header", "header": "header", "X": "method",
            "request": "method", "w": "write", "write-out": "write", "o": "output", "output": "output",
            "max-filesize": "size", "proto": "proto", "noproxy": "proxy", "range": "range", "r": "range"},
    switches={"s": "silent", "S": "errors", "f": "fail", "silent": "silent", "show-error": "errors", "fail": "fail",
              "G": "get", "get": "get", "i": "include", "include": "include", "I": "head", "q": "q", "4": "v4", "g": "g",
              "globoff": "g", "no-progress-meter": "silent"},
)  # fmt: skip


def _curl(host: Recording, argv: list[str]) -> Output:
    asked = parse(_CURL, argv[1:])
    if not asked.operands:
        return 2, "", "curl: no URL specified!\n"
    found = re.fullmatch(r"(?:http://)?(127\.0\.0\.1|localhost|\[::1\])(?::(\d+))?(/[^#]*)?", asked.operands[0])
    quiet = asked.has("silent") and not asked.has("errors")
    if found is None:
        return 6, "", "" if quiet else f"curl: (6) Could not resolve host: {asked.operands[0]}\n"
    port = int(found[2] or 80)
    service = host.service
    listening = int(str(host.arguments.get("port") or 30000)) if service is not None else None
    if service is None or port != listening:
        text = f"curl: (7) Failed to connect to {found[1]} port {port} after 0 ms: Couldn't connect to server\n"
        return 7, "", "" if quiet else text
    tokens = [item.split("Bearer ", 1)[1] for item in asked.all("header") if "Bearer " in item]
    response = service.get(found[3] or "/", token=tokens[-1] if tokens else "")
    if asked.has("fail") and response.status >= 400:
        text = f"curl: (22) The requested URL returned error: {response.status}\n"
        return 22, "", "" if quiet else text
    head = f"HTTP/1.1 {response.status} {'OK' if response.status == 200 else 'Error'}\r\ncontent-type: {response.kind}\r\n\r\n"
    body = head + response.body if asked.has("include") else head if asked.has("head") else response.body
    if asked.last("output") == "/dev/null":
        body = ""
    written = (asked.last("write") or "").replace("%{http_code}", str(response.status)).replace("\\n", "\n")
    return 0, body + written, ""


def _numactl(host: Recording, argv: list[str]) -> Output:
    if any(word in ("-H", "--hardware") for word in argv[1:]):
        machine = host.figures.machine
        return 0, host_memory.numactl_hardware(host.figures.memory, machine.sockets * machine.cores_per_socket), ""
    return 1, "", "usage: numactl [--hardware]\n"


def _date(host: Recording, argv: list[str]) -> Output:
    form = next((word[1:] for word in argv[1:] if word.startswith("+")), "%a %b %e %H:%M:%S UTC %Y")
    form = (
        form.replace("%F", "%Y-%m-%d").replace("%T", "%H:%M:%S").replace("%s", str(round(host.figures.now.timestamp())))
    )
    return 0, host.figures.now.strftime(form) + "\n", ""


def _uptime(host: Recording) -> str:
    up = host.figures.now - host.figures.machine.booted
    hours, minutes = divmod(up.seconds // 60, 60)
    load = host.files.read("/proc/loadavg").split()[:3]
    return f" {host.figures.now:%H:%M:%S} up {up.days} days, {hours:2d}:{minutes:02d},  1 user,  load average: {', '.join(load)}\n"


def _uname(host: Recording, argv: list[str]) -> Output:
    machine = host.figures.machine
    parts = {"s": "Linux", "n": machine.hostname, "r": machine.kernel, "m": "x86_64", "o": "GNU/Linux"}
    letters = "".join(word[1:] for word in argv[1:] if word.startswith("-")) or "s"
    if "a" in letters:
        return 0, f"Linux {machine.hostname} {machine.kernel} #93-Ubuntu SMP PREEMPT_DYNAMIC x86_64 GNU/Linux\n", ""
    return 0, " ".join(parts[letter] for letter in parts if letter in letters) + "\n", ""


def _id(argv: list[str]) -> Output:
    if "-un" in argv:
        return 0, "root\n", ""
    if "-u" in argv:
        return 0, "0\n", ""
    return 0, "uid=0(root) gid=0(root) groups=0(root)\n", ""


def _lscpu(host: Recording) -> str:
    machine, nodes = host.figures.machine, host.figures.memory.nodes
    cores = machine.sockets * machine.cores_per_socket
    rows = [
        ("Architecture", "x86_64"),
        ("CPU(s)", str(cores * 2)),
        ("On-line CPU(s) list", f"0-{cores * 2 - 1}"),
        ("Vendor ID", "AuthenticAMD"),
        ("Model name", machine.cpu),
        ("Thread(s) per core", "2"),
        ("Core(s) per socket", str(machine.cores_per_socket)),
        ("Socket(s)", str(machine.sockets)),
        ("NUMA node(s)", str(nodes)),
    ]
    share = cores // nodes
    rows += [
        (
            f"NUMA node{node} CPU(s)",
            f"{node * share}-{(node + 1) * share - 1},{cores + node * share}-{cores + (node + 1) * share - 1}",
        )
        for node in range(nodes)
    ]
    return "".join(f"{name + ':':<33}{value}\n" for name, value in rows)


def _lsmod(host: Recording) -> str:
    rows = [("nvidia_uvm", 2_179_072, 26), ("nvidia", 14_462_976, 611)] if host.figures.gpus else []
    return f"{'Module':<24}Size  Used by\n" + "".join(f"{name:<20}{size:>9}  {uses}\n" for name, size, uses in rows)


def _sysctl(host: Recording, argv: list[str]) -> Output:
    out, err = "", ""
    bare = "-n" in argv
    for name in [word for word in argv[1:] if not word.startswith("-")]:
        path = "/proc/sys/" + name.replace(".", "/")
        if path in host.files.computed:
            value = host.files.read(path).strip()
            out += f"{value}\n" if bare else f"{name} = {value}\n"
        else:
            err += f"sysctl: cannot stat {path}: No such file or directory\n"
    return (255 if err else 0), out, err


def _vmstat(host: Recording, argv: list[str]) -> Output:
    fields = host_memory.meminfo(host.figures.memory)
    counts = [int(word) for word in argv[1:] if word.isdigit()]
    head = "procs -----------memory---------- ---swap-- -----io---- -system-- -------cpu-------\n"
    head += " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st gu\n"
    row = (
        f" 9  0      0 {fields['MemFree']} {fields['Buffers']} {fields['Cached']}    0    0    12    38 41210 88127 "
        "13  2 85  0  0  0\n"
    )
    return 0, head + row * (counts[1] if len(counts) > 1 else 1), ""
