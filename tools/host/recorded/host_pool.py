"""What HiCache takes of host RAM on a recorded server, and whether its check lets the start pass."""

from __future__ import annotations

from collections.abc import Mapping

from tools.host.recorded.figures import Figures
from tools.host.recorded.launch import Argument
from tools.host.recorded.ledger import GIB, Ledger


def host_pool_gb(arguments: Mapping[str, Argument], ledger: Ledger) -> float:
    """Decimal GB of one rank's HiCache pool, 0 without one."""
    tokens = host_pool_tokens(arguments, ledger)
    return (tokens + 1) * ledger.pool.cell_bytes / 1e9 if tokens else 0.0


def host_pool_tokens(arguments: Mapping[str, Argument], ledger: Ledger) -> int:
    """Tokens of the HiCache pool, 0 without one (sglang 0.5.9 srt/mem_cache/memory_pool_host.py:157)."""
    if not arguments.get("enable_hierarchical_cache"):
        return 0
    size_gb = float(str(arguments.get("hicache_size") or 0))
    if size_gb > 0:
        return int(size_gb * 1e9 // ledger.pool.cell_bytes)
    return int(ledger.pool.tokens * float(str(arguments.get("hicache_ratio") or 2.0)))


def host_pool_fits(figures: Figures, arguments: Mapping[str, Argument], ledger: Ledger) -> bool:
    """One rank's pool against what is available on the machine less 10 GiB (0.5.9 memory_pool_host.py:172)."""
    return host_pool_gb(arguments, ledger) * 1e9 <= (figures.memory.available_gib - 10) * GIB
