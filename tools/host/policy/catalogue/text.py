"""Searching and shaping text. sed, awk and jq are programming languages: of each only a tiny part is accepted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tools.host.policy import paths
from tools.host.policy.options import Entry, Parsed, always, flags, never, valued
from tools.host.policy.roles import anything, choice, matching, number, word
from tools.host.policy.verdict import Finding, deny

_COUNT: Final = number(0, 100_000)
_AROUND: Final = number(0, 200)
_LIST: Final = matching(r"[\d,-]{1,60}", "a list of fields")
_MARK: Final = matching(r"[ -~]{1,3}", "a separator of at most three characters")
_NAMES: Final = matching(r"[A-Za-z0-9_.*?!/-]{1,80}", "a name pattern")
_SCRIPT_FILE: Final = "takes its program or patterns from a file"

_TEXT_IN_SLASHES: Final = r"/[A-Za-z0-9 _.:#=,%()+*^$|\[\]-]*/"
_SED: Final = matching(
    rf"(\d{{1,9}}(,(\d{{1,9}}|\$|\+\d{{1,6}}))?|\$|{_TEXT_IN_SLASHES}(,{_TEXT_IN_SLASHES})?)p(;\d{{1,9}}q)?",
    "a print command like 10,20p or /text/p, the only sed that is read",
)
_FIELD: Final = r"(\$(\d{1,3}|NF|\(NF-\d{1,2}\))|NR|NF|\"[A-Za-z0-9 _.:,;#=/%()\[\]-]*\")"
_NUMBER: Final = r"\d{1,12}(\.\d{1,9})?"
_TEST: Final = (
    rf"(NR|NF|\$\d{{1,3}}) ?(==|!=|<=|>=|<|>) ?({_NUMBER}|\"[A-Za-z0-9 _.:,#=/%-]*\")"
    rf"|\$\d{{1,3}} ?!?~ ?{_TEXT_IN_SLASHES}|!?{_TEXT_IN_SLASHES}"
)
_AWK: Final = matching(
    rf" *(({_TEST})( ?(&&|\|\|) ?({_TEST}))*)? *(\{{ *print( +{_FIELD}( *,? *{_FIELD})*)? *\}})? *",
    "a program that only compares and prints fields",
)
_STEP: Final = r"(\.[A-Za-z_][A-Za-z0-9_]*\??|\.?\[(\d{0,6}|\"[A-Za-z0-9_.:-]+\")\]\??|\.\"[A-Za-z0-9_.:-]+\")"
_PATH: Final = rf"(\.|{_STEP}+)"
_JQ: Final = matching(
    rf"({_PATH}|keys|length|type)( ?\| ?({_PATH}|keys|length|type|add|first|last|sort|unique|tojson|map\({_PATH}\)))*"
    rf"( ?, ?{_PATH})*",
    "a filter of paths, keys and length",
)


def _grep(parsed: Parsed) -> Iterable[Finding]:
    files = len(parsed.operands) - (0 if parsed.has("-e", "--regexp") else 1)
    if files < 1 and not parsed.after_pipe:
        yield deny("operand", "name the file to search")


def _rg(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("--files"):
        yield from _grep(parsed)
    elif not parsed.operands:
        yield deny("operand", "name the folder")


def _uniq(parsed: Parsed) -> Iterable[Finding]:
    if len(parsed.operands) > 1:
        yield deny("write-arg", "the second operand of uniq is the file it writes")
    yield from _file_or_pipe(parsed)


def _file_or_pipe(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.operands and not parsed.after_pipe:
        yield deny("operand", "name the file")


def _script_and_file(parsed: Parsed) -> Iterable[Finding]:
    if len(parsed.operands) < 2 and not parsed.after_pipe:
        yield deny("operand", "name the file")


def _tr_carves(parsed: Parsed) -> bool:
    """The words of an argv one a line, or with blanks between, are a form that redaction knows."""
    return bool(parsed.used) or parsed.operands not in {("\\0", " "), ("\\0", "\\n"), ("\\000", " "), ("\\000", "\\n")}


def _only_matches(parsed: Parsed) -> bool:
    return parsed.has("-o", "--only-matching")


def _sed(parsed: Parsed) -> Iterable[Finding]:
    if not parsed.has("-n", "--quiet", "--silent"):
        yield deny("operand", "only sed -n with a print command is read")
    yield from _script_and_file(parsed)


_COMMON: Final = {
    **valued(_AROUND, "-A -B -C -# --after-context --before-context --context"),
    **valued(_COUNT, "-m --max-count"),
    **valued(anything, "-e --regexp"),
}
_GREP: Final = Entry(
    "/usr/bin/grep",
    {
        **_COMMON,
        **flags(
            "-c -i -v -n -E -F -G -P -w -x -h -H -l -L -q -s -a -b -I -y --count --ignore-case --no-ignore-case"
            " --invert-match --line-number --extended-regexp --fixed-strings --perl-regexp"
            " --word-regexp --line-regexp"
            " --no-filename --with-filename --files-with-matches --files-without-match --quiet --no-messages --text"
            " --byte-offset --line-buffered -o --only-matching -r --recursive -T -Z -z"
        ),
        **valued(_NAMES, "--include --exclude --exclude-dir"),
        **valued(matching(r"never|auto|always", "never"), "--color --colour", optional=True),
        **never("secret", "reads a pattern file", "-f --file --exclude-from", takes=True),
        **never("secret", "follows links out of the tree", "-R --dereference-recursive"),
        **never("secret", "another way to recurse", "-d --directories -D --devices", takes=True),
    },
    operands=paths.content,
    most=17,
    first=anything,
    instead=("-e", "--regexp"),
    recurses=("-r", "--recursive"),
    check=_grep,
    carves=_only_matches,
    dashdash=True,
    reads_input=True,
    privacy="redact",
)
_RG: Final = Entry(
    "rg",
    {
        **_COMMON,
        **flags(
            "-c -i -v -n -N -F -w -x -H -I -l -o -q -s -S -a -U -P -p --count --count-matches"
            " --ignore-case --invert-match"
            " --line-number --no-line-number --fixed-strings --word-regexp --line-regexp"
            " --with-filename --no-filename"
            " --files-with-matches --files-without-match --only-matching --quiet --case-sensitive --smart-case --text"
            " --multiline --pcre2 --heading --no-heading --column --trim --json --stats --no-ignore"
            " --no-config --files"
            " --hidden -. --one-file-system --no-messages"
        ),
        **valued(_NAMES, "-g --glob --iglob"),
        **valued(word, "-t --type -T --type-not"),
        **valued(number(0, 12), "-d --max-depth --maxdepth"),
        **valued(number(1, 4), "-j --threads"),
        **valued(number(10, 4_000), "-M --max-columns"),
        **valued(choice("path modified accessed created none"), "--sort --sortr"),
        **valued(choice("never auto always"), "--color"),
        **never("exec-arg", "runs a program", "--pre --hostname-bin --pre-glob --hyperlink-format", takes=True),
        **never("exec-arg", "runs decompressors", "-z --search-zip"),
        **never("secret", "reads any file", "-f --file --ignore-file", takes=True),
        **never("secret", "follows links out of the tree", "-L --follow"),
    },
    operands=paths.tree,
    most=9,
    first=anything,
    instead=("-e", "--regexp", "--files"),
    check=_rg,
    carves=_only_matches,
    adds=("--no-config",),
    dashdash=True,
    reads_input=True,
    privacy="redact",
)
_AWK_OPTIONS: Final = {
    **valued(matching(r"[ -~]{1,3}", "a separator"), "-F"),
    **never("interp", _SCRIPT_FILE, "-f --file -l --load -i --include -E --exec -e --source", takes=True),
}


def _awk(name: str) -> Entry:
    return Entry(
        f"/usr/bin/{name}",
        _AWK_OPTIONS,
        operands=paths.content,
        most=5,
        first=_AWK,
        check=_script_and_file,
        reads_input=True,
        carves=always,
        privacy="redact",
    )


ENTRIES: Final = {
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _RG,
    "cut": Entry(
        "/usr/bin/cut",
        {
            **flags("-s --complement --only-delimited"),
            **valued(_MARK, "-d --delimiter --output-delimiter"),
            **valued(_LIST, "-f -c -b --fields --characters --bytes"),
        },
        operands=paths.content,
        most=4,
        check=_file_or_pipe,
        reads_input=True,
        carves=always,
    ),
    "sort": Entry(
        "/usr/bin/sort",
        {
            **flags(
                "-r -n -h -u -V -f -b -g -M -d -i -s -c -m -z --reverse --numeric-sort --unique"
                " --human-numeric-sort --version-sort"
            ),
            **valued(matching(r"[\d.,a-zA-Z]{1,20}", "a key"), "-k --key"),
            **valued(_MARK, "-t --field-separator"),
            **never("write-arg", "writes a file", "-o --output -T --temporary-directory", takes=True),
            **never("exec-arg", "runs a program", "--compress-program", takes=True),
            **never("secret", "takes names from a file", "--files0-from --random-source", takes=True),
        },
        operands=paths.content,
        most=4,
        check=_file_or_pipe,
        reads_input=True,
    ),
    "uniq": Entry(
        "/usr/bin/uniq",
        {
            **flags("-c -d -D -u -i --count --repeated --unique --ignore-case"),
            **valued(_AROUND, "-f -s -w --skip-fields --skip-chars --check-chars"),
        },
        operands=paths.content,
        most=1,
        check=_uniq,
        reads_input=True,
    ),
    "sed": Entry(
        "/usr/bin/sed",
        {
            **flags("-n --quiet --silent -E -r -s"),
            **never("write-arg", "changes the file", "-i --in-place", takes=True),
            **never("exec-arg", _SCRIPT_FILE, "-f --file", takes=True),
            **never("exec-arg", "give one script as the first operand", "-e --expression", takes=True),
        },
        operands=paths.content,
        most=3,
        first=_SED,
        check=_sed,
        reads_input=True,
        carves=lambda parsed: parsed.after_pipe,  # lines of a file stay whole, each with the name before its key
        privacy="redact",
    ),
    "awk": _awk("awk"),
    "mawk": _awk("mawk"),
    "gawk": _awk("gawk"),
    "tr": Entry(
        "/usr/bin/tr",
        {**flags("-d -s -c")},
        operands=matching(r"\\[0nt]|\\0{1,3}|[ ,;:|\"'-]|\[:[a-z]+:\]", "one character or class"),
        most=2,
        check=lambda parsed: [] if parsed.after_pipe else [deny("operand", "tr reads a pipe")],
        reads_input=True,
        carves=_tr_carves,
    ),
    "column": Entry(
        "/usr/bin/column",
        {**flags("-t"), **valued(_MARK, "-s -o")},
        operands=paths.content,
        most=1,
        check=_file_or_pipe,
        reads_input=True,
    ),
    "jq": Entry(
        "/usr/bin/jq",
        {
            **flags("-r -c -S -M -e -j --raw-output --compact-output --sort-keys"),
            **never("secret", "reads any file", "--rawfile --slurpfile --argfile -f --from-file -L", takes=True),
            **never(
                "secret", "reads what it is not given", "-n --null-input -R --raw-input --args --jsonargs -s --slurp"
            ),
        },
        operands=paths.content,
        most=3,
        first=_JQ,
        check=_script_and_file,
        reads_input=True,
        carves=always,
        privacy="redact",
    ),
}
