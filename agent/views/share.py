"""The document for people outside: hosts, addresses, users, serials, given names and prompts out of every text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from agent.views import owned
from transcripts.redaction import Redactor

Json = dict[str, Any]
# Placeholders are written so that the redactor, which knows hosts by where they stand, takes them for none.
HOST: Final = "«host»"
_LETTERS: Final = 4
_SERIALS: Final = ("gpu_uuid", "gpu_bus_id")


def shared(document: Json) -> Json:
    """The same document with nothing in it that says whose server it was."""
    made: Json = cleaner(document)(document)
    return made


def cleaner(document: Json) -> Callable[[Any], Any]:
    """What takes out of any text of a session whatever its document says about whose server it was."""
    redactor = Redactor("share")
    common = owned.common(document)
    named = owned.identified(document)
    own, others = owned.hosts(document, named.get("host", ()))
    told = {str(fact["value"]): "«serial»" for fact in document["facts"] if fact["name"] in _SERIALS and fact["value"]}
    told |= dict.fromkeys(own, HOST)
    people = owned.users(document, named.get("user", ()))
    for kind, found in (("mail", named.get("mail", ())), ("host", others), ("user", people)):
        new = [name for name in dict.fromkeys(found) if name not in told]
        told |= {name: f"«{kind}_{number}»" for number, name in enumerate(new, 1)}
    # A host that is called `server` is hidden where it stands alone, not in every sentence about servers.
    spread = {form: told[name] for name in told for form in _cases(name) if name.lower() not in common}
    owners = owned.owners((*own, *others, *named.get("mail", ())), common)
    given = dict.fromkeys(name.lower() for name in (*owned.given_names(document, common), *owners))
    known = {each.lower() for each in told}
    new = [name for name in given if name not in known]
    names = {name: f"«name_{number}»" for number, name in enumerate(new, 1)}
    exact, folded = owned.any_of(spread, "A-Za-z0-9"), owned.any_of(names, "A-Za-z", re.IGNORECASE)

    def hide(text: str) -> str:
        text = told.get(text, text)
        if exact is not None:
            text = exact.sub(lambda found: spread[found[0]], text)
        if folded is not None:
            text = folded.sub(lambda found: names[found[0].lower()], text)
        return redactor.redact(text)

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return hide(value)
        if isinstance(value, dict):
            return {key: clean(each) for key, each in value.items()}
        return [clean(each) for each in value] if isinstance(value, list | tuple) else value

    return clean


def _cases(name: str) -> tuple[str, ...]:
    """A name as it stands, and as people may write it where it has letters enough to be no GPU or part of a figure."""
    if sum(letter.isalpha() for letter in name) < _LETTERS:
        return (name,)
    return (name, name.lower(), name.upper(), name.capitalize())
