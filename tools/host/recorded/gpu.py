"""nvidia-smi over the recorded cards: queries with any field, lists, topology, processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tools.host.recorded.figures import Gpus
from tools.host.recorded.options import Options, UsageMistake, count, parse
from tools.host.recorded.processes import Process


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU as nvidia-smi sees it, MiB."""

    index: int
    gpus: Gpus
    used_mib: int
    busy: bool

    @property
    def free_mib(self) -> int:
        return round(self.gpus.memory_mib - self.gpus.reserved_mib) - self.used_mib

    @property
    def bus(self) -> str:
        return f"{(0x01, 0x11, 0x61, 0x71, 0x81, 0x91, 0xC1, 0xE1)[self.index % 8]:02X}:00.0"

    @property
    def uuid(self) -> str:
        return f"GPU-{0x6F1D20A7 + self.index * 0x01010101:08x}-51c3-4b7e-9a2f-{0x1A2B3C4D5E60 + self.index:012x}"

    @property
    def power_w(self) -> float:
        return round(self.gpus.power_w + 3.7 * (self.index % 4), 2) if self.busy else 31.4 + self.index


def cards(gpus: Gpus, used_mib: int | None) -> tuple[Card, ...]:
    """`used_mib` is what the first card holds, None while no server runs."""
    found = []
    for index in range(gpus.count):
        spread = gpus.spread_mib[index % len(gpus.spread_mib)] if gpus.spread_mib else 0
        found.append(Card(index, gpus, 2 if used_mib is None else used_mib + spread, used_mib is not None))
    return tuple(found)


_FIELDS: dict[str, tuple[str, Callable[[Card], str]]] = {
    "index": ("", lambda card: str(card.index)),
    "count": ("", lambda card: str(card.gpus.count)),
    "name": ("", lambda card: card.gpus.name),
    "gpu_name": ("", lambda card: card.gpus.name),
    "uuid": ("", lambda card: card.uuid),
    "gpu_uuid": ("", lambda card: card.uuid),
    "serial": ("", lambda card: f"17932250{41327 + card.index}"),
    "driver_version": ("", lambda card: card.gpus.driver),
    "compute_cap": ("", lambda card: card.gpus.compute_capability),
    "pci.bus_id": ("", lambda card: f"00000000:{card.bus}"),
    "gpu_bus_id": ("", lambda card: f"00000000:{card.bus}"),
    "pci.bus": ("", lambda card: f"0x{card.bus[:2]}"),
    "memory.total": ("MiB", lambda card: f"{card.gpus.memory_mib:.0f}"),
    "memory.used": ("MiB", lambda card: str(card.used_mib)),
    "memory.free": ("MiB", lambda card: str(card.free_mib)),
    "memory.reserved": ("MiB", lambda card: f"{card.gpus.reserved_mib:.0f}"),
    "utilization.gpu": ("%", lambda card: str(card.gpus.utilization if card.busy else 0)),
    "utilization.memory": ("%", lambda card: str(card.gpus.utilization // 2 if card.busy else 0)),
    "temperature.gpu": ("", lambda card: str(card.gpus.temperature_c + card.index % 3)),
    "temperature.memory": ("", lambda _: "N/A"),
    "power.draw": ("W", lambda card: f"{card.power_w:.2f}"),
    "power.limit": ("W", lambda card: f"{card.gpus.power_limit_w:.2f}"),
    "clocks.sm": ("MHz", lambda card: "2287" if card.busy else "180"),
    "clocks.current.sm": ("MHz", lambda card: "2287" if card.busy else "180"),
    "clocks.mem": ("MHz", lambda card: "12481" if card.busy else "405"),
    "clocks.max.sm": ("MHz", lambda _: "2430"),
    "pstate": ("", lambda card: "P1" if card.busy else "P8"),
    "persistence_mode": ("", lambda _: "Enabled"),
    "mig.mode.current": ("", lambda _: "Disabled"),
    "ecc.mode.current": ("", lambda _: "Enabled"),
    "ecc.errors.uncorrected.volatile.total": ("", lambda _: "0"),
    "compute_mode": ("", lambda _: "Default"),
    "pcie.link.gen.current": ("", lambda _: "5"),
    "pcie.link.width.current": ("", lambda _: "16"),
    "fan.speed": ("%", lambda _: "N/A"),
    "vbios_version": ("", lambda _: "98.02.5D.00.03"),
    "display_active": ("", lambda _: "Disabled"),
    "timestamp": ("", lambda _: ""),
}
_SMI = Options(
    values={
        "query-gpu": "gpu",
        "query-compute-apps": "apps",
        "format": "format",
        "i": "id",
        "id": "id",
        "d": "display",
        "display": "display",
        "c": "count",
        "s": "select",
        "o": "options",
    },
    switches={"L": "list", "list-gpus": "list", "q": "query", "query": "query", "m": "matrix", "h": "help"},
)


def nvidia_smi(found: tuple[Card, ...], running: Iterable[Process], now: str, argv: list[str]) -> tuple[int, str, str]:
    """As nvidia-smi answers. `running` are the processes of the host; those with a rank hold a card."""
    if argv[1:2] == ["nvlink"]:
        # No links on these cards: only their names are printed, whatever is asked about links.
        return 0, _names(found), ""
    try:
        asked = parse(_SMI, argv[1:])
    except UsageMistake as mistake:
        return 2, f"Invalid combination of input arguments. {mistake}\n", ""
    chosen = [card for card in found if asked.last("id") in (None, str(card.index), card.uuid, f"00000000:{card.bus}")]
    holders: dict[int | None, Process] = {process.rank: process for process in running if process.rank is not None}
    formats = set((asked.last("format") or "").split(","))
    if (fields := asked.last("gpu")) is not None:
        return _query(fields, formats, [(card, None) for card in chosen], now)
    if (fields := asked.last("apps")) is not None:
        rows: list[tuple[Card, Process | None]] = [
            (card, holders[card.index]) for card in chosen if card.index in holders
        ]
        return _query(fields, formats, rows, now)
    if asked.has("list"):
        return 0, _names(chosen), ""
    if asked.operands[:1] == ["topo"]:
        return 0, _topology(found), ""
    if asked.operands[:1] == ["dmon"]:
        return 0, _dmon(chosen, count(asked.last("count") or "1")), ""
    if asked.has("query"):
        return 0, _details(chosen, now), ""
    return 0, _table(chosen, holders, now), ""


def _query(fields: str, formats: set[str], rows: list[tuple[Card, Process | None]], now: str) -> tuple[int, str, str]:
    names = [name.strip() for name in fields.split(",") if name.strip()]
    titles, columns = [], []
    for name in names:
        column = _column(name, now)
        if column is None:
            return 2, f'Field "{name}" is not a valid field to query.\n\n', ""
        unit, read = column
        bare = "nounits" in formats or not unit
        titles.append(f"{name} [{unit}]" if unit else name)
        columns.append((unit, read, bare))
    lines = [] if "noheader" in formats else [", ".join(titles)]
    for card, process in rows:
        cells = []
        for unit, read, bare in columns:
            value = read(card, process)
            cells.append(f"[{value}]" if value == "N/A" else value if bare else f"{value} {unit}")
        lines.append(", ".join(cells))
    return 0, "".join(line + "\n" for line in lines), ""


Read = Callable[[Card, "Process | None"], str]


def _column(name: str, now: str) -> tuple[str, Read] | None:
    if name == "timestamp":
        return "", lambda card, process: now
    if name == "pid":
        return "", lambda card, process: str(process.pid if process else "")
    if name == "process_name":
        return "", lambda card, process: process.name if process else ""
    if name in ("used_memory", "used_gpu_memory"):
        return "MiB", lambda card, process: str(held_mib(card))
    field = _FIELDS.get(name) or _FIELDS.get(name.replace("clocks.current.", "clocks."))
    if field is None:
        return None
    unit, read = field
    return unit, lambda card, process: read(card)


def _names(found: Iterable[Card]) -> str:
    return "".join(f"GPU {card.index}: {card.gpus.name} (UUID: {card.uuid})\n" for card in found)


def held_mib(card: Card) -> int:
    """What the scheduler on a card holds; the rest of what is used is the driver's own."""
    return card.used_mib - 14


def _topology(found: tuple[Card, ...]) -> str:
    count = len(found)
    head = "\t" + "".join(f"GPU{card.index}\t" for card in found) + "CPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"
    rows = []
    for card in found:
        half = card.index * 2 // max(count, 1)
        cells = []
        for other in found:
            same = other.index * 2 // max(count, 1) == half
            link = "NV18" if card.gpus.topology == "nvlink" else ("NODE" if same else "SYS")
            cells.append(" X " if other.index == card.index else link)
        affinity = f"{half * 32}-{half * 32 + 31},{64 + half * 32}-{64 + half * 32 + 31}"
        rows.append(f"GPU{card.index}\t" + "\t".join(cells) + f"\t{affinity}\t{half}\t\tN/A\n")
    legend = (
        "\nLegend:\n\n  X    = Self\n"
        "  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)\n"
        "  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node\n"
        "  NV#  = Connection traversing a bonded set of # NVLinks\n"
    )
    return head + "".join(rows) + legend


def _dmon(chosen: list[Card], count: int) -> str:
    head = "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk \n"
    head += "# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz \n"
    row = "".join(
        f"{card.index:>5}{card.power_w:>7.0f}{card.gpus.temperature_c:>7}      -{card.gpus.utilization:>7}"
        f"{card.gpus.utilization // 2:>7}      0      0      0      0  12481   2287 \n"
        for card in chosen
    )
    return head + row * count


def _details(chosen: list[Card], now: str) -> str:
    if not chosen:
        return "No devices were found\n"
    gpus = chosen[0].gpus
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        f"{'Timestamp':<50}: {now}",
        f"{'Driver Version':<50}: {gpus.driver}",
        f"{'CUDA Version':<50}: {gpus.cuda}",
        "",
        f"{'Attached GPUs':<50}: {gpus.count}",
    ]
    for card in chosen:
        lines += [
            f"GPU 00000000:{card.bus}",
            "    FB Memory Usage",
            f"{'        Total':<50}: {gpus.memory_mib:.0f} MiB",
            f"{'        Reserved':<50}: {gpus.reserved_mib:.0f} MiB",
            f"{'        Used':<50}: {card.used_mib} MiB",
            f"{'        Free':<50}: {card.free_mib} MiB",
            "",
        ]
    return "\n".join(lines) + "\n"


def _table_row(card: Card, state: str, power: str, memory: str) -> str:
    degrees, busy = card.gpus.temperature_c + card.index % 3, card.gpus.utilization if card.busy else 0
    return f"| N/A  {degrees:>3}C    {state}  {power:>23} | {memory:>22} |{busy:>7}%      Default |"


def _table(chosen: list[Card], holders: dict[int | None, Process], now: str) -> str:
    if not chosen:
        return "No devices were found\n"
    gpus, rule = (
        chosen[0].gpus,
        "+-----------------------------------------+------------------------+----------------------+",
    )
    versions = f"NVIDIA-SMI {gpus.driver:<22} Driver Version: {gpus.driver:<14} CUDA Version: {gpus.cuda:<8}"
    lines = [now, "+" + "-" * 89 + "+", f"| {versions:<87} |", rule]
    lines += [
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |",
        "| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |",
        "|                                         |                        |               MIG M. |",
        "|=========================================+========================+======================|",
    ]
    for card in chosen:
        memory = f"{card.used_mib}MiB / {gpus.memory_mib:>6.0f}MiB"
        power = f"{card.power_w:.0f}W / {gpus.power_limit_w:>4.0f}W"
        state = "P1" if card.busy else "P8"
        lines += [
            f"| {card.index:>3}  {gpus.name[:27]:<29}On  |   00000000:{card.bus} Off |                    0 |",
            _table_row(card, state, power, memory),
            "|                                         |                        |             Disabled |",
            rule,
        ]
    lines += ["", "+" + "-" * 89 + "+", f"| {'Processes:':<87} |"]
    lines.append(
        f"| {' GPU   GI   CI              PID   Type   Process name                        GPU Memory ':<87} |"
    )
    lines.append("|" + "=" * 89 + "|")
    for card in chosen:
        process = holders.get(card.index)
        if process is not None:
            text = f"{card.index:>4}   N/A  N/A {process.pid:>15}      C   {process.name:<33}{held_mib(card):>9}MiB"
            lines.append(f"| {text:<87} |")
    if not holders:
        lines.append(f"| {' No running processes found':<87} |")
    lines.append("+" + "-" * 89 + "+")
    return "\n".join(lines) + "\n"
