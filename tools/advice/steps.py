"""The commands that apply a changed file and take it back, in the words of what runs it."""

from __future__ import annotations

import shlex

from tools.advice.command import ENGINE_RUN
from tools.advice.launch import Launch


def steps(launch: Launch, text: str, path: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What applies the patch and what takes it back, in this form."""
    name, file = shlex.quote(launch.name), shlex.quote(path)
    keep, back = f"cp -p {file} {file}.before", f"cp -p {file}.before {file}"
    edit = f"# write the patch into {file}"
    match launch.form:
        case "compose":
            up = f"docker compose -f {file} up -d {name}"
            return (keep, edit, f"docker compose -f {file} config -q", up), (back, up)
        case "quadlet":
            unit = shlex.quote(f"{launch.name or 'UNIT'}.service")
            start = ("systemctl daemon-reload", f"systemctl restart {unit}")
            return (keep, edit, "/usr/lib/systemd/system-generators/podman-system-generator --dryrun", *start), (
                back,
                *start,
            )
        case "kubernetes":
            return _kubernetes_steps(launch, file, (keep, edit), back)
        case "docker":
            return _docker_steps(launch, text, name)
        case "dockerfile":
            again = "# build the image anew, and start the container from it"
            return (keep, edit, again), (back, again)
        case "script" | "config":
            return (keep, edit, "# restart the server as you usually do"), (back, "# restart the server")
        case _:
            return (
                ("# stop the server, then", text.strip()),
                ("# stop the server, then", launch.text.strip()),
            )


_ROLLED_OUT = ("deployment/", "statefulset/", "daemonset/")


def _kubernetes_steps(
    launch: Launch, file: str, first: tuple[str, ...], back: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """A manifest is applied; a patch, or values of a chart, only by what renders them."""
    name = shlex.quote(launch.name)
    if launch.name.startswith("configmap/"):
        apply_ = f"kubectl apply -f {file}"
        restart = "# pods keep the script they started with: kubectl rollout restart of what mounts it"
        return (*first, f"kubectl diff -f {file}", apply_, restart), (back, apply_, restart)
    if launch.node is None or "/" not in launch.name:
        roll = "# roll it out as usual: kubectl apply -k, helm upgrade"
        return (*first, roll), (back, roll)
    apply_ = f"kubectl apply -f {file}"
    watch = f"kubectl rollout status {name}" if launch.name.startswith(_ROLLED_OUT) else f"kubectl get {name} -w"
    return (*first, f"kubectl diff -f {file}", apply_, watch), (back, apply_, watch)


def _docker_steps(launch: Launch, text: str, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if not launch.name:
        return ("# stop the container, then", text.strip()), ("# stop the container, then", launch.text.strip())
    start = text.strip() if launch.node is None else f"# docker run … as before, with the command of the patch ({name})"
    before = shlex.quote(f"{launch.name}-before")
    run = ENGINE_RUN.search(launch.text)
    engine = run[1] if run else "docker"
    return (
        (f"{engine} stop {name}", f"{engine} rename {name} {before}", start),
        (f"{engine} rm -f {name}", f"{engine} rename {before} {name}", f"{engine} start {name}"),
    )
