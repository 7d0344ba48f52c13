"""The document for people outside: hosts, addresses, users, serial numbers and prompts taken out of every text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from transcripts.redaction import Redactor

Json = dict[str, Any]
# Written so that the redactor, which knows hosts by where they stand, takes it for none.
HOST: Final = "«host»"
_NOBODY: Final = frozenset({"", "root", "local", "localhost", "operator"})
_SERIALS: Final = ("gpu_uuid", "gpu_bus_id")
_SYSLOG_HOST: Final = re.compile(r"^\S+ (\S+) [\w./@-]+\[\d+\]: ")


def shared(document: Json) -> Json:
    """The same document with nothing in it that says whose server it was."""
    made: Json = cleaner(document)(document)
    return made


def cleaner(document: Json) -> Callable[[Any], Any]:
    """What takes out of any text of a session whatever its document says about whose server it was."""
    redactor = Redactor("share")
    names = sorted(_hosts(document), key=len, reverse=True)
    people = sorted({str(fact["value"]) for fact in document["facts"] if fact["name"] == "login"} - _NOBODY)
    serials = {str(fact["value"]) for fact in document["facts"] if fact["name"] in _SERIALS}
    hidden = [(_whole(name), HOST) for name in names]
    hidden += [(_whole(name), "«user»") for name in people]
    hidden += [(_whole(serial), "«serial»") for serial in sorted(serials - {""}, key=len, reverse=True)]

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            for pattern, instead in hidden:
                value = pattern.sub(instead, value)
            return redactor.redact(value)
        if isinstance(value, dict):
            return {key: clean(each) for key, each in value.items()}
        return [clean(each) for each in value] if isinstance(value, list | tuple) else value

    return clean


def _hosts(document: Json) -> set[str]:
    """Names of the host: as the operator typed it, as it calls itself in its log."""

    def named() -> Iterator[str]:
        for text in (document["target"]["host"], *(item["host"] for item in document["evidence"])):
            user, _, host = text.rpartition("@")
            yield from (user, host, host.partition(".")[0])
        for line in document["quoted"].values():
            found = _SYSLOG_HOST.match(line)
            if found:
                yield found[1]

    return set(named()) - _NOBODY


def _whole(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
