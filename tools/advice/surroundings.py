"""What stands around a server's command in a manifest, a compose file or a `docker run` line, held against its options.

GPUs that the container gets, the port that is opened and probed, how long a probe waits, shared memory between ranks.
Each is told only where both sides are seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import yaml

from tools.advice.command import ENGINE_RUN
from tools.advice.forms import manifest, yaml_text
from tools.advice.launch import Launch
from transcripts.facts import Facts

_PORT: Final = 30000  # sglang 0.5.9 srt/server_args.py:302
_SHM: Final = "/dev/shm"  # noqa: S108  (a mount point that is looked at)
_GPUS: Final = ("nvidia.com/gpu", "amd.com/gpu")
# Kubernetes' own where a probe names none.
_PERIOD_S, _FAILURES = 10, 3


@dataclass(frozen=True, slots=True)
class Beside:
    """One thing that does not fit: what it is `about`, an option where it is one, and both sides in words."""

    about: str
    text: str


def surroundings(launch: Launch, facts: Facts | None = None) -> tuple[Beside, ...]:
    """What around the command does not fit its options. `facts` tell how long loads took, where they do."""
    match launch.form:
        case "kubernetes" if launch.node is not None:
            return tuple(_pod(launch, launch.node, facts))
        case "compose" if launch.node is not None:
            return tuple(_service(launch, launch.node))
        case "docker" if launch.node is None:
            return tuple(_run(launch))
        case _:
            return ()


def _pod(launch: Launch, container: yaml.Node, facts: Facts | None) -> Iterator[Beside]:
    limits = yaml_text.child(container, "resources", "limits")
    given = next((count for key in _GPUS if (count := _whole(yaml_text.child(limits, key))) is not None), None)
    yield from _too_few(launch, given, "the container's limits give")
    ports = {yaml_text.text_of(yaml_text.child(one, "name")): _whole(yaml_text.child(one, "containerPort"))
             for one in _items(yaml_text.child(container, "ports"))}  # fmt: skip
    yield from _closed(launch, [port for port in ports.values() if port is not None], "containerPort")
    probes = {name: yaml_text.child(container, name) for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    for name, probe in probes.items():
        at = yaml_text.child(probe, "httpGet", "port") or yaml_text.child(probe, "tcpSocket", "port")
        number = ports.get(yaml_text.text_of(at), _whole(at))
        if number is not None and number != _number(launch, _PORT, "--port"):
            yield Beside(
                "--port", f"{name} asks port {number}, the server listens on {_number(launch, _PORT, '--port')}"
            )
    # While a startup probe has not succeeded, the others are not asked.
    waits = "startupProbe" if probes["startupProbe"] is not None else "livenessProbe"
    longest = max((float(one.value) for one in (facts.all("load_seconds") if facts is not None else ())), default=0.0)
    patience = _patience(probes[waits])
    if patience is not None and patience < longest:
        ends = f"the longest load seen took {longest:.0f} s: the kubelet ends the server while it loads"
        yield Beside("probe", f"{waits} gives up after {patience} s, {ends}")
    mounted = any(
        yaml_text.text_of(yaml_text.child(one, "mountPath")) == _SHM
        for one in _items(yaml_text.child(container, "volumeMounts"))
    )
    shares = any(
        yaml_text.text_of(yaml_text.child(pod, "hostIPC")).lower() == "true"
        for root in yaml_text.documents(launch.text)
        for pod, at in manifest.pods(root)
        if at == container.start_mark.index
    )
    yield from _small_shm(launch, "" if mounted or shares else "a volume in memory at /dev/shm")


def _service(launch: Launch, service: yaml.Node) -> Iterator[Beside]:
    devices = _items(yaml_text.child(service, "deploy", "resources", "reservations", "devices"))
    for device in devices:
        named = yaml_text.child(device, "device_ids")
        given = len(named.value) if isinstance(named, yaml.SequenceNode) else _whole(yaml_text.child(device, "count"))
        yield from _too_few(launch, given, "the service reserves")
    host = yaml_text.text_of(yaml_text.child(service, "network_mode")) == "host"
    inner = [_target(one) for one in _items(yaml_text.child(service, "ports"))]
    yield from _closed(launch, [] if host else [port for port in inner if port is not None], "ports")
    has = yaml_text.child(service, "shm_size") is not None
    has = has or yaml_text.text_of(yaml_text.child(service, "ipc")).startswith(("host", "shareable", "container"))
    mounts = " ".join(yaml_text.text_of(one) for one in _items(yaml_text.child(service, "volumes")))
    mounts += " ".join(yaml_text.text_of(one) for one in _items(yaml_text.child(service, "tmpfs")))
    yield from _small_shm(launch, "" if has or _SHM in mounts else "shm_size: 32g")


def _run(launch: Launch) -> Iterator[Beside]:
    run = ENGINE_RUN.search(launch.text)
    if run is None:
        return
    outer = " ".join(launch.wrapper)
    gpus = re.search(r"--gpus[= ]['\"]?(?:\"?device=([\d,]+)|(\d+))", outer)
    if gpus is not None:
        yield from _too_few(launch, len(gpus[1].split(",")) if gpus[1] else int(gpus[2]), "--gpus gives")
    inner = [int(port) for port in re.findall(r"(?:-p|--publish)[= ]?(?:[\w.\[\]:]*:)?(\d+)(?:/tcp)?(?=\s|$)", outer)]
    yield from _closed(launch, [] if re.search(r"--net(?:work)?[= ]host", outer) else inner, "-p")
    has = re.search(r"--shm-size|--ipc[= ](?:host|shareable|container)|/dev/shm", outer)
    yield from _small_shm(launch, "" if has else "--shm-size 32g")


def _too_few(launch: Launch, given: int | None, who: str) -> Iterator[Beside]:
    seen = launch.environment.get("CUDA_VISIBLE_DEVICES", "")
    if re.fullmatch(r"\d+(?:,\d+)*", seen) and (given is None or len(seen.split(",")) < given):
        given, who = len(seen.split(",")), "CUDA_VISIBLE_DEVICES shows"
    ranks, nodes = _ranks(launch)
    if given is not None and given < ranks / nodes:
        yield Beside("--tp-size", f"{ranks / nodes:g} ranks want a GPU each, {who} {given}")


def _closed(launch: Launch, opened: list[int], where: str) -> Iterator[Beside]:
    port = _number(launch, _PORT, "--port")
    if opened and port not in opened:
        yield Beside("--port", f"the server listens on {port}, {where} opens {', '.join(map(str, opened))}")


def _small_shm(launch: Launch, missing: str) -> Iterator[Beside]:
    ranks, nodes = _ranks(launch)
    if missing and ranks / nodes > 1:
        yield Beside("shm-size", f"ranks exchange data through /dev/shm, of which a container gets 64 MB: {missing}")


def _ranks(launch: Launch) -> tuple[int, int]:
    """Ranks that each take a GPU, and the machines they are spread over; replicas count, DP attention adds none."""
    tp = _number(launch, 1, "--tp", "--tp-size", "--tensor-parallel-size")
    pp = _number(launch, 1, "--pp", "--pp-size", "--pipeline-parallel-size")
    dp = 1 if launch.flag("--enable-dp-attention") else _number(launch, 1, "--dp", "--dp-size", "--data-parallel-size")
    return tp * pp * dp, max(1, _number(launch, 1, "--nnodes"))


def _number(launch: Launch, otherwise: int, *spellings: str) -> int:
    typed = launch.flag(*spellings)
    return int(typed.value) if typed is not None and typed.value.isdecimal() else otherwise


def _patience(probe: yaml.Node | None) -> int | None:
    """Seconds after which a probe that never succeeds gives up."""
    if probe is None:
        return None
    first = _whole(yaml_text.child(probe, "initialDelaySeconds")) or 0
    period = _whole(yaml_text.child(probe, "periodSeconds")) or _PERIOD_S
    return first + period * (_whole(yaml_text.child(probe, "failureThreshold")) or _FAILURES)


def _target(node: yaml.Node) -> int | None:
    """The container's side of a port of compose: `8000:30000`, `30000`, `{target: 30000}`."""
    named = yaml_text.child(node, "target")
    text = yaml_text.text_of(named if named is not None else node).partition("/")[0].rpartition(":")[2]
    return int(text) if text.isdecimal() else None


def _whole(node: yaml.Node | None) -> int | None:
    text = yaml_text.text_of(node)
    return int(text) if text.isdecimal() and len(text) < 7 else None


def _items(node: yaml.Node | None) -> list[yaml.Node]:
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []
