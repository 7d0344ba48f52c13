"""Which paths may be listed, read, read whole, and read recursively. Words only; `resolve` judges real paths.

Order: shape of the path, secrets, devices, /proc, /sys, private places, then the readable roots; what is in none of
them asks.
"""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatchcase
from typing import Final

from tools.host.policy.verdict import Finding, ask, deny

_SECRET: Final = re.compile(
    r"""
    ^/etc/(g?shadow|sudoers|security/opasswd|.*keytab|wireguard|ipsec\.secrets|kubernetes|ssl/private|netplan|ppp/
        |NetworkManager/system-connections|docker/key\.json|rancher|letsencrypt|pki/tls/private|default(/|$)
        |credstore|ssh/ssh_host_[a-z0-9]+_key$|environment$)
    |/\.(ssh|gnupg|aws|azure|kube|docker|config/gcloud|config/gh|config/rclone|oci|vault-token|netrc|pgpass|my\.cnf
        |git-credentials|npmrc|pypirc|boto|s3cfg|htpasswd|env|password-store)(/|$|\.|-)
    |^(/var)?/run/(secrets|credentials|user)(/|$)
    |^/var/lib/(kubelet|docker|containerd|systemd/credential|sss|private|cloud|rancher|vault|etcd|mysql|postgresql)(/|$)
    |huggingface/(token|stored_tokens)$ | (^|/)hf_token$
    |\.(pem|keys?|p12|pfx|jks|keystore|keyring|kdbx|ovpn|ppk|gpg|env|token|secret|sock|socket)$
    |/token(\.txt)?$ | [_.-]passwd$ | /(debian\.cnf|slurmdbd\.conf|iscsid\.conf|passwd\.client|pg_hba\.conf)$
    |(^|[/_.-])(api|auth|access|bearer|hf|huggingface|service|admin|join|bot|session|refresh)[_-]?tokens?([/_.-]|$)
    |/id_(rsa|dsa|ecdsa|ed25519)(_sk)?$
    |(^|[/_.-])(g?shadow|secrets?|passwords?|passwd-|credentials?|apikeys?|api[_-]keys?|private[_-]?keys?|kubeconfig
        |authorized_keys|htpasswd)([/_.-]|$)
    """,
    re.IGNORECASE | re.VERBOSE,
)
_SAMPLES: Final = (
    "/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh/ssh_host_rsa_key", "/etc/environment",
    "/etc/ssl/private/x.key", "/root/.ssh/id_rsa", "/root/.ssh/authorized_keys", "/home/x/.ssh/id_ed25519",
    "/root/.docker/config.json", "/root/.netrc", "/root/.aws/credentials", "/root/.kube/config",
    "/root/.cache/huggingface/token", "/etc/default/sglang", "/run/secrets/x", "/proc/1/environ", "/proc/1/mem",
    "/proc/self/environ", "/proc/kcore", "/proc/kmsg", "/proc/1/fd/3", "/dev/mem", "/dev/nvme0n1",
)  # fmt: skip
_PRIVATE: Final = re.compile(
    r"""
    ^/(home|root)(/|$) | _history$ | ^/etc/(passwd|group|hosts)-?$ | ^/etc/cron | ^/var/spool/ | ^/var/mail
    |^/var/log/(auth\.log|secure|audit|wtmp|btmp|lastlog|faillog|sudo|tallylog|cloud-init)
    |crash|core\.\d|\.(pkl|pickle|core|dmp|hprof)$|coredump|(request|crash|tensor|debug)[_-]?(dump|log)|requests?\.jsonl?
    """,
    re.IGNORECASE | re.VERBOSE,
)
_PROC: Final = re.compile(
    r"""/proc/(
    loadavg|meminfo|cpuinfo|stat|vmstat|version|uptime|mounts|swaps|interrupts|softirqs|diskstats|partitions|cmdline
    |modules|buddyinfo|zoneinfo|filesystems|devices|iomem|ioports|mdstat|locks|misc|crypto|schedstat|cgroups|consoles
    |pressure/(cpu|io|memory|irq)
    |net/(dev|tcp6?|udp6?|snmp6?|netstat|sockstat6?|route|softnet_stat|arp|bonding/[\w.-]+|rpc/nfs)
    |sys/(vm|kernel|fs|net|dev|abi)/[\w./-]+ |driver/nvidia/[\w./:-]+|fs/nfsfs/\w+
    |(\d+|self|thread-self|\*)/((task/(\d+|\*)/)?
        (status|stat|statm|limits|cmdline|comm|cgroup|oom_score|oom_score_adj|oom_adj|sched|schedstat|io|mountinfo
        |mounts|wchan|maps|cpuset|autogroup|coredump_filter|loginuid|sessionid|net/(dev|tcp6?|snmp|sockstat)
        |ns/\w+|exe|cwd|root))
    )""",
    re.VERBOSE,
)
_PROC_SLOW: Final = re.compile(r"/proc/(\d+|self|\*)/(smaps|smaps_rollup|numa_maps|pagemap|stack)")
_SYS: Final = re.compile(
    r"/sys/(class|devices|bus|block|module|fs/cgroup|kernel/mm|fs/ext4|fs/xfs|dev)(/[\w.:@*?,+-]+)+"
)
_SYS_RAW: Final = re.compile(r"/(config|rom|vpd|resource\d\w*|reset|remove|rescan|uevent_helper|data|eeprom|nvmem)$")
_LOGS: Final = re.compile(r"/var/log/")
_SETTINGS: Final = re.compile(
    r"""
    /etc/(os-release|lsb-release|debian_version|redhat-release|issue|hostname|machine-info|resolv\.conf|fstab|mtab|timezone
        |sysctl\.conf|sysctl\.d/.*|modprobe\.d/.*|modules|modules-load\.d/.*|security/limits\.conf|security/limits\.d/.*
        |systemd/.*|docker/daemon\.json|nvidia-container-runtime/.*|sglang.*|containers/.*\.conf|rdma/.*|tuned/.*
        |ld\.so\.conf|ld\.so\.conf\.d/.*|numad\.conf|udev/rules\.d/.*|logrotate\.conf|logrotate\.d/.*|default/grub)
    |(/usr)?/lib/(systemd|os-release|modprobe\.d|sysctl\.d|udev/rules\.d)(/.*)?
    |/run/systemd/(system|generator|transient)/.*
    |/boot/(config-[\w.+-]+|grub2?/grub\.cfg)
    """,
    re.VERBOSE,
)
# Command lines, units and settings: in them redaction knows a key by the name before it.
_BEARS_KEYS: Final = re.compile(
    r"""
    /proc/[^/]+/(task/[^/]+/)?cmdline$ | /etc/(systemd|sglang|docker|containers) | (/usr)?/lib/systemd/ | /run/systemd/
    |/(opt|srv|app|workspace|sgl-workspace)/(
        [\w.-]+/?$ | (?!.*(model|/(site|dist)-packages/)).*\.(json|ya?ml|toml|cfg|ini|conf|sh|service)$)
    |.*/[^/]*compose[^/]*\.ya?ml$
    """,
    re.VERBOSE,
)
_ROOTS: Final = re.compile(
    r"/(models?|data\d*|mnt|srv|opt|workspace|sgl-workspace|app|scratch|nvme\d*|raid\d*|storage|shared?"
    r"|usr/(lib|local|share|lib64|src|include))/"
)
_TEXT: Final = re.compile(
    r"\.(json|jsonl|txt|md|rst|ya?ml|toml|cfg|ini|conf|service|py|pyi|jinja2?|cu|cuh|cc?|cpp|hp?p?|proto|log|out|err"
    r"|csv|tsv|xml|rules|sh|list|dist-info/\w+|egg-link|model\.index\.json)(\.\d+)?$"
    r"|/(README|LICENSE|NOTICE|METADATA|RECORD|WHEEL|INSTALLER|VERSION|HEAD|packed-refs|Makefile|Dockerfile)$"
    r"|/\.git/(HEAD|refs/(heads|tags|remotes)/[\w./-]+|packed-refs)$",
    re.IGNORECASE,
)
_WEIGHTS: Final = re.compile(r"\.(safetensors|bin|pt|pth|gguf|onnx|npz?|h5|ckpt|engine|plan|tar|gz|zst|xz|zip|so|whl)$")
_SMALL_TREES: Final = re.compile(
    r"/var/log/(sglang|nvidia|vllm)[\w.-]*(/|$)|/etc/(systemd|modprobe\.d|sysctl\.d|security/limits\.d)(/|$)"
    r"|/(opt|sgl-workspace|workspace|app|srv)/[\w.-]*(sglang|sgl)[\w.-]*(/|$)"
    r"|/.*/(site|dist)-packages/[\w.-]+(/|$)|(/usr)?/lib/systemd/system(/|$)|/proc/driver/nvidia(/|$)"
)
_LARGE_TREES: Final = re.compile(
    r"/(models?|data\d*|mnt|opt|srv|workspace|usr|var/log|sys|scratch|nvme\d*|raid\d*)(/|$)"
)


def listing(path: str) -> Finding | None:
    """Names, sizes, times below or of a path; no contents."""
    if finding := _shape(path) or _secret(path, exact=False):
        return finding
    if re.match(r"/(home|root)(/|$)", path):
        return ask("private", f"{path} shows user names or a person's files")
    return None


def content(path: str) -> Finding | None:
    """Some lines of a file."""
    if finding := _shape(path) or _secret(path, exact=True):
        return finding
    if path.startswith("/proc/"):
        return _proc(path)
    if path.startswith("/sys/"):
        if _SYS.fullmatch(path) and not _SYS_RAW.search(path):
            return None
        return deny("secret", f"{path} is not an attribute that is only read")
    if re.match(r"/dev(/|$)", path) and path != "/dev/null":
        return deny("write", f"{path} is a device, or memory that others write")
    if _PRIVATE.search(path):
        return ask("private", f"{path} holds what people typed, sent or did")
    if _SETTINGS.fullmatch(path):
        return None
    if _WEIGHTS.search(path):
        return ask("cost", f"{path} is not text")
    if _LOGS.match(path) or (_ROOTS.match(path) and _TEXT.search(path)):
        return None
    return ask("scope", f"{path} is outside the places that are read without asking")


def whole(path: str) -> Finding | None:
    """A file from beginning to end: one that grows without bound asks."""
    finding = content(path)
    if finding is None and (_LOGS.match(path) or re.search(r"\.(log|out|err|jsonl)(\.\d+)?$", path)):
        return ask("cost", f"{path} grows without bound: take the end of it with tail -n")
    return finding


def tree(path: str) -> Finding | None:
    """Every file below a path."""
    if finding := _shape(path) or _secret(path, exact=False):
        return finding
    if _TEXT.search(path) and content(path) is None:
        return None
    if _SMALL_TREES.match(path):
        return None
    if re.match(r"/etc/sglang[\w.-]*(/|$)", path):
        return ask("secret", f"below {path} may lie files of keys, which are not read by their names")
    if _LARGE_TREES.match(path):
        return ask("load", f"everything below {path} may be very much to read")
    return deny("secret", f"recursion into {path} leaves the places that may be read")


def walk(path: str) -> Finding | None:
    """The names below a path, at a bounded depth."""
    if finding := listing(path):
        return finding
    if re.match(r"/(proc|sys|dev|run)(/|$)", path) and not re.match(r"/(dev/shm|proc/driver|sys/class|sys/fs)", path):
        return ask("load", f"{path} is a view of the kernel, with no end")
    return None


def bears_keys(path: str) -> bool:
    """Is it read only because redaction takes out the keys that it may hold?"""
    return _BEARS_KEYS.match(path) is not None


def mentions_secret(text: str) -> bool:
    """Does any part of an argument name a secret file? For commands whose grammar is not known."""
    return any(
        _SECRET.search(part) or re.search(r"^/proc/[^/]+/(environ|mem)\b|^/proc/kcore", part)
        for part in re.findall(r"[/~][^\s:=,'\"@]*", text)
    )


def _shape(path: str) -> Finding | None:
    if not path.startswith("/"):
        return deny("path", f"{path!r} is not an absolute path")
    plain = path.rstrip("/") or "/"
    if path.startswith("//") or posixpath.normpath(plain) != plain:
        return deny("path", f"{path} is written with '.', '..' or '//'")
    return None


def _secret(path: str, *, exact: bool) -> Finding | None:
    if _SECRET.search(path.rstrip("/")) and path != "/etc/default/grub" and not path.endswith(".pub"):
        return deny("secret", f"{path} holds keys, or may")
    if re.match(r"/proc/[^/]+/(task/[^/]+/)?(environ|mem|auxv|fd|fdinfo|map_files|syscall|personality)(/|$)", path):
        if exact or re.search(r"/(environ|mem)$", path):
            return deny("secret", f"{path} is a process's environment, memory or open files")
        return None
    if not {"*", "?"} & set(path):
        return None
    parts = path.split("/")
    for sample in _SAMPLES:
        known = sample.split("/")
        if len(known) == len(parts) and all(map(fnmatchcase, known, parts)):
            return deny("glob", f"{path} can name {sample}")
    if exact and re.match(r"/[^/]*[*?]|/(etc|root|home|run|proc)/[^/]*[*?]", path) and not _PROC.fullmatch(path):
        return deny("glob", f"{path} can name too much")
    return None


def _proc(path: str) -> Finding | None:
    if inner := re.fullmatch(r"/proc/\d+/root(/.+)", path):
        return content(inner.group(1))
    if _PROC_SLOW.fullmatch(path):
        return ask("load", f"{path} holds the lock of the process's memory map while it is read")
    if _PROC.fullmatch(path) and not re.search(r"secret|/sys/kernel/(core_pattern|random)", path):
        return None
    if path in {"/proc/kmsg", "/proc/kcore", "/proc/sysrq-trigger", "/proc/kallsyms", "/proc/kpagecount"}:
        return deny("mutate", f"{path} is consumed, blocks, or is memory")
    return deny("secret", f"{path} is not among the files of /proc that are read")


ROLES: Final = frozenset({listing, content, whole, tree, walk})
