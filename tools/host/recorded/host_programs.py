"""All programs by name, and the small ones that report on the whole machine: dmesg, date, uptime, lscpu and so on."""

from __future__ import annotations

from datetime import timedelta

from tools.host.recorded import file_programs, gpu, host_memory, journal, net_programs, process_programs
from tools.host.recorded.derived import DerivedHost
from tools.host.recorded.options import Options, parse
from tools.host.recorded.shell import Program
from tools.host.recorded.text_programs import FILTERS

Output = tuple[int, str, str]


def programs_of(host: DerivedHost) -> dict[str, Program]:
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
        "ps": lambda argv: process_programs.ps(host, argv),
        "pgrep": lambda argv: process_programs.pgrep(host, argv),
        "ss": lambda argv: net_programs.ss(host, argv),
        "dmesg": lambda argv: _dmesg(host, argv),
        "curl": lambda argv: net_programs.curl(host, argv),
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
        "pidof": lambda argv: process_programs.pidof(host, argv),
        "top": lambda argv: process_programs.top(host, argv),
        "numastat": lambda argv: (0, host_memory.numastat(figures.memory), ""),
        "lsblk": lambda argv: (0, _lsblk(host), ""),
        "findmnt": lambda argv: (0, _mounts(host), ""),
        "mount": lambda argv: (0, _mounts(host), ""),
        "lspci": lambda argv: (0, _lspci(host), ""),
        "ip": lambda argv: net_programs.ip(host, argv),
        "which": lambda argv: _which(host, argv),
        "systemd-detect-virt": lambda argv: (1, "none\n", ""),
        "arch": lambda argv: (0, "x86_64\n", ""),
        "pwd": lambda argv: (0, "/root\n", ""),
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


def _dmesg(host: DerivedHost, argv: list[str]) -> Output:
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


def _numactl(host: DerivedHost, argv: list[str]) -> Output:
    if any(word in ("-H", "--hardware") for word in argv[1:]):
        machine = host.figures.machine
        return 0, host_memory.numactl_hardware(host.figures.memory, machine.sockets * machine.cores_per_socket), ""
    return 1, "", "usage: numactl [--hardware]\n"


def _date(host: DerivedHost, argv: list[str]) -> Output:
    form = next((word[1:] for word in argv[1:] if word.startswith("+")), "%a %b %e %H:%M:%S UTC %Y")
    form = (
        form.replace("%F", "%Y-%m-%d").replace("%T", "%H:%M:%S").replace("%s", str(round(host.figures.now.timestamp())))
    )
    return 0, host.figures.now.strftime(form) + "\n", ""


def _uptime(host: DerivedHost) -> str:
    up = host.figures.now - host.figures.machine.booted
    hours, minutes = divmod(up.seconds // 60, 60)
    load = host.files.read("/proc/loadavg").split()[:3]
    clock = f"{host.figures.now:%H:%M:%S} up {up.days} days, {hours:2d}:{minutes:02d}"
    return f" {clock},  1 user,  load average: {', '.join(load)}\n"


def _uname(host: DerivedHost, argv: list[str]) -> Output:
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


def _lscpu(host: DerivedHost) -> str:
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


def _lsmod(host: DerivedHost) -> str:
    rows = [("nvidia_uvm", 2_179_072, 26), ("nvidia", 14_462_976, 611)] if host.figures.gpus else []
    return f"{'Module':<24}Size  Used by\n" + "".join(f"{name:<20}{size:>9}  {uses}\n" for name, size, uses in rows)


def _sysctl(host: DerivedHost, argv: list[str]) -> Output:
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


def _vmstat(host: DerivedHost, argv: list[str]) -> Output:
    fields = host_memory.meminfo(host.figures.memory)
    counts = [int(word) for word in argv[1:] if word.isdecimal()]
    head = "procs -----------memory---------- ---swap-- -----io---- -system-- -------cpu-------\n"
    head += " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st gu\n"
    row = (
        f" 9  0      0 {fields['MemFree']} {fields['Buffers']} {fields['Cached']}    0    0    12    38 41210 88127 "
        "13  2 85  0  0  0\n"
    )
    return 0, head + row * (counts[1] if len(counts) > 1 else 1), ""


def _lsblk(host: DerivedHost) -> str:
    rows = [f"{'NAME':<12}SIZE TYPE MOUNTPOINTS\n"]
    for disk in host.figures.disks:
        name = disk.source.rpartition("/")[2]
        rows.append(f"{name:<12}{file_programs.scaled(disk.size_gib * file_programs.GIB):>4} disk {disk.mount}\n")
    return "".join(rows)


def _mounts(host: DerivedHost) -> str:
    return "".join(f"{disk.source} on {disk.mount} type {disk.kind} (rw,relatime)\n" for disk in host.figures.disks)


def _lspci(host: DerivedHost) -> str:
    name = host.figures.gpus.name if host.figures.gpus else ""
    return "".join(f"{card.bus} 3D controller: NVIDIA Corporation {name} (rev a1)\n" for card in host.cards)


def _which(host: DerivedHost, argv: list[str]) -> Output:
    there = programs_of(host)
    found = [f"/usr/bin/{name}\n" for name in argv[1:] if name in there]
    return int(len(found) < len(argv) - 1), "".join(found), ""
