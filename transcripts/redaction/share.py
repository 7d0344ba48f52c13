"""What a shared write-up hides beside secrets: hosts, addresses, people, serial numbers, buckets, links.

Kept: versions, ports, times, sizes, 0.0.0.0 and the loopback addresses, names of public sites.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Final

from transcripts.redaction.found import Found

_PUBLIC: Final = frozenset(
    {
        "huggingface.co", "github.com", "raw.githubusercontent.com", "docker.io", "sglang.ai",
        "nvidia.com", "nvcr.io", "ghcr.io", "quay.io", "pypi.org", "pythonhosted.org", "freedesktop.org", "kernel.org",
        "debian.org", "ubuntu.com", "sglang.io", "vllm.ai",
        "pytorch.org", "arxiv.org", "modelscope.cn", "localhost", "example.com",
    }
)  # fmt: skip
_ROLE: Final = (
    r"gpu|node|host|srv|server|worker|compute|dgx|hgx|h100|h200|h20"
    r"|b200|b300|gb200|a100|mi300|mi355|k8s|ip|dhcp|vm|prod|login|rack"
    r"|cn|bastion"
    r"|master|infer|inference|llm|sglang|ml|ai|cluster|train|slurm|bm|metal|dev|stage|staging"
)
_SYSLOG: Final = re.compile(
    r"^(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*) (?P<v>[A-Za-z]"
    r"[\w.-]*) (?=[\w./@-]+(?:\[\d+\])?: )",
    re.MULTILINE,
)
_HOST: Final = re.compile(rf"(?<![\w./@-])(?P<v>(?:{_ROLE})\d*(?:-[a-z0-9]+)+)(?![\w/-])")
_DOMAIN: Final = re.compile(
    r"(?<![\w./@-])(?P<v>[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})*\.(?:internal"
    r"|local|lan|corp|intra|intranet|private|home|svc|fake|test|invalid"
    r"|compute)"
    r"(?:\.[A-Za-z0-9-]{2,63})*)(?![\w-])"
)
_TOP: Final = (
    r"com|net|org|io|ai|cn|de|eu|uk|fr|es|it|pl|se|no|fi|jp|kr|tw|hk|sg|in|us|ca|br|au|ch|at|nl|be|ru"
    r"|cloud|tech|edu|gov"
)
_FULL_NAME: Final = re.compile(
    rf"(?<![\w./@-])(?P<v>(?:[a-z0-9-]{{1,63}}\.){{1,6}}[a-z0-9-]{{0,62}}[a-z][a-z0-9-]{{0,62}}\.(?:{_TOP}))(?![\w-]|\.\w)"
)
_SHELL_USER: Final = re.compile(
    r"^(?:\([\w.-]+\) )?\[?(?P<v>[a-z_][\w.-]{0,31})(?=@[\w.-]+[: ][^\n]{0,80}[#$%](?: |$))", re.MULTILINE
)
_SHELL_HOST: Final = re.compile(
    r"^(?:\([\w.-]+\) )?\[?[a-z_][\w.-]{0,31}@(?P<v>[\w.-]+)(?=[: ][^\n]{0,80}[#$%](?: |$))", re.MULTILINE
)
_NETLOC: Final = re.compile(
    r"(?<![A-Za-z0-9+.-])(?!(?:file|unix|ipc|npipe|docker|docker-pullable|containerd|cri-o|podman|s3a?|gs|oss|cos|hdfs"
    r"|abfss?|obs|tos|hf|about|data)://)(?P<scheme>[A-Za-z][A-Za-z0-9+-]{1,20})(?=://(?!«|127\.|0\.0\.0\.0"
    r"|localhost|\[::1?\]))://(?:[^\s/@'\"«»]{1,200}@)?(?P<v>[A-Za-z0-9._-]+)?"
)
_MARKDOWN: Final = re.compile(r"\]\((?P<v>(?:https?|hxxps?|ftp|file|data|javascript):[^)\s]*)", re.IGNORECASE)
_IPV4: Final = re.compile(r"(?<![\w.])(?<!\d-)(?P<v>(?:\d{1,3}\.){3}\d{1,3})(?![\w]|\.\d)")
_IPV6: Final = re.compile(r"(?<![\w:.])(?P<v>[0-9A-Fa-f:]{2,39}:[0-9A-Fa-f:.]{0,39}[0-9A-Fa-f:])(?![\w:])")
_MAC: Final = re.compile(
    r"(?<![\w:-])(?P<v>(?:[0-9A-Fa-f]{2}:){5,19}[0-9A-Fa-f]{2}|(?:[0-9a-f]{2}-){5}[0-9a-f]{2})(?![\w:-])"
)
_GUID: Final = re.compile(
    r"guid['\"]?\s*[:=]\s*['\"]?(?P<v>(?:0x)?[0-9a-f]{4}(?::?[0-9a-f]{4}){3})(?![\w:])", re.IGNORECASE
)
_MAIL: Final = re.compile(r"(?<![\w.+-])(?P<v>[A-Za-z0-9_.+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+)")
_SSH_USER: Final = re.compile(r"\b(?:ssh|scp|rsync|sftp)\b[^\n]{0,120}?[ \t](?P<v>[a-z_][\w.-]{0,31})(?=@[\w.-])")
_SSH_HOST: Final = re.compile(r"\b(?:ssh|scp|rsync|sftp)\b[^\n]{0,120}?[ \t][a-z_][\w.-]{0,31}@(?P<v>[\w.-]+)")
_USER: Final = re.compile(
    r"(?:(?:/home|/Users|/var/home)/|\b(?:user|username|login|owner"
    r"|logname|uname|ruser|sudo_user)['\"]?\s*[:=]\s*['\"]?|\bAccepted \w+ for "
    r"|\bsession opened for user "
    r"|\bFailed password for (?:invalid user )?|\b[ug]id=\d+\()(?P<v>[A-Za-z_][\w.-]{0,31})",
    re.IGNORECASE,
)
# An owner and a group in `ls -l`, the first column of `ps aux`, and who asked sudo.
_OWNER: Final = re.compile(r"^[dlcbps-][rwxsStT-]{9}[.+@]?[ ]+\d+ (?P<v>[A-Za-z_][\w.-]{0,31})(?= )", re.MULTILINE)
_GROUP: Final = re.compile(
    r"^[dlcbps-][rwxsStT-]{9}[.+@]?[ ]+\d+ [\w.-]{1,32}[ ]+(?P<v>[A-Za-z_][\w.-]{0,31})(?=[ ]+\d)", re.MULTILINE
)
_PS_USER: Final = re.compile(
    r"^(?P<v>[a-z_][\w.-]{0,31})(?=[ ]+\d+[ ]+\d+\.\d[ ]+\d+\.\d[ ]+\d+[ ]+\d+ )", re.MULTILINE
)
_SUDO_USER: Final = re.compile(r"\bsudo(?:\[\d+\])?:[ ]+(?P<v>[A-Za-z_][\w.-]{0,31})(?= : (?:TTY|PWD|USER)=)")
_HOST_KEY: Final = re.compile(
    r"\b(?:host_?name|static hostname|node_?name|nodename|peer_?host"
    r"|master_addr)['\"]?\s*[:=]\s*['\"]?(?P<v>[A-Za-z][\w.-]{2,})",
    re.IGNORECASE,
)
_HOST_LABEL: Final = re.compile(
    r"\bhost['\"]?[ \t]*[:=][ \t]*['\"]?(?P<v>(?=[A-Za-z_]*[\d.-])[A-Za-z][\w.-]{2,})", re.IGNORECASE
)
_UNAME_HOST: Final = re.compile(r"^Linux (?P<v>[A-Za-z][\w.-]*)(?= \d+\.\d+\S* #)", re.MULTILINE)
_HOST_NAMED: Final = re.compile(
    r"\b(?:node|host|peer|machine|server)[ \t]+"
    r"(?P<v>(?:gpu|node|host|srv|server|worker|compute|dgx|hgx|box)\d{1,4}[a-z]?)(?![\w.-]*\w)",
    re.IGNORECASE,
)
_RENDEZVOUS: Final = re.compile(
    r"[_-]init[_-]addr['\"]?(?:[ \t]*[:=][ \t]*|[ \t\0\n]+)['\"]?(?P<v>[A-Za-z][\w.-]{2,})(?=:\d)", re.IGNORECASE
)
_UUID: Final = re.compile(
    r"(?<![\w-])(?P<v>(?:GPU-|MIG-(?:GPU-)?)?[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]"
    r"{4}-[0-9a-fA-F]{12})(?![\w-])"
)
_SERIAL: Final = re.compile(
    r"\b(?:serial(?:[ _]?(?:number|no))?|board id|asset tag|machine.id"
    r"|boot.id)['\"]?\s*[:=]\s*['\"]?(?P<v>[A-Za-z0-9-]{6,})",
    re.IGNORECASE,
)
_BUCKET: Final = re.compile(
    r"(?P<v>(?<=s3://)[\w.-]+|(?<=s3a://)[\w.-]+|(?<=gs://)[\w.-]+|(?<=oss://)[\w.-]+"
    r"|(?<=cos://)[\w.-]+|(?<=hdfs://)[\w.-]+"
    r"|(?<=abfs://)[\w.-]+|(?<=abfss://)[\w.-]+|(?<=obs://)[\w.-]+|(?<=tos://)[\w.-]+"
    r"|(?<![\w.-])[a-z0-9][a-z0-9.-]{1,62}(?=\.s3[.-][a-z0-9.-]*amazonaws\.com"
    r"|\.blob\.core\.windows\.net|\.storage\.googleapis\.com))"
)
_NOT_USERS: Final = frozenset(
    {"root", "nobody", "none", "null", "user", "true", "false", "daemon", "ubuntu", "admin", "assistant", "system"}
)
_NOT_HOSTS: Final = frozenset({"localhost", "none", "null", "kernel"})


# Kind, pattern, and from how many characters on a value is worth knowing elsewhere (0: never).
_PATTERNS: Final = (
    ("link", _MARKDOWN, 0),
    ("bucket", _BUCKET, 6),
    ("host", _SYSLOG, 6),
    ("host", _DOMAIN, 6),
    ("host", _HOST_KEY, 6),
    ("host", _HOST_LABEL, 6),
    ("host", _HOST_NAMED, 0),
    ("host", _UNAME_HOST, 6),
    ("host", _RENDEZVOUS, 6),
    ("host", _HOST, 0),
    ("host", _FULL_NAME, 6),
    ("host", _SSH_HOST, 0),
    ("host", _SHELL_HOST, 6),
    ("user", _SHELL_USER, 0),
    ("user", _SSH_USER, 0),
    ("user", _OWNER, 0),
    ("user", _GROUP, 0),
    ("user", _PS_USER, 0),
    ("user", _SUDO_USER, 6),
    ("mac", _MAC, 0),
    ("mac", _GUID, 0),
    ("mail", _MAIL, 0),
    ("uuid", _UUID, 0),
    ("serial", _SERIAL, 0),
    ("user", _USER, 6),
)


def identities(text: str) -> Iterator[Found]:
    """Everything of a text that says where it ran and for whom."""
    for kind, pattern, learnt_from in _PATTERNS:
        for found in pattern.finditer(text):
            value = found["v"]
            if _names_someone(kind, value, listed=pattern is _HOST):
                yield Found(*found.span("v"), kind, 0 < learnt_from <= len(value))
    yield from _netlocs(text)
    yield from _addresses(text)


def _names_someone(kind: str, value: str, *, listed: bool) -> bool:
    if kind == "user":
        return value.lower() not in _NOT_USERS
    if kind == "host":
        return (
            value.lower() not in _NOT_HOSTS
            and not _is_public(value)
            and not value.endswith(".py")
            and (not listed or _is_host(value))
        )
    return True


def defang(text: str) -> str:
    """No link that a viewer would follow or load; links to this machine itself stay."""
    return re.sub(
        r"(?<![A-Za-z])(h)tt(ps?://)(?!127\.|0\.0\.0\.0|localhost|\[::1?\])", r"\1xx\2", text, flags=re.IGNORECASE
    )


def _netlocs(text: str) -> Iterator[Found]:
    for found in _NETLOC.finditer(text):
        host = (found["v"] or "").rstrip(".")
        if host and not _is_public(host) and not _loopback(host):
            start = found.start("v")
            yield Found(start, start + len(host), "host", "." in host or "-" in host)


def _is_public(host: str) -> bool:
    return any(host == name or host.endswith(f".{name}") for name in _PUBLIC)


def _addresses(text: str) -> Iterator[Found]:
    for found in _IPV4.finditer(text):
        before = text[max(0, found.start() - 10) : found.start()].lower()
        if not _loopback(found["v"]) and not before.rstrip(" :=").endswith(("version", "driver", "cuda", "nccl", "v")):
            yield Found(*found.span("v"), "address", False)
    for found in _IPV6.finditer(text):
        if "::" not in found["v"] and found["v"].count(":") != 7:
            continue
        try:
            address = ipaddress.IPv6Address(found["v"])
        except ValueError:
            continue
        if not (address.is_loopback or address.is_unspecified):
            yield Found(*found.span("v"), "address", False)


def _loopback(host: str) -> bool:
    try:
        address = ipaddress.IPv4Address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified or host == "255.255.255.255" or host.startswith("255.")


def _is_host(name: str) -> bool:
    """Host names end in a number, or carry several parts with one; model names do not begin with a role."""
    parts = name.split("-")
    if not re.search(r"\d", parts[-1]) and not re.fullmatch(r"[a-z]", parts[-1]):
        return False
    return len(parts) >= 3 or re.fullmatch(r"[a-z]*\d{2,}[a-z]?", parts[-1]) is not None
