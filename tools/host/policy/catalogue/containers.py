"""Containers: docker and podman alike, crictl, kubectl. Inspecting prints environments: only named fields are read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tools.host.policy.options import Entry, Parsed, asking, flags, never, valued
from tools.host.policy.roles import container, lines, matching, when, word
from tools.host.policy.verdict import Finding, ask, deny

_PART: Final = re.compile(r"\{\{ ?(json )?\.([A-Za-z0-9_.]+) ?\}\}")
_READ_FIELDS: Final = re.compile(
    r"(Id|Name|Image|Created|Path|Args|RestartCount|Platform|Driver|Mounts|LogPath|State(\.\w+){0,2}|SizeRw"
    r"|HostConfig\.\w+(\.\w+)?|Config\.(Image|Cmd|Entrypoint|User|WorkingDir|Hostname|StopSignal|StopTimeout|Healthcheck)"
    r"|NetworkSettings\.(Ports|Networks)|GraphDriver\.\w+(\.\w+)?|RepoDigests|RepoTags)"
)
_LIST_FORMAT: Final = matching(r"(table )?[A-Za-z0-9{}. ,:|/_\\t-]+|json", "a format of columns")
_OTHER: Final = deny("mutate", "not a reading verb of containers")
_NET: Final = never(
    "net", "reaches another engine", "-H --host -c --context --config --url --connection --remote", takes=True
)


def _inspect(parsed: Parsed) -> Iterable[Finding]:
    wanted = parsed.value("-f", "--format")
    if not wanted or re.search(r"Env|\{\{ ?(json )?\.(Config|State\.Env)? ?\}\}|range|index|printf|\.Process", wanted):
        yield deny("secret", "it would print the environment with its keys: name fields with --format")
        return
    fields = [field for _, field in _PART.findall(wanted)]
    rest = _PART.sub("", wanted)
    if not fields or re.search(r"[{}]", rest) or not all(map(_READ_FIELDS.fullmatch, fields)):
        yield ask("secret", "a field that is not on the list of those that hold no keys")


def _logs(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("-n", "--tail"):
        yield ask("cost", "without --tail the whole log comes")


def _stats(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("--no-stream"):
        yield deny("hang", "without --no-stream it repeats for ever")


_LIST: Final = {
    **flags("-a --all -q --quiet --no-trunc -l --latest -s --size --digests"),
    **valued(lines, "-n --last"),
    **valued(matching(r"[a-z]+=[A-Za-z0-9_.:/-]+", "a filter"), "-f --filter"),
    **valued(_LIST_FORMAT, "--format"),
}
_ENGINE_VERBS: Final = {
    "ps": Entry("", _LIST, privacy="redact", bears_keys=True),
    "images": Entry("", _LIST, operands=matching(r"[A-Za-z0-9_.:/@-]+", "an image"), most=1),
    "version": Entry("", valued(_LIST_FORMAT, "-f --format")),
    "info": Entry("", valued(_LIST_FORMAT, "-f --format"), privacy="redact"),
    "port": Entry("", operands=container, most=2),
    "top": Entry(
        "",
        {**flags("-e -f"), **valued(matching(r"(?!.*env)[a-z,]+", "columns"), "-o")},
        operands=container,
        most=1,
        privacy="redact",
        bears_keys=True,
    ),
    "logs": Entry(
        "",
        {
            **flags("-t --timestamps"),
            **valued(lines, "-n --tail"),
            **valued(when, "--since --until"),
            **never("hang", "follows for ever", "-f --follow"),
            **never("secret", "prints labels and environment", "--details"),
        },
        operands=container,
        most=1,
        check=_logs,
        privacy="redact",
    ),
    "stats": Entry(
        "",
        {**flags("--no-stream --no-trunc -a"), **valued(_LIST_FORMAT, "--format")},
        operands=container,
        most=8,
        check=_stats,
    ),
    "inspect": Entry(
        "",
        {
            **flags("-s --size"),
            **valued(matching(r"[ -~]{1,400}", "a format"), "-f --format"),
            **valued(word, "--type"),
        },
        operands=matching(r"[A-Za-z0-9][A-Za-z0-9_.:/@-]*", "a container or image"),
        most=4,
        check=_inspect,
        privacy="redact",
        bears_keys=True,
    ),
    "network": Entry("", flags("-q --no-trunc"), operands=matching("ls|list", "ls"), most=1),
    "volume": Entry("", flags("-q"), operands=matching("ls|list", "ls"), most=1),
    "system": Entry("", flags("-v"), operands=matching("df", "df"), most=1, finding=ask("load", "adds up every layer")),
    "container": Entry("", _LIST, operands=matching("ls|list", "ls"), most=1, privacy="redact", bears_keys=True),
    "image": Entry("", _LIST, operands=matching("ls|list", "ls"), most=1),
    "diff": Entry("", operands=container, most=1, finding=ask("load", "compares the container's whole file system")),
}


def _engine(name: str) -> Entry:
    return Entry(f"/usr/bin/{name}", {**flags("-v --version --help"), **_NET}, verbs=_ENGINE_VERBS, unknown=_OTHER)


_CLUSTER: Final = ask("net", "asks the cluster's API server, with the login's rights")
_KUBE_OPTIONS: Final = {
    **flags("-A --all-namespaces --no-headers --show-labels -R --previous -p --timestamps"),
    **valued(
        matching(r"[A-Za-z0-9.=,!()_/-]+", "a name"), "-n --namespace -l --selector -c --container --sort-by --since"
    ),
    **valued(lines, "--tail"),
    **valued(matching(r"wide|name|yaml|json", "a format"), "-o --output"),
    **never("hang", "follows for ever", "-w --watch -f --follow"),
    **never(
        "net",
        "another cluster or login",
        "--kubeconfig --server -s --context --as --token --user --cluster",
        takes=True,
    ),
}


def _kube(parsed: Parsed) -> Iterable[Finding]:
    if any(
        re.search(r"(?i)(^|[,/])(secrets?|sealedsecrets?|externalsecrets?|configmaps?|cm)(s?$|[,/.])", word_)
        for word_ in parsed.operands
    ):
        yield deny("secret", "the cluster's keys")
    if parsed.value("-o", "--output") in {"yaml", "json"}:
        yield deny("secret", "whole objects hold environments")


def _kube_verb() -> Entry:
    return Entry(
        "",
        _KUBE_OPTIONS,
        operands=matching(r"[A-Za-z0-9._/,-]+", "a resource"),
        most=6,
        check=_kube,
        finding=_CLUSTER,
        privacy="redact",
    )


ENTRIES: Final = {
    "docker": _engine("docker"),
    "podman": _engine("podman"),
    "nerdctl": _engine("nerdctl"),
    "crictl": Entry(
        "/usr/bin/crictl",
        flags("-v --version"),
        verbs={
            **{
                verb: Entry("", {**_LIST, **valued(word, "--name --state -o --output")})
                for verb in ("ps", "pods", "images", "version", "info")
            },
            "logs": Entry(
                "",
                {**flags("-t"), **valued(lines, "--tail"), **never("hang", "follows for ever", "-f --follow")},
                operands=container,
                most=1,
                check=_logs,
                privacy="redact",
            ),
            "stats": Entry("", asking("load", "asks every container", "-a --all"), operands=container, most=1),
        },
        unknown=_OTHER,
    ),
    "kubectl": Entry(
        "/usr/bin/kubectl",
        verbs={verb: _kube_verb() for verb in ("get", "describe", "logs", "top", "events", "version")},
        unknown=_OTHER,
    ),
}
