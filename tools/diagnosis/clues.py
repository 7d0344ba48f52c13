"""Small functions of facts, and how they combine: what an entry of the knowledge is made of.

A test looks at the facts and returns what it saw, or None. How it knows matters: `observed` is output of a machine,
`typed` is the launch command, `claimed` is the operator's word, `silent` adds no source of its own (a version, an
absence). Claims count half and never decide alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tools.diagnosis.model import Actions, Question
from tools.diagnosis.view import View
from transcripts.facts import Fact

Known = Literal["observed", "typed", "claimed", "silent"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a test saw: a few words, the facts it stands on, and how they are known."""

    text: str
    sources: tuple[str, ...] = ()
    known: Known = "observed"


Test = Callable[[View], Seen | None]


@dataclass(frozen=True, slots=True)
class Clue:
    """A test with its weight: 6 decides, 4 is strong, 2 fits, 1 is a hint."""

    weight: float
    test: Test
    why: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One cause of the taxonomy: what speaks for and against it, its neighbours, what settles it, what to do."""

    label: str
    statement: str
    for_: tuple[Clue, ...]
    act: Callable[[View], Actions]
    against: tuple[Clue, ...] = ()
    neighbours: tuple[tuple[str, str], ...] = ()
    settle: Question | None = None
    needs: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()


def _from(facts: tuple[Fact, ...], text: str) -> Seen:
    known: Known = "claimed" if all(fact.grade == "claimed" for fact in facts) else "observed"
    return Seen(text, tuple(dict.fromkeys(fact.source for fact in facts)), known)


def said(*ids: str) -> Test:
    """The server, the runtime or the kernel printed one of these messages."""

    def test(view: View) -> Seen | None:
        facts = tuple(fact for fact in view.facts.all("message") if fact.scope in ids)
        return _from(facts, str(facts[0].value)) if facts else None

    return test


def symptom(*terms: str) -> Test:
    """A note or the operator says so, in any of these terms."""

    def test(view: View) -> Seen | None:
        facts = tuple(fact for fact in view.facts.all("symptom") if fact.scope in terms)
        return _from(facts, ", ".join(dict.fromkeys(fact.scope.replace("_", " ") for fact in facts))) if facts else None

    return test


def phase(*phases: str) -> Test:
    """GPU memory ran out in one of these phases."""

    def test(view: View) -> Seen | None:
        facts = tuple(fact for fact in view.facts.all("oom_phase") if fact.value in phases)
        return _from(facts, f"out of memory in {facts[0].value}") if facts else None

    return test


def flag(name: str, *values: str) -> Test:
    """An option is typed (with one of the values, where some are given)."""

    def test(view: View) -> Seen | None:
        fact = view.flag_fact(name)
        if fact is None or (values and str(fact.value).lower() not in values):
            return None
        return Seen(f"{fact.scope} {fact.value}", (fact.source,), "typed")

    return test


def env(name: str, *values: str) -> Test:
    def test(view: View) -> Seen | None:
        fact = view.facts.get("env", name)
        if fact is None or (values and str(fact.value).lower() not in values):
            return None
        return Seen(f"{name}={fact.value}", (fact.source,), "typed")

    return test


def above(name: str, limit: float, scope: str | None = None) -> Test:
    return _compare(name, scope, lambda value: value >= limit)


def below(name: str, limit: float, scope: str | None = None) -> Test:
    return _compare(name, scope, lambda value: value <= limit)


def fact(name: str, scope: str | None = None) -> Test:
    """A fact of this name, whatever its value: a number or words."""

    def test(view: View) -> Seen | None:
        found = view.facts.get(name, scope)
        return None if found is None else _from((found,), f"{name} {found.value} {found.unit}".rstrip())

    return test


def fact_is(name: str, *scopes: str) -> Test:
    """A fact of this name and one of these scopes, whatever its value."""

    def test(view: View) -> Seen | None:
        found = tuple(one for one in view.facts.all(name) if one.scope in scopes)
        return _from(found, str(found[0].value)) if found else None

    return test


def _compare(name: str, scope: str | None, holds: Callable[[float], bool]) -> Test:
    def test(view: View) -> Seen | None:
        found = view.facts.get(name, scope)
        number = view.facts.number(name, scope)
        if found is None or number is None or not holds(number):
            return None
        return _from((found,), f"{name} {found.value} {found.unit}".rstrip())

    return test


def setting_above(name: str, limit: float) -> Test:
    return _setting(name, lambda value: value >= limit)


def setting_below(name: str, limit: float) -> Test:
    return _setting(name, lambda value: value <= limit)


def _setting(name: str, holds: Callable[[float], bool]) -> Test:
    def test(view: View) -> Seen | None:
        value = view.value(name)
        if value is None or not holds(value):
            return None
        return Seen(f"{name} {value:g}", view.flag_sources(name), "typed")

    return test


def when(holds: Callable[[View], bool], text: str = "") -> Test:
    """Something the view knows by itself, such as the version; it adds no source of its own."""

    def test(view: View) -> Seen | None:
        return Seen(text, (), "silent") if holds(view) else None

    return test


def both(*tests: Test) -> Test:
    """All of them; known as well as the best known of them."""

    def test(view: View) -> Seen | None:
        seen = [one(view) for one in tests]
        found = [one for one in seen if one is not None]
        if len(found) < len(tests):
            return None
        sources = tuple(dict.fromkeys(source for one in found for source in one.sources))
        return Seen("; ".join(one.text for one in found if one.text), sources, _best(found))

    return test


def either(*tests: Test) -> Test:
    """Any of them; the best known of those that hold."""

    def test(view: View) -> Seen | None:
        found = [one for one in (single(view) for single in tests) if one is not None]
        best = _best(found)
        return next((one for one in found if one.known == best), None)

    return test


def lacks(test: Test) -> Test:
    """The other does not hold. An absence has no source and proves nothing by itself."""

    def absent(view: View) -> Seen | None:
        return Seen("", (), "silent") if test(view) is None else None

    return absent


def _best(found: list[Seen]) -> Known:
    known: tuple[Known, ...] = ("observed", "typed", "claimed")
    return next((one for one in known if any(seen.known == one for seen in found)), "silent")
