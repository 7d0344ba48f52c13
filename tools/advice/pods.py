"""Settings of a container as a pod has them: its memory limit, and the volume behind /dev/shm."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

from tools.advice import rows
from tools.advice.forms import manifest, yaml_text
from tools.advice.launch import Launch

_SHM = "/dev/shm"  # noqa: S108  (a mount point that is looked at)
_VOLUME = "dshm"


def written(launch: Launch, option: str, value: str) -> str | None:
    """The manifest with an option of `docker run` set as a pod says it; None where it has no place there."""
    spec = _pod(launch)
    if spec is None or launch.node is None:
        return None
    if option == "memory":
        return _limit(launch.text, launch.node, _quantity(value))
    if option == "shm-size":
        return _shared_memory(launch.text, launch.node, spec, _quantity(value))
    return None


def _quantity(size: str) -> str:
    """A size as container engines write it, in powers of 1,024, as Kubernetes writes it: `32g` is `32Gi`."""
    return re.sub(r"([gt])i?b?$", lambda found: f"{found[1].upper()}i", size, flags=re.I)


def _pod(launch: Launch) -> yaml.Node | None:
    """The mapping whose containers hold the one that runs the server."""
    if launch.node is None:
        return None
    place = launch.node.start_mark.index
    pods = (pod for root in yaml_text.documents(launch.text) for pod in manifest.pods(root))
    return next((pod for pod, at in pods if at == place), None)


def _limit(text: str, container: yaml.Node, size: str) -> str | None:
    resources = yaml_text.child(container, "resources")
    limits = yaml_text.child(resources, "limits")
    held = yaml_text.child(limits, "memory")
    if held is not None:
        return rows.set_scalar(text, container, held, size)
    if limits is not None:
        return rows.new_key(text, limits, "memory", [], size) if rows.within(container, limits) else None
    if resources is not None:
        return (
            rows.new_key(text, resources, "limits", [f"memory: {size}"]) if rows.within(container, resources) else None
        )
    return rows.new_key(text, container, "resources", ["limits:", f"  memory: {size}"])


def _shared_memory(text: str, container: yaml.Node, spec: yaml.Node, size: str) -> str | None:
    """The size of the volume that is mounted there; where none is, a volume in memory and its mount."""
    mounts, volumes = yaml_text.child(container, "volumeMounts"), yaml_text.child(spec, "volumes")
    mounted = next(
        (one for one in _items(mounts) if yaml_text.text_of(yaml_text.child(one, "mountPath")) == _SHM), None
    )
    if mounted is not None:
        name = yaml_text.text_of(yaml_text.child(mounted, "name"))
        return _sized(text, spec, [one for one in _items(volumes) if _named(one) == name], size)
    if any(_named(one) == _VOLUME for one in _items(volumes)):
        return None
    volume = [f"name: {_VOLUME}", "emptyDir:", "  medium: Memory", f"  sizeLimit: {size}"]
    mount = [f"name: {_VOLUME}", f"mountPath: {_SHM}"]
    # The volume stands behind the container or before it: the later place is written first, so that the other stays.
    steps = [(volumes, spec, "volumes", volume), (mounts, container, "volumeMounts", mount)]
    steps.sort(key=lambda step: rows.last_end(step[0] or step[1]), reverse=True)
    for held, holder, key, lines in steps:
        if held is not None:
            made = rows.new_item(text, held, lines) if rows.within(holder, held) else None
        else:
            made = rows.new_key(text, holder, key, rows.item(lines))
        if made is None:
            return None
        text = made
    return text


def _sized(text: str, spec: yaml.Node, volumes: list[yaml.Node], size: str) -> str | None:
    folder = yaml_text.child(volumes[0], "emptyDir") if volumes else None
    held = yaml_text.child(folder, "sizeLimit")
    if held is not None:
        return rows.set_scalar(text, spec, held, size)
    if folder is None or not rows.within(spec, folder):
        return None
    return rows.new_key(text, folder, "sizeLimit", [], size)


def _items(node: yaml.Node | None) -> Iterator[yaml.Node]:
    yield from node.value if isinstance(node, yaml.SequenceNode) else ()


def _named(node: yaml.Node) -> str:
    return yaml_text.text_of(yaml_text.child(node, "name"))
