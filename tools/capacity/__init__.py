"""Memory arithmetic: what fits on the GPUs and in the host's RAM, why, and what each lever would change.

Lives here: model shapes, pools, budgets, walls and levers, all pure functions of facts. Must not: reading hosts or
files, looking into SGLang's tree, judging causes, or a figure without its formula and source.
"""

from tools.capacity.budget import GpuBudget, Step, gpu_budget
from tools.capacity.concurrency import Concurrency, Limit, Mix, Slots, concurrency, slots_for
from tools.capacity.host import HostBudget, host_budget
from tools.capacity.levers import Lever, levers
from tools.capacity.scoring import score
from tools.capacity.shape import ModelShape
from tools.capacity.sums import Missing, Sum

__all__ = [
    "Concurrency",
    "GpuBudget",
    "HostBudget",
    "Lever",
    "Limit",
    "Missing",
    "Mix",
    "ModelShape",
    "Slots",
    "Step",
    "Sum",
    "concurrency",
    "gpu_budget",
    "host_budget",
    "levers",
    "score",
    "slots_for",
]
