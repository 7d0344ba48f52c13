"""What `host.yaml` may hold: every figure of a recorded host that is not derived from another one.

Device memory is in GiB as SGLang prints it, host memory in GiB, GPU sizes in MiB as nvidia-smi prints them.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tools.host.recorded.errors import RecordingUnreadable

State = Literal["running", "restarting", "failed", "stopped", "absent"]
Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Machine(_Section):
    hostname: str = "gpu1"
    user: str = "root"
    booted: datetime
    kernel: str = "6.8.0-90-generic"
    cpu: str = "AMD EPYC 9355 32-Core Processor"
    sockets: Count = 2
    cores_per_socket: Count = 32
    address: str = "10.20.0.11"


class Memory(_Section):
    """`available_gib` is MemAvailable; page cache is what is left between it and what is free."""

    total_gib: Positive
    available_gib: Positive
    free_gib: Positive
    shared_gib: Positive = 4.1
    swap_gib: float = 0.0
    nodes: Count = 2


class Gpus(_Section):
    """One model of card. `spread_mib` is what each card uses more (or less) than the first."""

    name: str
    count: Count
    memory_mib: Positive
    reserved_mib: Positive
    driver: str
    cuda: str
    compute_capability: str
    power_limit_w: Positive
    power_w: Positive = 92.0
    utilization: Count = 0
    temperature_c: Count = 41
    spread_mib: tuple[int, ...] = ()
    topology: Literal["pcie", "nvlink"] = "pcie"


class Disk(_Section):
    source: str
    kind: str
    size_gib: Positive
    used_gib: float
    mount: str


class Server(_Section):
    """Where SGLang is installed and how its unit stands."""

    state: State = "running"
    version: str
    unit: str
    pid: Count
    started: datetime
    ended: datetime | None = None
    earlier_starts: tuple[datetime, ...] = ()
    restarts: Count = 0
    model_class: str
    package: str = Field(description="folder of the sglang package on the host")
    site_packages: str = Field(default="", description="folder of the dist-info on the host, or empty")
    git_commit: str = ""
    scheduler_rss_gib: Positive = 9.0
    failure: Literal["", "kv_budget", "oom_graph", "host_oom"] = ""

    @property
    def dist_info(self) -> str:
        """Folder of the package's metadata, empty when it is not installed as one."""
        return f"{self.site_packages}/sglang-{self.version}.dist-info" if self.site_packages else ""


class Boot(_Section):
    """Device memory of one rank through a start, GiB, and how long its stages take, seconds."""

    context_gib: Positive = 0.62
    weights_before_gib: Positive
    weights_after_gib: Positive
    rank_spread_gib: tuple[float, ...] = ()
    pool_misc_gib: float = 0.03
    workspace_gib: float = 0.41
    target_graph_gib: float = 1.48
    draft_weights_gib: float = 0.78
    draft_graph_gib: float = 0.94
    draft_extend_graph_gib: float = 1.12
    sampling_gib: float = 0.35
    serving_gib: float = Field(default=0.37, description="what serving adds to what the boot took")
    imports_s: float = 24.0
    distributed_s: float = 9.4
    weights_s: float = 214.0
    graphs_s: float = 31.0
    draft_weights_s: float = 6.2
    draft_graphs_s: float = 11.5
    warmup_s: float = 14.0


class Phase(_Section):
    """A stretch of load. `running` is `limit` (as many as the limit and the pool let in) or a fixed number.

    `busy` is the share of every minute in which clients are there at all; at 1 they never pause.
    """

    minutes: Positive
    ramp_minutes: float = 0.0
    in_flight: Count
    busy: Fraction = 1.0
    running: Literal["limit"] | Count = "limit"
    tokens_per_request: Positive
    output_tokens: Positive
    max_new_tokens: Positive = 4096
    hit_rate: Fraction = 0.0
    accept_len: Positive = 2.4
    step_ms: Positive = 40.0


class Load(_Section):
    """Phases follow one another; the last one ends at `now`.

    `returning` is the share of prompt tokens that were computed once before: what of it the GPU's pool has lost is
    found again in a host copy of it, as far as that reaches.
    """

    seed: Count = 1
    returning: Fraction = 0.0
    phases: tuple[Phase, ...]


class Figures(_Section):
    title: str
    complaint: str = ""
    now: datetime
    machine: Machine
    memory: Memory
    gpus: Gpus | None = None
    disks: tuple[Disk, ...] = ()
    server: Server | None = None
    boot: Boot | None = None
    resolved: dict[str, bool | int | float | str | None] = Field(default_factory=dict)
    load: Load | None = None
    kernel_log: tuple[tuple[datetime, str], ...] = ()


def read_figures(folder: Path) -> Figures:
    """The figures of a recording. Raises RecordingUnreadable naming the field that does not fit."""
    path = folder / "host.yaml"
    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RecordingUnreadable(
            f"{folder} is not a recording: it has no host.yaml.", "Copy one of the recordings that ship and change it."
        ) from error
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RecordingUnreadable(f"{path} cannot be read: {_first_line(error)}.") from error
    try:
        return Figures.model_validate(loaded)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise RecordingUnreadable(f"{path}: {where}: {first['msg']}.") from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
