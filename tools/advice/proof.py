"""Whether the evidence of a change is of two kinds, one of which an outside requester cannot write."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from transcripts.facts import Evidence

# kind of evidence: the probes that bring it. A request can put text into what the server prints, wherever that is kept,
# and a single command may have shown such a text; it cannot write any of the others.
_BROUGHT_BY = {
    "gpu": "gpus gpu_processes gpus_rocm topology",
    "unit": "unit unit_files unit_history process processes discovery limits environment cgroup cgroup_v1 container "
    "containers",
    "kernel": "kernel_log",
    "metrics": "metrics loads server_info models",
    "host": "meminfo numa hugepages shm disks sockets",
    "files": "model_config draft_config version package_version tree",
    "journal": "journal_boot journal_recent container_boot container_log podman_log log_boot log_recent command",
}
_KINDS = {probe: kind for kind, probes in _BROUGHT_BY.items() for probe in probes.split()}
_OUTSIDE_REACH = frozenset({"gpu", "unit", "kernel", "metrics", "host"})
_LOOKS = {
    "journal": "the server's metrics or `systemctl show` of its unit",
    "source": "a look at the host: GPUs, unit file or metrics",
    "pasted": "the same look taken by sglscout on the live host (`diagnose --host`)",
}


def kinds(references: tuple[str, ...], evidence: Mapping[str, Evidence]) -> frozenset[str]:
    """Kinds of what is referred to: `E5:88` by its probe, `S1` as source; what was pasted is one kind by itself."""
    found = set()
    for reference in references:
        name = reference.partition(":")[0]
        if name.startswith("S") and name[1:].isdecimal():
            found.add("source")
        elif name in evidence:
            found.add(_KINDS.get(evidence[name].probe, "pasted"))
    return frozenset(found)


def unknown(references: tuple[str, ...], evidence: Mapping[str, Evidence], citations: Collection[str]) -> str:
    """The first reference that names neither evidence nor a checked citation, empty when all do."""
    for reference in references:
        name, _, line = reference.partition(":")
        if name in evidence:
            if line and not (line.isdecimal() and 1 <= int(line) <= max(evidence[name].lines, 1)):
                return reference
        elif name not in citations:
            return reference
    return ""


def confirmed(found: frozenset[str], *, live: bool) -> bool:
    return live and "pasted" not in found and len(found) > 1 and bool(found & _OUTSIDE_REACH)


def confirm_by(found: frozenset[str]) -> str:
    """The look that would confirm a change resting on these kinds."""
    if "pasted" in found or not found:
        return _LOOKS["pasted"]
    return _LOOKS["journal"] if "journal" in found else _LOOKS["source"]
