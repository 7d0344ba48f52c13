"""The tools of a researcher: search, read, list, flag, rules, usage. Each answer is small, ranked, and can be cited.

Lines come as `path:line: text`; a citation is that path, that line and that text.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final

from pydantic import Field

from tools.source.catalogue import Dynamic, Flag
from tools.source.errors import PathError, PatternError, UnknownFlag
from tools.source.renames import matching
from tools.source.rule import Rule
from tools.source.rules import Family
from tools.source.search import SearchResult
from tools.source.source import Source
from tools.source.words import worded
from tools.toolbox import Arguments, Emit, Tool, ToolRefused

HITS: Final = 40
READ_LINES: Final = 160
TEXT: Final = 220
RULES: Final = 24
FAR: Final = 3
ALSO: Final = 3
NAMES: Final = 80
ANSWER: Final = 9_000
REFUSALS: Final = (PatternError, PathError, UnknownFlag)


class SearchArguments(Arguments):
    pattern: str = Field(description="regular expression (Rust dialect), or text with literal", max_length=500)
    path: str = Field("", description="folder or file from the package root, like srt/managers", max_length=300)
    glob: str = Field("", description="like *.py or **/mem_cache/*.py; ! in front excludes", max_length=200)
    literal: bool = False
    ignore_case: bool = False
    multiline: bool = Field(False, description="match across lines; Python dialect")
    context: int = Field(0, ge=0, le=10, description="lines around each hit")


class ReadArguments(Arguments):
    path: str = Field(description="from the package root, like srt/server_args.py", max_length=300)
    first: int = Field(1, ge=1)
    last: int | None = Field(None, ge=1, description=f"at most {READ_LINES} lines at once")


class ListArguments(Arguments):
    path: str = Field("", description="folder from the package root", max_length=300)
    glob: str = Field("", max_length=200)


class FlagArguments(Arguments):
    name: str = Field(description="an option like --hicache-ratio, or words to look for", max_length=120)


def tools_for(source: Source) -> tuple[Tool[Any], ...]:
    """The tools over one tree."""
    version = f"sglang {source.version}"

    async def search(given: SearchArguments, _emit: Emit) -> str:
        try:
            result = await source.search(
                given.pattern,
                given.path,
                globs=[given.glob] if given.glob else [],
                literal=given.literal,
                ignore_case=given.ignore_case,
                multiline=given.multiline,
                context=given.context,
                limit=HITS,
            )
        except REFUSALS as error:
            raise ToolRefused(error.message, error.hint) from error
        return search_text(result)

    async def read(given: ReadArguments, _emit: Emit) -> str:
        return await _call(read_text, source, given)

    async def listing(given: ListArguments, _emit: Emit) -> str:
        return await _call(list_text, source, given)

    async def flag(given: FlagArguments, _emit: Emit) -> str:
        return await _call(flag_text, source, given)

    async def rules(given: FlagArguments, _emit: Emit) -> str:
        return await _call(lambda of, asked: rules_text(of.rules(asked.name), of, asked.name), source, given)

    async def usage(given: FlagArguments, _emit: Emit) -> str:
        return await _call(lambda of, asked: of.usage(asked.name), source, given)

    return (
        Tool("search", f"Search the source of {version}: lines as path:line: text.", SearchArguments, search),
        Tool("read", f"Read numbered lines of a file of {version}.", ReadArguments, read),
        Tool("list", f"List files and folders of {version}.", ListArguments, listing),
        Tool("flag", "A server flag: names, type, default, choices, help, where defined.", FlagArguments, flag),
        Tool("rules", "What the code enforces or changes about a flag, with conditions.", FlagArguments, rules),
        Tool("usage", "Where a flag is defined, handled and read.", FlagArguments, usage),
    )


async def _call(work: Any, source: Source, given: Arguments) -> str:
    """Run in a thread: parsing a large file must not hold the chat up."""
    try:
        text: str = await asyncio.to_thread(work, source, given)
    except REFUSALS as error:
        raise ToolRefused(error.message, error.hint) from error
    return fitted(text)


def search_text(result: SearchResult) -> str:
    """Hits, definitions of what was looked for first among files; then how many there are and where."""
    if not result.hits:
        return f"no match.{' ' + result.note if result.note else ''}"
    lines: list[str] = []
    for hit in result.hits:
        if hit.before or hit.after:
            lines += [f"{hit.path}:{hit.line - len(hit.before) + n}- {_cut(text)}" for n, text in enumerate(hit.before)]
        spanned = hit.text.split("\n")
        lines += [f"{hit.path}:{hit.line + n}: {_cut(text)}" for n, text in enumerate(spanned)]
        if hit.before or hit.after:
            lines += [f"{hit.path}:{hit.line + len(spanned) + n}- {_cut(text)}" for n, text in enumerate(hit.after)]
            lines.append("--")
    if result.truncated:
        lines.append(f"({len(result.hits)} of {result.total} matches in {result.files} files; narrow path or pattern)")
    if result.note:
        lines.append(f"({result.note})")
    return fitted("\n".join(lines))


def read_text(source: Source, given: ReadArguments) -> str:
    """Numbered lines of a file."""
    last = given.first + READ_LINES - 1 if given.last is None else min(given.last, given.first + READ_LINES - 1)
    lines = source.read(given.path, given.first, last)
    whole = len(source.lines(given.path))
    path = source.inside(given.path)
    if not lines:
        return f"{path} has {whole} lines."
    text = "\n".join(f"{path}:{number}: {_cut(line)}" for number, line in lines)
    return f"{text}\n({whole} lines in all)" if lines[-1][0] < whole else text


def list_text(source: Source, given: ListArguments) -> str:
    """Files and folders directly below a path, or the files a glob keeps."""
    files = source.files(*([given.glob] if given.glob else []), path=given.path)
    if given.glob:
        shown = files[:NAMES]
    else:
        inside = source.inside(given.path)
        below = [each[len(inside) :].lstrip("/") for each in files] if inside else files
        counts = Counter(each.split("/")[0] + ("/" if "/" in each else "") for each in below if each)
        shown = [f"{name} ({count} files)" if name.endswith("/") else name for name, count in sorted(counts.items())]
        files, shown = shown, shown[:NAMES]
    more = len(files) - len(shown)
    return "\n".join([*shown, *([f"(and {more} more)"] if more else [])]) or "no file."


def flag_text(source: Source, given: FlagArguments) -> str:
    """One flag in full, then those that the words are found in."""
    catalogue = source.catalogue()
    found = matching(given.name, catalogue)
    if not found:
        near = catalogue.nearest(given.name)
        raise UnknownFlag(
            f"sglang {source.version} has no flag {given.name!r}.", f"Nearest: {', '.join(near) or 'none'}."
        )
    lines = [describe(found[0])]
    if len(found) > 1:
        lines.append("also: " + ", ".join(flag.name for flag in found[1:13]))
    return "\n".join(lines)


def describe(flag: Flag) -> str:
    """A flag as text for people and models."""
    parts = [f"{', '.join(flag.names)}  ({flag.at})"]
    kind = "switch" if not flag.takes_value else flag.type + (f", nargs {flag.nargs}" if flag.nargs else "")
    parts.append(f"  {kind}; default {_value(flag.default)}" + ("; required" if flag.required else ""))
    if flag.fallback is not None:
        parts.append(f"  when unset the code takes {flag.fallback!r}")
    if flag.choices is not None:
        parts.append(f"  choices: {_value(flag.choices)}")
    if flag.deprecated:
        parts.append(f"  DEPRECATED: {flag.deprecated}")
    if flag.help and flag.help != flag.deprecated:
        parts.append(f"  {' '.join(flag.help.split())}")
    return "\n".join(parts)


def rules_text(rules: tuple[Rule, ...], source: Source, name: str, limit: int = RULES, *, full: bool = False) -> str:
    """Rules, nearest first: those about the flag itself in full, each with its condition, effect and the line to cite;
    those of its switches and of what is handled with it a line each; the rest counted. `full` spells all out.
    """
    family = source.family(name)
    if not rules:
        return f"the handlers enforce nothing about {name}; search for `.{family.flag}` to see its readers."
    if full:
        return "\n".join(line for rule in rules for line in _in_full(rule, source, family))
    lines: list[str] = []
    shown = [rule for rule in rules if family.distance(rule) < FAR][:limit]
    for near, group in groupby(shown, family.distance):
        if near == 0:
            lines += [line for rule in group for line in _in_full(rule, source, family)]
            continue
        lines.append(f"with {_options(family.switches, source)}:" if near == 1 else "with other flags of its family:")
        lines += [f"  {_in_short(rule, source)}" for rule in group]
    left = rules[len(shown) :]
    if left:
        counts = Counter(dest for rule in left for dest in sorted(family.all & set(rule.flags))[:1])
        about = ", ".join(f"{_options([dest], source)} ({count})" for dest, count in counts.most_common(6))
        lines.append(f"{len(left)} more, further away: {about}; ask for the rules of these")
    return "\n".join(lines)


def _in_full(rule: Rule, source: Source, family: Family) -> list[str]:
    near = "" if family.flag in rule.flags else f" [{', '.join(sorted(family.all & set(rule.flags)))[:80]}]"
    lines = [f"{rule.kind} {rule.at}{near}", f"  if {_cut(rule.condition) or 'always'}"]
    terms = _terms_shown(rule)
    if terms:
        lines.append(f"  where {_cut('; '.join(terms), 2)}")
    cited = f"  {rule.path}:{rule.line}: {_cut(rule.quote)}"
    return [*lines, f"  -> {_cut(worded(rule, source.catalogue()))}", cited, *_also(rule)]


def _terms_shown(rule: Rule) -> list[str]:
    """The terms that what is shown of a rule asks for, and those that these ask for."""
    shown = f"{rule.condition} {rule.effect}"
    found: list[str] = []
    for term in (*rule.terms, *rule.terms):
        if term not in found and term.partition(" = ")[0] in shown:
            found.append(term)
            shown += f" {term.partition(' = ')[2]}"
    return found


def _also(rule: Rule) -> list[str]:
    """How many more places say the same, the first of them named."""
    more = len(rule.also)
    named = ", ".join(rule.also[:ALSO])
    return [f"  and {more} more {'places' if more > 1 else 'place'}: {named}{', ...' if more > ALSO else ''}"] * (
        more > 0
    )


def _in_short(rule: Rule, source: Source) -> str:
    return f"{rule.kind} {rule.at}: if {_cut(rule.condition) or 'always'} -> {_cut(worded(rule, source.catalogue()))}"


def _options(dests: Iterable[str], source: Source) -> str:
    """Flags by the names that an operator types."""
    catalogue = source.catalogue()
    known = (catalogue.find(dest) for dest in sorted(dests))
    return ", ".join(flag.name for flag in known if flag is not None)


def _value(value: Any) -> str:
    if isinstance(value, Dynamic):
        return f"decided at run time by {value.expression}"
    if isinstance(value, tuple):
        return ", ".join(str(each) for each in value) or "()"
    return repr(value)


def _cut(text: str, times: int = 1) -> str:
    return text if len(text) <= TEXT * times else text[: TEXT * times - 3] + "..."


def fitted(text: str) -> str:
    """An answer no longer than a model should be handed at once, cut at a line."""
    if len(text) <= ANSWER:
        return text
    kept = text[:ANSWER].rpartition("\n")[0]
    return f"{kept}\n(cut: {text.count(chr(10)) - kept.count(chr(10))} more lines; ask for less)"
