"""The unit of a recording: what was typed, and what SGLang made of it.

The unit file under `root/` (with its drop-ins) is the only place where flags stand. `/proc/PID/cmdline`, the
`server_args=` line and `/server_info` follow from it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from tools.host.recorded.errors import RecordingUnreadable
from tools.host.recorded.figures import Figures, Server

Argument = bool | int | float | str | list[Any] | dict[str, Any] | None

UNIT_FOLDERS = ("etc/systemd/system", "lib/systemd/system", "usr/lib/systemd/system")

_ALIASES = {
    "tp": "tp_size",
    "tensor_parallel_size": "tp_size",
    "dp": "dp_size",
    "data_parallel_size": "dp_size",
    "pp": "pp_size",
    "pipeline_parallel_size": "pp_size",
    "ep": "ep_size",
    "expert_parallel_size": "ep_size",
    "model": "model_path",
    "prefill_round_robin_balance": "load_balance_method",
    "speculative_algo": "speculative_algorithm",
    "attn_dp_size": "dp_size",
}


@dataclass(frozen=True, slots=True)
class UnitFile:
    """One file of a unit, with the path it has on the host."""

    path: str
    text: str

    def settings(self) -> list[tuple[str, str, str]]:
        """(section, key, value) in order, continuation lines joined as systemd joins them."""
        section, found, pending = "", [], ""
        for raw in self.text.splitlines():
            line = pending + raw.strip()
            if not pending and (not line or line[0] in "#;"):
                continue
            if line.endswith("\\"):
                pending = line[:-1].rstrip() + " "
                continue
            pending = ""
            if line.startswith("[") and line.endswith("]"):
                section = line[1:-1]
                continue
            key, _, value = line.partition("=")
            found.append((section, key.strip(), value.strip()))
        return found


@dataclass(frozen=True, slots=True)
class Launch:
    """The launch as typed. `argv` begins with the interpreter; `env` holds the unit's own variables."""

    unit: str
    files: tuple[UnitFile, ...]
    argv: tuple[str, ...]
    env: Mapping[str, str]

    def value(self, key: str, default: str = "") -> str:
        """The last value of a unit setting."""
        values = [value for file in self.files for _, name, value in file.settings() if name == key]
        return values[-1] if values else default

    @property
    def flags(self) -> dict[str, str | bool]:
        """Destination -> value as typed (True for a switch), abbreviations and aliases resolved where known."""
        found: dict[str, str | bool] = {}
        words = self.argv[1:]
        for index, word in enumerate(words):
            if not word.startswith("--"):
                continue
            name, equals, value = word[2:].partition("=")
            key = name.replace("-", "_")
            key = _ALIASES.get(key, key)
            following = words[index + 1] if index + 1 < len(words) else "--"
            if equals:
                found[key] = value
            elif following.startswith("--"):
                found[key] = True
            else:
                found[key] = following
        return found


def read_launch(root: Path, server: Server) -> Launch:
    """The launch of a recording's unit. Raises RecordingUnreadable when there is no unit file or no ExecStart."""
    files = _unit_files(root, server.unit)
    if not files:
        raise RecordingUnreadable(f"{root} holds no unit file {server.unit}.", f"It belongs in {UNIT_FOLDERS[0]}/.")
    command, env = "", {}
    for file in files:
        for _, key, value in file.settings():
            if key == "ExecStart":
                command = value
            elif key == "Environment":
                for item in shlex.split(value):
                    name, _, text = item.partition("=")
                    env[name] = text
    argv = tuple(shlex.split(command.lstrip("-@:+!")))
    if not argv:
        raise RecordingUnreadable(f"{files[0].path} has no ExecStart.")
    return Launch(server.unit, files, argv, env)


def _unit_files(root: Path, unit: str) -> tuple[UnitFile, ...]:
    for folder in UNIT_FOLDERS:
        path = root / folder / unit
        if path.is_file():
            drop_ins = sorted((root / "etc/systemd/system" / f"{unit}.d").glob("*.conf"))
            return tuple(
                UnitFile("/" + file.relative_to(root).as_posix(), file.read_text(encoding="utf-8"))
                for file in (path, *drop_ins)
            )
    return ()


def resolve(launch: Launch, figures: Figures, model: Mapping[str, Any]) -> dict[str, Argument]:
    """Server arguments in effect, in the order in which that version declares them.

    Follows `ServerArgs.__post_init__` for what the recordings show (sglang 0.5.9 srt/server_args.py:703): graph sizes
    and chunk by GPU size (:911-1007), attention backend (:1797-1835), the running limit of speculative decoding
    (:2362). Everything else that resolution changes stands under `resolved` in host.yaml.
    """
    server = figures.server
    if server is None:
        return {}
    arguments: dict[str, Argument] = dict(_defaults(server.version))
    for key, typed in launch.flags.items():
        if key in arguments:
            arguments[key] = _as_typed(typed, arguments[key])
    limit_typed = arguments.get("max_running_requests") is not None
    _by_gpu_size(arguments, figures)
    if arguments.get("speculative_algorithm") and not limit_typed:
        arguments["max_running_requests"] = 48
    if arguments.get("speculative_algorithm") and not at_least(server.version, "0.5.16"):
        arguments["disable_overlap_schedule"] = launch.env.get("SGLANG_ENABLE_SPEC_V2", "").lower() not in ("true", "1")
    for key, other in (("tokenizer_path", "model_path"), ("served_model_name", "model_path")):
        arguments[key] = arguments.get(key) or arguments.get(other)
    mla = "kv_lora_rank" in model.get("text_config", model)
    if arguments.get("attention_backend") is None:
        arguments["attention_backend"] = "triton" if mla else "flashinfer"
    filled: dict[str, Argument] = {
        "device": "cuda",
        "sampling_backend": "flashinfer",
        "grammar_backend": "xgrammar",
        "page_size": 1,
    }
    for key, value in {**filled, **figures.resolved}.items():
        if key in arguments and (arguments[key] is None or key in figures.resolved):
            arguments[key] = value
    return arguments


def _by_gpu_size(arguments: dict[str, Argument], figures: Figures) -> None:
    memory_mib = figures.gpus.memory_mib if figures.gpus else 0.0
    wide = int(str(arguments.get("tp_size") or 1)) >= 4
    rows: tuple[tuple[float, int, int, int], ...] = (
        (20 * 1024, 2048, 8, 8),
        (35 * 1024, 2048, 24, 80),
        (60 * 1024, 4096, 32, 160),
        (160 * 1024, 8192, 256, 512),
        (float("inf"), 16384, 512, 512),
    )
    chunk, narrow_bs, wide_bs = next(row[1:] for row in rows if memory_mib < row[0])
    if arguments.get("chunked_prefill_size") is None:
        arguments["chunked_prefill_size"] = chunk
    if "cuda_graph_max_bs" in arguments and arguments["cuda_graph_max_bs"] is None:
        arguments["cuda_graph_max_bs"] = wide_bs if wide else narrow_bs


def graph_sizes(maximum: int, limit: int, *, speculative: bool) -> list[int]:
    """Decode batches captured (sglang 0.5.9 srt/server_args.py:1079 and model_executor/cuda_graph_runner.py:190)."""
    if speculative:
        steps = [range(1, 9), range(10, 33, 2), range(40, 65, 4), range(72, 257, 8), range(272, maximum + 1, 16)]
    else:
        steps = [range(16, 257, 8), range(272, 512, 16), range(512, maximum + 1, 32)]
    sizes = {size for step in steps for size in step} | (set() if speculative else {1, 2, 4, 8, 12})
    captured = {size for size in sizes if size <= maximum}
    if captured and max(captured) > limit:
        captured.add(limit)
    return sorted(size for size in captured if size <= limit)


@lru_cache(maxsize=8)
def _defaults(version: str) -> dict[str, Argument]:
    """Arguments of the newest version on file that is not newer than the one asked for."""
    folder = resources.files("transcripts") / "recorded" / "server_args"
    known = sorted((_key(item.name.removesuffix(".json")), item) for item in folder.iterdir())
    fitting = [item for key, item in known if key <= _key(version)] or [known[0][1]]
    loaded: dict[str, Argument] = json.loads(fitting[-1].read_text(encoding="utf-8"))
    return loaded


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def at_least(version: str, other: str) -> bool:
    """Whether a version is that one or a later one."""
    return _key(version) >= _key(other)


def _as_typed(typed: str | bool, default: Argument) -> Argument:
    if isinstance(typed, bool):
        return typed
    if isinstance(default, bool) or typed in ("True", "False"):
        return typed == "True"
    for kind in (int, float):
        try:
            return kind(typed)
        except ValueError:
            continue
    return typed
