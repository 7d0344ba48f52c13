"""GPU listings: nvidia-smi's CSV and table, rocm-smi's CSV and JSON."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable
from typing import Final

from tools.host.parsers.page import Page, short_lines
from transcripts.facts import Evidence

_QUERY: Final = re.compile(r"--query-(gpu|compute-apps)[= ]([\w.,]+)")
_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?")
_MIB: Final = 1 << 20
_ROW: Final = re.compile(r"\|\s*(\d+)\s+(\S.*?)\s+(?:On|Off|N/A)\s*\|\s*[0-9A-Fa-f]{8}:")
_SHORT_ROW: Final = re.compile(r"[\s|]*(\d+)\s+((?:NVIDIA|Tesla|GeForce|Quadro|RTX)\b[^|]*?)\s*\|")
_ROW_MEMORY: Final = re.compile(r"\b(\d{1,9})MiB\s{0,9}/\s{0,9}(\d{1,9})MiB")
_GPUSTAT: Final = re.compile(r"\s*\[(\d+)\]\s+(\S[^|]*?)\s*\|.*?(\d{1,9})\s*/\s*(\d{1,9})\s*MB\b(.*)")
_GPUSTAT_PROCESS: Final = re.compile(r"([\w.:-]+)(?:/(\d+))?\((\d+)M\)")
_TABLE_HEAD: Final = re.compile(r"NVIDIA-SMI \S+\s+Driver Version: (\S+)")
_TABLE_PROCESS: Final = re.compile(r"\|\s*(\d+)\s+\S+\s+\S+\s+(\d+)\s+[CG+M]+\s+(\S.*?)\s+(\d+)MiB\s*\|")

# column of --query-gpu -> fact
_GPU_COLUMNS: Final = {
    "name": "gpu_name",
    "gpu_name": "gpu_name",
    "memory.total": "gpu_memory_mib",
    "memory.used": "gpu_used_mib",
    "memory.free": "gpu_free_mib",
    "compute_cap": "compute_capability",
    "utilization.gpu": "gpu_utilization",
    "power.draw": "gpu_power_w",
    "temperature.gpu": "gpu_temperature_c",
    "pcie.link.gen.current": "gpu_pcie_generation",
    "pcie.link.gen.max": "gpu_pcie_generation_max",
    "pcie.link.width.current": "gpu_pcie_width",
}
_TEXT_FACTS: Final = {"gpu_name", "compute_capability"}


def read_nvidia(page: Page, evidence: Evidence) -> None:
    """Rows of any `--query-gpu` or `--query-compute-apps` list: by the header line, else by the list in the command."""
    asked = {kind: names.split(",") for kind, names in _QUERY.findall(evidence.command)}
    columns: list[str] = []
    if len(asked) == 1 and "noheader" in evidence.command:
        columns = next(iter(asked.values()))
    row_number = 0
    for number, raw in short_lines(evidence.text):
        if typed := _QUERY.search(raw):  # a command pasted with what it printed; a head line, where one follows, counts
            columns, row_number = typed[2].split(","), 0
            continue
        cells = _cells(raw)
        if len(cells) < 2 and len(columns) != 1:
            continue
        cells = cells or [raw.strip()]
        head = [cell.split(" [")[0].strip() for cell in cells]
        if _is_head(head):
            columns, row_number = head, 0
        elif columns and len(cells) == len(columns):
            _row(page, dict(zip(columns, cells, strict=True)), row_number, number)
            row_number += 1
    if not columns:
        _nvidia_table(page, evidence.text)
    _count(page, evidence)


def looks_like_gpus(line: str) -> bool:
    """Whether a line heads a listing that `read_nvidia` reads."""
    if _TABLE_HEAD.search(line) or _QUERY.search(line) or _ROW_MEMORY.search(line) or _GPUSTAT.match(line):
        return True
    return _is_head([cell.split(" [")[0].strip() for cell in _cells(line)])


def read_rocm(page: Page, evidence: Evidence) -> None:
    """`rocm-smi --showproductname --showmeminfo vram` as CSV or JSON."""
    start = evidence.text.find("{")
    if start >= 0:
        _rocm_json(page, evidence.text[start:])
    else:
        lines = evidence.text.splitlines()
        head: list[str] = []
        for number, raw in enumerate(lines, start=1):
            cells = _cells(raw)
            if cells and cells[0].lower() == "device":
                head = cells
            elif head and len(cells) == len(head):
                _rocm_card(page, cells[0], dict(zip(head, cells, strict=True)), number)
    _count(page, evidence)


def _cells(raw: str) -> list[str]:
    if "," not in raw or len(raw) > 4096:
        return []
    return [cell.strip() for cell in next(csv.reader([raw]))]


def _is_head(head: Iterable[str]) -> bool:
    names = set(head)
    if names & {"memory.total", "memory.used", "memory.free", "used_gpu_memory"}:
        return True
    return {"index", "name"} <= names or {"pid", "process_name"} <= names


def _row(page: Page, row: dict[str, str], position: int, number: int) -> None:
    if "pid" in row:
        _process(page, row, number)
        return
    scope = f"gpu{row.get('index', position)}"
    bus = row.get("pci.bus_id") or row.get("gpu_bus_id")
    if bus:
        page.add("gpu_bus_id", bus, number, scope=scope)
    if "uuid" in row or "gpu_uuid" in row:
        page.add("gpu_uuid", row.get("uuid") or row["gpu_uuid"], number, scope=scope)
    for column, value in row.items():
        name = _GPU_COLUMNS.get(column)
        if name is not None:
            _value(page, name, value, number, scope)
        elif column == "driver_version" and value and not any(fact.name == column for fact in page.facts):
            page.add("driver_version", value, number)


def _process(page: Page, row: dict[str, str], number: int) -> None:
    index = f"gpu{row['index']}" if "index" in row else "gpu"
    device = row.get("gpu_uuid") or row.get("gpu_bus_id") or row.get("pci.bus_id") or index
    scope = f"{device}:{row['pid']}"
    for column in ("used_gpu_memory", "used_memory"):
        if column in row:
            _value(page, "gpu_process_mib", row[column], number, scope)
    if row.get("process_name") or row.get("name"):
        page.add("gpu_process", row.get("process_name") or row["name"], number, scope=scope)


def _value(page: Page, name: str, text: str, number: int, scope: str) -> None:
    if name in _TEXT_FACTS:
        if text and "N/A" not in text:
            page.add(name, text, number, scope=scope)
        return
    match = _NUMBER.match(text)
    if match is not None:
        value = float(match[0])
        page.add(name, int(value) if value.is_integer() else value, number, scope=scope)


def _nvidia_table(page: Page, text: str) -> None:
    """The table that plain `nvidia-smi` prints."""
    scope = ""
    for number, raw in short_lines(text):
        head = _TABLE_HEAD.search(raw)
        if head is not None:
            page.add("driver_version", head[1], number)
        row = _ROW.match(raw)
        if row is not None:
            scope = f"gpu{row[1]}"
            page.add("gpu_name", row[2], number, scope=scope)
        memory = _ROW_MEMORY.search(raw)
        if memory is not None and not scope and (short := _SHORT_ROW.match(raw)):
            scope = f"gpu{short[1]}"
            page.add("gpu_name", short[2], number, scope=scope)
        if memory is not None and scope:
            page.add("gpu_used_mib", int(memory[1]), number, scope=scope)
            page.add("gpu_memory_mib", int(memory[2]), number, scope=scope)
            scope = ""
        if stat := _GPUSTAT.match(raw):
            _gpustat(page, stat, number)
        process = _TABLE_PROCESS.match(raw)
        if process is not None:
            both = f"gpu{process[1]}:{process[2]}"
            page.add("gpu_process_mib", int(process[4]), number, scope=both)
            page.add("gpu_process", process[3], number, scope=both)


def _gpustat(page: Page, found: re.Match[str], number: int) -> None:
    """`[0] NAME | 33'C, 0 % | 66601 / 81251 MB | user(2620M) user:python/4711(57706M)`: MB are MiB there."""
    scope = f"gpu{found[1]}"
    page.add("gpu_name", found[2], number, scope=scope)
    page.add("gpu_used_mib", int(found[3]), number, scope=scope)
    page.add("gpu_memory_mib", int(found[4]), number, scope=scope)
    for place, (name, pid, held) in enumerate(_GPUSTAT_PROCESS.findall(found[5])):
        both = f"{scope}:{pid or place}"
        page.add("gpu_process_mib", int(held), number, scope=both)
        page.add("gpu_process", name, number, scope=both)


def _rocm_json(page: Page, text: str) -> None:
    try:
        cards = json.loads(text)
    except (ValueError, RecursionError):
        return
    if isinstance(cards, dict):
        for card, values in cards.items():
            if isinstance(values, dict) and card.startswith("card"):
                _rocm_card(page, card, {str(key): str(value) for key, value in values.items()}, 0)


def _rocm_card(page: Page, card: str, values: dict[str, str], number: int) -> None:
    scope = card.replace("card", "gpu")
    total, used = values.get("VRAM Total Memory (B)", ""), values.get("VRAM Total Used Memory (B)", "")
    name = values.get("Card Series") or values.get("Card series") or values.get("Card SKU")
    if name:
        page.add("gpu_name", name, number, scope=scope)
    if total.isdecimal():
        page.add("gpu_memory_mib", int(total) // _MIB, number, scope=scope)
    if used.isdecimal():
        page.add("gpu_used_mib", int(used) // _MIB, number, scope=scope)


def _count(page: Page, evidence: Evidence) -> None:
    listed = {fact.scope: fact for fact in page.facts if fact.name in ("gpu_name", "gpu_memory_mib")}
    if listed and not evidence.truncated:
        page.add("gpu_count", len(listed), 0, grade="derived")
