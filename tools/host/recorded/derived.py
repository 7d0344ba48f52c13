"""All that a recorded host holds, derived from its figures and files: processes, journal, files, cards, endpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from tools.host.recorded.boot_log import boot_lines
from tools.host.recorded.endpoints import Service
from tools.host.recorded.errors import RecordingUnreadable
from tools.host.recorded.figures import Figures, read_figures
from tools.host.recorded.files import Files
from tools.host.recorded.gpu import Card, cards
from tools.host.recorded.host_pool import host_pool_tokens
from tools.host.recorded.journal import Entry, kernel_entries, server_entries
from tools.host.recorded.launch import Argument, Launch, read_launch, resolve
from tools.host.recorded.ledger import Ledger, build_ledger
from tools.host.recorded.proc_files import computed_files
from tools.host.recorded.processes import Process, processes
from tools.host.recorded.start import Start
from tools.host.recorded.traffic import Limits, Traffic, play
from tools.host.recorded.units import Units


class DerivedHost:
    """The host of one folder. `tree` is the SGLang package it has installed (the folder that holds `srt/`), or None.

    Everything is derived once, when it is first asked for, and never changes afterwards.
    """

    def __init__(self, folder: Path, *, tree: Path | None = None) -> None:
        self.folder = folder
        self.tree = tree
        self.figures: Figures = read_figures(folder)
        self.root = folder / "root"
        if self.figures.server is not None and self.figures.boot is None:
            raise RecordingUnreadable(f"{folder}/host.yaml: a server needs the section boot.")

    @property
    def title(self) -> str:
        return self.figures.title

    @property
    def complaint(self) -> str:
        return self.figures.complaint

    @cached_property
    def launch(self) -> Launch | None:
        server = self.figures.server
        return None if server is None or server.state == "absent" else read_launch(self.root, server)

    @cached_property
    def model(self) -> Mapping[str, Any]:
        return self._config("model_path") or {}

    @cached_property
    def draft(self) -> Mapping[str, Any] | None:
        return self._config("speculative_draft_model_path")

    def _config(self, flag: str) -> Mapping[str, Any] | None:
        folder = self.launch.flags.get(flag) if self.launch else None
        if not isinstance(folder, str):
            return None
        path = self.root / folder.lstrip("/") / "config.json"
        try:
            loaded: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RecordingUnreadable(f"{path} cannot be read as JSON.", "The unit's flags name that model.") from error
        return loaded

    @cached_property
    def arguments(self) -> dict[str, Argument]:
        return resolve(self.launch, self.figures, self.model) if self.launch else {}

    @cached_property
    def ledger(self) -> Ledger | None:
        if self.launch is None:
            return None
        speculative = self.arguments.get("speculative_algorithm") is not None
        return build_ledger(self.figures, self.arguments, self.model, self.draft if speculative else None)

    @cached_property
    def start(self) -> Start | None:
        server, boot, ledger = self.figures.server, self.figures.boot, self.ledger
        if server is None or boot is None or ledger is None or self.launch is None:
            return None
        typed = "max_running_requests" in self.launch.flags
        return Start(self.figures, server, boot, self.arguments, ledger, typed)

    @cached_property
    def traffic(self) -> Traffic:
        start = self.start
        if start is None or not self.serving:
            return Traffic()
        return play(
            self.figures.load,
            Limits(
                running=start.ledger.running_limit,
                pool_tokens=start.ledger.pool.tokens,
                chunk_tokens=int(str(self.arguments.get("chunked_prefill_size") or 8192)),
                interval_steps=int(str(self.arguments.get("decode_log_interval") or 40)),
                speculative=bool(self.arguments.get("speculative_algorithm")),
                host_tokens=host_pool_tokens(self.arguments, start.ledger),
            ),
            now=self.figures.now,
            ready=boot_lines(start, start.server.started)[-1].at,
        )

    @property
    def serving(self) -> bool:
        """Whether the server runs and its start went through."""
        start = self.start
        return start is not None and start.server.state == "running" and start.succeeds

    @cached_property
    def service(self) -> Service | None:
        start = self.start
        return Service(start, self.traffic, self.model) if start is not None and self.serving else None

    @cached_property
    def processes(self) -> tuple[Process, ...]:
        return processes(self.figures, self.launch if self.serving else None, self.arguments)

    @cached_property
    def cards(self) -> tuple[Card, ...]:
        gpus = self.figures.gpus
        if gpus is None:
            return ()
        used = None
        if self.serving and self.ledger is not None:
            used = round(gpus.memory_mib - gpus.reserved_mib - self.ledger.serving * 1024)
        return cards(gpus, used)

    @cached_property
    def journal(self) -> list[Entry]:
        entries = kernel_entries(self.figures)
        if self.start is not None and self.launch is not None:
            entries += server_entries(self.figures, self.launch, self.start, self.traffic.events)
        return sorted(entries, key=lambda entry: entry.at)

    @cached_property
    def units(self) -> Units:
        return Units(self.figures, self.launch, self.figures.server, self.processes, self.journal)

    @cached_property
    def files(self) -> Files:
        main = self.figures.server.pid if self.figures.server else 0
        mine = [process for process in self.processes if main in (process.pid, process.parent)]
        held = sum(process.resident_kib for process in mine) * 1024
        server = self.figures.server
        mounts = {server.package: self.tree} if server is not None and self.tree is not None else {}
        links = {}
        if self.launch is not None and mine:
            links[f"/proc/{main}/exe"] = "/usr/bin/python3.12"
            links[f"/proc/{main}/cwd"] = self.launch.value("WorkingDirectory", "/")
        return Files(
            self.root,
            self.figures.now,
            computed_files(self.figures, self.launch, self.processes, held),
            links=links,
            mounts=mounts,
            sizes={"/usr/bin/python3.12": 8_020_928},
        )
