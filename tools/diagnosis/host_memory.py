"""Whose memory ran out: the container's, the host's by this server, or the host's by others."""

from __future__ import annotations

import re

from tools.diagnosis.clues import Seen
from tools.diagnosis.view import View

_OWN = re.compile(r"sglang|python|scheduler|detokenizer|launch_server|^pt_|torch|^ray", re.IGNORECASE)


def room_for_pools(view: View) -> float | None:
    """Bytes the host had for pools: what is free before they are taken, all of it once they are inside what is used."""
    total, available = view.number("mem_total_bytes"), view.number("mem_available_bytes")
    if total is None or available is None:
        return available or total
    up = view.facts.text("ready") == "True" or "decode_lines" in view.facts or "prefill_lines" in view.facts
    pools = (view.number("host_pool_total_gb") or 0.0) * 1e9
    each, ranks = view.number("host_pool_gb") or 0.0, view.value("--tp-size") or 1
    taken = max(pools, each * ranks * 1e9)
    return total if up or 0 < taken <= 1.02 * (total - available) else available


def ranks_with_pools(view: View) -> float:
    """Ranks of one host that each have a host pool: as asked for, else as many as were seen to take one."""
    tp = view.value("--tp-size")
    if not tp:
        return view.number("host_pool_ranks") or view.number("gpu_count") or 1
    replicas = 1 if view.on("--enable-dp-attention") else view.value("--dp-size") or 1
    return max(1, tp * (view.value("--pp-size") or 1) * replicas / (view.value("--nnodes") or 1))


def limit_binds(view: View) -> Seen | None:
    """The pools of all ranks come near the container's limit or pass it, and the host could hold them.

    Of a host that was not looked at, the kill tells: it names the container.
    """
    limit, host = view.number("cgroup_limit_bytes"), room_for_pools(view)
    each = view.number("host_pool_gb")
    if not limit or not each or not (host or view.has("message", "cgroup_kill")):
        return None
    wanted = each * ranks_with_pools(view) * 1e9
    if not host:
        text = f"{wanted / 1e9:.0f} GB asked, limit {limit / 1e9:.0f} GB"
        return Seen(text, view.sources("cgroup_limit_bytes", "host_pool_gb")) if wanted >= 0.7 * limit else None
    if wanted < 0.7 * limit or wanted > 0.8 * host or host < 1.2 * limit:
        return None
    text = f"{wanted / 1e9:.0f} GB asked, limit {limit / 1e9:.0f} GB, host {host / 1e9:.0f} GB"
    return Seen(text, view.sources("cgroup_limit_bytes", "host_pool_gb"))


def others_die(view: View) -> Seen | None:
    """Among what was killed for memory is a program that is not the server."""
    killed = (*view.facts.all("oom_victim"), *view.facts.all("kernel_oom_kill"))
    others = [one for one in killed if not _OWN.search(str(one.value))]
    return Seen(f"{others[0].value} was killed", (others[0].source,)) if others else None


def little_of_the_host(view: View) -> Seen | None:
    """The server's cgroup holds less than half of the host, and hardly anything of the host is free."""
    used, total = view.number("cgroup_used_bytes"), view.number("mem_total_bytes")
    if not used or not total or used > 0.5 * total or (view.number("mem_available_bytes") or total) > 0.1 * total:
        return None
    text = f"{used / 1e9:.0f} GB of {total / 1e9:.0f} GB, and hardly any is free"
    return Seen(text, view.sources("cgroup_used_bytes", "mem_available_bytes"))
