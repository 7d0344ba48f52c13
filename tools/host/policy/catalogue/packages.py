"""Versions and packages. Most of these run an interpreter or a repository's own settings: they ask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tools.host.policy import paths
from tools.host.policy.options import Entry, Parsed, flags, never, valued
from tools.host.policy.roles import matching, number, word
from tools.host.policy.verdict import Finding, ask, deny

_INTERPRETER: Final = ask("exec", "starts an interpreter from PATH: the version is read from files instead")
_REPOSITORY: Final = ask("exec", "settings of the repository can run programs")
_INSTALLS: Final = deny("mutate", "not a reading verb of this tool")
_PACKAGES: Final = matching(r"[A-Za-z0-9_.+*:-]+", "a package name")

_GIT_OPTIONS: Final = {
    **flags(
        "--oneline --stat -p -s --short --porcelain --decorate --name-only --name-status"
        " --abbrev-commit --no-color --tags --always --dirty --long -v --branch --show-current"
        " --abbrev-ref --verify --is-inside-work-tree --show-toplevel -a -r --no-pager --graph"
        " --all -1 -2 -3 -5"
    ),
    **valued(number(1, 200), "-n --max-count -#"),
    **valued(
        matching(r"[A-Za-z0-9%: ._,-]+", "a format"), "--format --pretty --since --until --abbrev --date --author"
    ),
    **never("write-arg", "writes a file", "--output -o", takes=True),
    **never("exec-arg", "runs a program", "--ext-diff --textconv -O --open-files-in-pager --upload-pack -c"),
}
_READ_VERBS: Final = frozenset(
    {
        "log",
        "status",
        "show",
        "rev-parse",
        "describe",
        "diff",
        "branch",
        "tag",
        "remote",
        "ls-files",
        "blame",
        "shortlog",
    }
)


def _git(parsed: Parsed) -> Iterable[Finding]:
    verb, *rest = parsed.operands or ("",)
    if verb not in _READ_VERBS:
        yield deny("mutate", f"git {verb} is not a reading verb")
    elif verb in {"branch", "tag", "remote"} and rest:
        yield deny("mutate", f"git {verb} with an operand changes the repository")
    yield from filter(None, (paths.listing(folder) for folder in parsed.values("-C")))


def _rpm(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("-q", "--query"):
        yield deny("mutate", "rpm reads only with -q")


_PIP: Final = Entry(
    "/usr/bin/pip",
    flags("-V --version"),
    verbs={
        verb: Entry(
            "",
            {
                **flags("-f --files -v --verbose --all"),
                **valued(matching("columns|freeze|json", "a format"), "--format"),
            },
            operands=_PACKAGES,
            most=8,
            finding=_INTERPRETER,
        )
        for verb in ("show", "list", "freeze", "check")
    },
    unknown=_INSTALLS,
    finding=_INTERPRETER,
)
_DPKG_LIST: Final = {
    **flags("-l --list -s --status -L --listfiles -W --show"),
    **valued(matching(r"[A-Za-z0-9${}:;,.\\ -]+", "a format"), "-f --showformat"),
}


def _dpkg(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("-l", "--list", "-s", "--status", "-L", "--listfiles", "-W", "--show"):
        yield deny("mutate", "dpkg reads only with -l, -s or -L")


ENTRIES: Final = {
    "git": Entry(
        "/usr/bin/git",
        {
            **_GIT_OPTIONS,
            **valued(matching(r"/[A-Za-z0-9_./-]+", "a folder"), "-C"),
            **never(
                "exec-arg",
                "another repository's settings",
                "--git-dir --work-tree --exec-path --namespace --config-env --super-prefix",
                takes=True,
            ),
            **never("pager", "starts a pager", "--paginate"),
        },
        most=4,
        check=_git,
        finding=_REPOSITORY,
        privacy="redact",
    ),
    "pip": _PIP,
    "pip3": _PIP,
    "uv": Entry(
        "uv",
        verbs={
            "pip": Entry(
                "",
                operands=matching("list|show|freeze|[A-Za-z0-9_.-]+", "a verb"),
                most=2,
                check=lambda parsed: [] if parsed.operands[:1] in (("list",), ("show",), ("freeze",)) else [_INSTALLS],
                finding=_INTERPRETER,
            )
        },
        unknown=_INSTALLS,
    ),
    "conda": Entry(
        "conda",
        verbs={
            verb: Entry("", flags("--json"), operands=_PACKAGES, most=1, finding=_INTERPRETER)
            for verb in ("list", "info")
        },
        unknown=_INSTALLS,
    ),
    "dpkg": Entry("/usr/bin/dpkg", _DPKG_LIST, operands=_PACKAGES, most=8, check=_dpkg),
    "dpkg-query": Entry("/usr/bin/dpkg-query", _DPKG_LIST, operands=_PACKAGES, most=8, check=_dpkg),
    "rpm": Entry("/usr/bin/rpm", flags("-q -a -i --query --all --info"), operands=_PACKAGES, most=8, check=_rpm),
    "apt": Entry(
        "/usr/bin/apt",
        verbs={
            verb: Entry(
                "",
                flags("--installed -a"),
                operands=_PACKAGES,
                most=4,
                finding=ask("exec", "reads repositories' settings and may write caches"),
            )
            for verb in ("list", "show", "policy")
        },
        unknown=_INSTALLS,
    ),
    "apt-cache": Entry(
        "/usr/bin/apt-cache",
        verbs={
            verb: Entry("", operands=_PACKAGES, most=4, finding=ask("exec", "may write caches"))
            for verb in ("policy", "show", "madison")
        },
        unknown=_INSTALLS,
    ),
    "snap": Entry(
        "/usr/bin/snap",
        verbs={"list": Entry("", operands=word, most=1, finding=ask("exec", "asks the daemon"))},
        unknown=_INSTALLS,
    ),
    "ldconfig": Entry(
        "ldconfig",
        flags("-p -v"),
        check=lambda parsed: [] if parsed.has("-p") and not parsed.has("-v") else [deny("mutate", "only -p reads")],
    ),
}
