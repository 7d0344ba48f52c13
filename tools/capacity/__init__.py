"""Memory arithmetic: what fits on the GPUs and in the host's RAM, why, and what each lever would change.

Lives here: model shapes, pools, budgets, walls and levers, all pure functions of facts. Must not: reading hosts or
files, looking into SGLang's tree, judging causes, or a figure without its formula and source.
"""

from tools.capacity.assumed import Assumed, Cards, assume
from tools.capacity.concurrency import MAX_NEW_CLIP, Concurrency, Limit, Mix, Slots, concurrency, slots_for
from tools.capacity.deployment import Deployment
from tools.capacity.fraction import Card, automatic_fraction
from tools.capacity.gpu import GpuBudget, Step, gpu_budget
from tools.capacity.graphs import GraphGrowth, graph_growth
from tools.capacity.host import HostBudget, host_budget, largest_ratio_within
from tools.capacity.lever import Lever
from tools.capacity.levers import levers
from tools.capacity.picture import Bar, bars, svg, terminal
from tools.capacity.report import Report
from tools.capacity.scoring import score
from tools.capacity.shape import ModelShape
from tools.capacity.sums import GB, Missing, Sum
from tools.capacity.whatif import MEMORY_LEVERS, NO_CAP, limit_that_fits, pool_tokens_with, what_if

__all__ = [
    "GB",
    "MAX_NEW_CLIP",
    "MEMORY_LEVERS",
    "NO_CAP",
    "Assumed",
    "Bar",
    "Card",
    "Cards",
    "Concurrency",
    "Deployment",
    "GpuBudget",
    "GraphGrowth",
    "HostBudget",
    "Lever",
    "Limit",
    "Missing",
    "Mix",
    "ModelShape",
    "Report",
    "Slots",
    "Step",
    "Sum",
    "assume",
    "automatic_fraction",
    "bars",
    "concurrency",
    "gpu_budget",
    "graph_growth",
    "host_budget",
    "largest_ratio_within",
    "levers",
    "limit_that_fits",
    "pool_tokens_with",
    "score",
    "slots_for",
    "svg",
    "terminal",
    "what_if",
]
