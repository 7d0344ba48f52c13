"""Names and set-ups that another version has."""

from __future__ import annotations

from tools.diagnosis.changes import NOT_MEMORY, plan, step, upgrade
from tools.diagnosis.clues import (
    Clue,
    Entry,
    both,
    either,
    fact_is,
    flag,
    lacks,
    said,
    symptom,
)
from tools.diagnosis.conditions import REJECTED, known_foreign, known_rename, underscored
from tools.diagnosis.foreign import REFUSED_AT_ONCE, changes_for_rejected
from tools.diagnosis.model import Actions
from tools.diagnosis.view import View


def _renamed(view: View) -> Actions:
    return plan(
        *changes_for_rejected(view),
        most=REFUSED_AT_ONCE,
        alternatives=(("leave it while it is only a warning", "it goes in a later version"),),
    )


def _integration(view: View) -> Actions:
    changes = []
    if said("lmcache_needs_file")(view):
        changes.append(
            step(
                view,
                "set",
                "--lmcache-config-file",
                "your YAML with mp_host and mp_port",
                "this version starts the connector from a file and a server of its own",
            )
        )
    else:
        changes.append(upgrade("the two versions must match; take the pair that the integration documents"))
    return plan(
        *changes,
        never=(("set", "LMCACHE_CONFIG_FILE", "the variable is not read here"), *NOT_MEMORY),
        alternatives=(("--enable-hierarchical-cache", "the built-in host tier"),),
    )


ENTRIES = (
    Entry(
        "version.flag_renamed",
        "The flag has another name in this version.",
        for_=(
            Clue(5, said("deprecated_flag"), "the server says that the flag is deprecated"),
            Clue(
                3,
                both(REJECTED, symptom("after_upgrade"), lacks(known_foreign), lacks(underscored)),
                "a flag that worked is refused after an upgrade",
            ),
            Clue(6, known_rename, "SGLang itself renamed it"),
            Clue(1.5, symptom("what_replaces"), "the operator asks what replaces it"),
            Clue(5, fact_is("rejected_flag", "ambiguous"), "the old name is now the beginning of several new ones"),
        ),
        act=_renamed,
    ),
    Entry(
        "version.integration_changed",
        "An external cache or connector is started in another way in this version.",
        for_=(
            Clue(6, said("lmcache_needs_file", "integration_error"), "the integration asks for another setting"),
            Clue(
                2,
                both(either(flag("--enable-lmcache"), symptom("lmcache")), symptom("after_upgrade", "flag_refused")),
                "the connector fails after an upgrade",
            ),
        ),
        act=_integration,
    ),
)
