"""The journal and systemd. Verbs are a list of those that read, never of those that write."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tools.host.policy import paths
from tools.host.policy.options import Entry, Parsed, asking, flags, never, valued
from tools.host.policy.roles import anything, choice, lines, matching, number, unit, when, word
from tools.host.policy.verdict import Finding, ask, deny

_PAGER: Final = deny("pager", "add --no-pager: without it a pager with a shell escape may start")
_PAGER_AND_ALL: Final = deny(
    "pager", "add --no-pager -n 1000: without them a pager with a shell escape may start, and the whole journal comes"
)
_FORMATS: Final = choice(
    "short short-full short-iso short-iso-precise short-precise short-monotonic short-delta short-unix with-unit cat"
    " json json-pretty json-seq verbose export"
)
_MATCH: Final = matching(r"[A-Z_][A-Z0-9_]*=[^/~]{0,120}|\+", "a FIELD=VALUE match")
_OTHER_ROOT: Final = never(
    "scope",
    "reads other journals than this host's own",
    "-D --directory --file --root --image --image-policy",
    takes=True,
)


def _journal(parsed: Parsed) -> Iterable[Finding]:
    bounded = parsed.has("-n", "--lines")
    if not parsed.has("--no-pager", "--disk-usage", "--verify"):
        yield _PAGER if bounded else _PAGER_AND_ALL
    short = ("--list-boots", "--disk-usage", "--header", "-N", "--fields", "-F", "--field", "--verify")
    if not bounded and not parsed.has(*short):
        yield ask("cost", "without -n the whole journal comes: bound it, as with -n 1000")


_JOURNALCTL: Final = Entry(
    "/usr/bin/journalctl",
    {
        **flags(
            "-k --dmesg --no-pager --list-boots --disk-usage --header --utc --no-hostname -l --full"
            " --no-full -r --reverse"
            " -x --catalog -q --quiet -a --all -N --fields --show-cursor --system --version -h --help"
        ),
        **valued(unit, "-u --unit -t --identifier --user-unit -T --exclude-identifier"),
        **valued(lines, "-n --lines"),
        **valued(
            matching(r"-?\d{1,6}|[0-9a-f]{32}(-\d+)?|\+\d+", "a boot"),
            "-b --boot",
            optional=True,
            peek=r"-?\d{1,6}|[0-9a-f]{32}",
        ),
        **valued(anything, "-g --grep"),
        **valued(matching(r"yes|no|true|false", "yes or no"), "--case-sensitive", optional=True),
        **valued(matching(r"[a-z0-7]+(\.\.[a-z0-7]+)?", "a priority"), "-p --priority"),
        **valued(word, "--facility"),
        **valued(_FORMATS, "-o --output"),
        **valued(matching(r"[A-Z0-9_,]+", "fields"), "--output-fields -F --field"),
        **valued(when, "-S --since -U --until"),
        **valued(matching(r"[A-Za-z0-9;=]+", "a cursor"), "-c --cursor --after-cursor"),
        **never(
            "mutate",
            "deletes or moves logs",
            "--rotate --flush --sync --setup-keys --update-catalog --relinquish-var --smart-relinquish-var --force",
        ),
        **never("mutate", "deletes logs", "--vacuum-size --vacuum-time --vacuum-files --interval", takes=True),
        **never("hang", "follows for ever", "-f --follow"),
        **never("pager", "jumps in a pager", "-e --pager-end"),
        **never("write-arg", "writes its file", "--cursor-file", takes=True),
        **never("secret", "takes a sealing key", "--verify-key", takes=True),
        **asking("load", "reads every journal file", "--verify"),
        **asking("scope", "journals of others", "-m --merge --user"),
        **asking("scope", "another machine or namespace", "-M --machine --namespace", takes=True),
        **_OTHER_ROOT,
    },
    operands=_MATCH,
    most=6,
    check=_journal,
    privacy="redact",
)

_UNIT_VERBS: Final = frozenset({"status", "show", "cat", "is-active", "is-enabled", "is-failed", "list-dependencies"})
_READ_VERBS: Final = _UNIT_VERBS | {
    "list-units",
    "list-unit-files",
    "list-timers",
    "list-sockets",
    "list-jobs",
    "list-automounts",
    "list-paths",
    "get-default",
    "is-system-running",
}
_PAGED: Final = frozenset({"status", "cat"}) | {verb for verb in _READ_VERBS if verb.startswith("list-")}
_SECRET_PROPERTY: Final = re.compile(r"(?i)(^|,)(Environment|SetCredential\w*|LoadCredentialEncrypted|PAMName)(,|$)")


def _systemctl(parsed: Parsed) -> Iterable[Finding]:
    if parsed.has("--version", "--help", "-h"):
        return
    verb, *units = parsed.operands or ("list-units",)
    if verb == "show-environment":
        yield deny("secret", "the manager's environment")
    elif verb not in _READ_VERBS:
        yield deny("mutate", f"systemctl {verb} is not a reading verb")
    if verb in _PAGED and not parsed.has("--no-pager"):
        yield _PAGER
    if verb == "show":
        wanted = parsed.values("-p", "--property")
        if not wanted:
            yield deny("secret", "without -p it prints the environment with its keys")
        elif _SECRET_PROPERTY.search(",".join(wanted)):
            yield deny("secret", "the environment of a unit holds keys: the unit's reader names them only")
    if verb in {"cat", "status"} and not units:
        yield ask("cost", "name the unit")
    yield from filter(None, map(unit, units))


_SYSTEMCTL: Final = Entry(
    "/usr/bin/systemctl",
    {
        **flags(
            "--no-pager -l --full -a --all -q --quiet --failed --plain --no-legend -r --recursive"
            " --reverse --after --before --value --no-ask-password --show-types --system --version -h"
            " --help"
        ),
        **valued(lines, "-n --lines"),
        **valued(_FORMATS, "-o --output"),
        **valued(word, "-t --type --state"),
        **valued(matching(r"[A-Za-z0-9,]+", "property names"), "-p --property -P"),
        **never("net", "reaches another host", "-H --host", takes=True),
        **never("scope", "another machine or root", "-M --machine --root --image", takes=True),
        **asking("scope", "a user's own units", "--user"),
    },
    most=8,
    check=_systemctl,
    bears_keys=True,
    privacy="redact",
)


def _analyze(parsed: Parsed) -> Iterable[Finding]:
    verb = parsed.operands[0] if parsed.operands else "time"
    if verb == "verify":
        yield from filter(None, map(paths.content, parsed.operands[1:]))
    elif verb not in {"time", "blame", "critical-chain", "security", "cat-config"}:
        yield deny("mutate", f"systemd-analyze {verb} is not a reading verb")
    elif verb == "cat-config":
        yield ask("scope", "prints any configuration")
        for name in parsed.operands[1:]:
            if name.startswith("/"):
                yield from filter(None, [paths.content(name)])
            elif not re.fullmatch(r"systemd/[a-z][\w.-]*", name):
                yield deny("scope", f"{name} is not a configuration of systemd")
    else:
        yield from filter(None, map(unit, parsed.operands[1:]))


def _paged(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("--no-pager"):
        yield _PAGER


def _once(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("-n", "--iterations"):
        yield deny("hang", "without -n it repeats for ever")
    if not parsed.has("-b", "--batch"):
        yield deny("pager", "without -b it takes keys")


def _coredump(parsed: Parsed) -> Iterable[Finding]:
    if parsed.operands and parsed.operands[0] not in {"list", "info"}:
        yield deny("secret", f"coredumpctl {parsed.operands[0]} gives out memory or runs a debugger")
    yield from _paged(parsed)


def _reading(*verbs: str) -> Entry:
    return Entry("", flags("--no-pager -a --all -l --full"), operands=word, most=2 if verbs else 0)


ENTRIES: Final = {
    "journalctl": _JOURNALCTL,
    "systemctl": _SYSTEMCTL,
    "systemd-analyze": Entry("/usr/bin/systemd-analyze", flags("--no-pager"), most=4, check=_analyze),
    "systemd-cgls": Entry(
        "/usr/bin/systemd-cgls",
        {**flags("--no-pager -l --full -k"), **valued(unit, "-u --unit")},
        operands=matching(r"(/[A-Za-z0-9_.@:-]*[A-Za-z0-9_@:-]){1,6}", "a control group"),
        most=1,
        check=_paged,
        privacy="redact",
        bears_keys=True,
    ),
    "systemd-cgtop": Entry(
        "/usr/bin/systemd-cgtop",
        {
            **flags("-b --batch -m -c -p -i -t -P -k --raw"),
            **valued(number(1, 5), "-n --iterations"),
            **valued(number(1, 5), "--depth -d"),
        },
        check=_once,
    ),
    "systemd-detect-virt": Entry("/usr/bin/systemd-detect-virt", flags("-c -v --container --vm -q")),
    "coredumpctl": Entry(
        "/usr/bin/coredumpctl",
        {
            **flags("--no-pager -r --reverse --no-legend -q"),
            **valued(lines, "-n"),
            **valued(when, "-S --since -U --until"),
        },
        operands=word,
        most=3,
        check=_coredump,
        privacy="redact",
    ),
    "timedatectl": Entry(
        "/usr/bin/timedatectl",
        flags("--no-pager -a --all"),
        verbs={verb: _reading() for verb in ("status", "show", "timesync-status", "show-timesync")},
    ),
    "hostnamectl": Entry("/usr/bin/hostnamectl", flags("--static --pretty --transient"), verbs={"status": _reading()}),
    "localectl": Entry("/usr/bin/localectl", flags("--no-pager"), verbs={"status": _reading()}),
    "loginctl": Entry(
        "/usr/bin/loginctl",
        flags("--no-pager"),
        verbs={
            verb: _reading(verb)
            for verb in ("list-sessions", "list-users", "session-status", "user-status", "show-session", "show-user")
        },
        finding=ask("private", "user names and where they come from"),
    ),
}
