"""Path globs as ripgrep's `-g` has them: relative to the package root, the last one that matches decides.

A glob without a slash matches a name at any depth; `!` in front excludes; `**` crosses folders; `{a,b}` and `[x-z]` as
usual; a slash at the end means folders only. An excluded folder takes everything below it along.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tools.source.errors import PatternError

# kind: the globs of ripgrep 15's `--type-list` that SGLang trees can hold
KINDS: Final = {
    "c": "*.[chH] *.[chH].in *.cats",
    "cmake": "*.cmake CMakeLists.txt",
    "cpp": "*.[ChH] *.[ChH].in *.[ch]pp *.[ch]pp.in *.[ch]xx *.[ch]xx.in *.cc *.cc.in *.hh *.hh.in *.inl",
    "config": "*.cfg *.conf *.config *.ini",
    "css": "*.css *.scss",
    "csv": "*.csv",
    "cuda": "*.cu *.cuh",
    "docker": "*Dockerfile*",
    "h": "*.h *.hh *.hpp",
    "html": "*.ejs *.htm *.html",
    "jinja": "*.j2 *.jinja *.jinja2",
    "js": "*.cjs *.js *.jsx *.mjs *.vue",
    "json": "*.json *.sarif composer.lock",
    "make": "[Gg][Nn][Uu]makefile [Gg][Nn][Uu]makefile.am [Gg][Nn][Uu]makefile.in [Mm]akefile [Mm]akefile.am "
    "[Mm]akefile.in Makefile.* *.mk *.mak",
    "markdown": "*.markdown *.md *.mdown *.mdwn *.mdx *.mkd *.mkdn",
    "md": "*.markdown *.md *.mdown *.mdwn *.mdx *.mkd *.mkdn",
    "proto": "*.proto",
    "protobuf": "*.proto",
    "py": "*.py *.pyi",
    "python": "*.py *.pyi",
    "rst": "*.rst",
    "rust": "*.rs",
    "sh": "*.bash *.bashrc *.csh *.cshrc *.env *.ksh *.kshrc *.sh *.tcsh *.zsh bash_login bash_logout bash_profile "
    "bashrc profile zlogin zlogout zprofile zshenv zshrc",
    "toml": "*.toml Cargo.lock",
    "ts": "*.cts *.mts *.ts *.tsx",
    "txt": "*.txt",
    "xml": "*.dtd *.rng *.sch *.xhtml *.xjb *.xml *.xml.dist *.xsd *.xsl *.xslt",
    "yaml": "*.yaml *.yml",
}


class Globs:
    """A list of globs compiled. Raises PatternError for one that cannot be read."""

    def __init__(self, globs: Sequence[str]) -> None:
        self._rules: list[tuple[re.Pattern[str], bool, bool]] = []
        for glob in globs:
            excluded = glob.startswith("!")
            body = glob[1:] if excluded else glob
            if not body.strip("/"):
                raise PatternError(f"the glob {glob!r} is empty.", "Try `*.py` or `srt/managers/**`.")
            folders_only = body.endswith("/")
            self._rules.append((re.compile(_regex(body.rstrip("/"), glob)), excluded, folders_only))
        self._narrows = any(not excluded for _, excluded, _ in self._rules)
        self._folders: dict[str, bool] = {"": True}

    def keep(self, path: str) -> bool:
        """Whether a file is wanted."""
        if not self._enters(path.rpartition("/")[0]):
            return False
        verdict = self._decide(path, folder=False)
        return verdict if verdict is not None else not self._narrows

    def _enters(self, folder: str) -> bool:
        known = self._folders.get(folder)
        if known is None:
            known = self._enters(folder.rpartition("/")[0]) and self._decide(folder, folder=True) is not False
            self._folders[folder] = known
        return known

    def _decide(self, path: str, *, folder: bool) -> bool | None:
        for pattern, excluded, folders_only in reversed(self._rules):
            if (folder or not folders_only) and pattern.fullmatch(path):
                return not excluded
        return None


def of_kind(kind: str) -> re.Pattern[str]:
    """Matches the base names of a kind of file. Raises PatternError for an unknown kind, naming those there are."""
    globs = KINDS.get(kind)
    if globs is None:
        raise PatternError(f"no kind of file is named {kind!r}.", f"Kinds: {', '.join(KINDS)}. Or use a glob.")
    return re.compile("|".join(_translate(glob, glob) for glob in globs.split()))


def select(paths: Iterable[str], globs: Sequence[str], kind: str | None) -> list[str]:
    """The paths that globs and kind keep, in their order."""
    kept = list(paths)
    if kind is not None:
        names = of_kind(kind)
        kept = [path for path in kept if names.fullmatch(path.rpartition("/")[2])]
    if globs:
        compiled = Globs(globs)
        kept = [path for path in kept if compiled.keep(path)]
    return kept


def _regex(glob: str, whole: str) -> str:
    anchored = "/" in glob
    return ("" if anchored else "(?:.*/)?") + _translate(glob.lstrip("/"), whole)


def _translate(glob: str, whole: str) -> str:
    out: list[str] = []
    depth = at = 0
    while at < len(glob):
        character = glob[at]
        if character == "*":
            at, piece = _stars(glob, at)
            out.append(piece)
            continue
        if character == "?":
            out.append("[^/]")
        elif character == "[":
            at, piece = _class(glob, at, whole)
            out.append(piece)
        elif character == "{":
            depth += 1
            out.append("(?:")
        elif character == "}" and depth:
            depth -= 1
            out.append(")")
        elif character == "," and depth:
            out.append("|")
        elif character == "\\" and at + 1 < len(glob):
            at += 1
            out.append(re.escape(glob[at]))
        else:
            out.append(re.escape(character))
        at += 1
    if depth:
        raise PatternError(f"the glob {whole!r} opens a brace and does not close it.", "Write {a,b}.")
    return "".join(out)


def _stars(glob: str, at: int) -> tuple[int, str]:
    end = at
    while end < len(glob) and glob[end] == "*":
        end += 1
    starts = at == 0 or glob[at - 1] == "/"
    if end - at == 2 and starts and glob[end : end + 1] == "/":
        return end + 1, "(?:.*/)?"
    if end - at == 2 and starts and end == len(glob):
        return end, ".*" if at == 0 else ".+"
    return end, "[^/]*"


def _class(glob: str, at: int, whole: str) -> tuple[int, str]:
    start = at + 1
    negated = glob[start : start + 1] in ("!", "^")
    start += negated
    end = glob.find("]", start + 1)
    if end < 0:
        raise PatternError(
            f"the glob {whole!r} opens a class and does not close it.", "Write [abc], or \\[ for itself."
        )
    body = re.sub(r"([\\\[&~|^])", r"\\\1", glob[start:end])
    piece = f"(?!/)[{'^' if negated else ''}{body}]"
    try:
        re.compile(piece)
    except re.error as error:
        raise PatternError(f"the glob {whole!r} has a class that cannot be read: {error}.", "Write [a-z].") from error
    return end, piece
