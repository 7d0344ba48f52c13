"""The German words that operators use, put into the English ones that intents listen for."""

from __future__ import annotations

import re
from typing import Final

# Said first: phrases whose words mean something else alone.
_PHRASES: Final = (
    (r"wie\s?viel(?= (?:ram|speicher|host|gpu|platz|swap|gb)\b)", "how much"),
    (r"wie\s?viele?", "how many"), (r"wie (?:hoch|weit) (?:kann|darf|könnte) (?:ich|man) gehen", "how high can i go"),
    (r"wie lange?", "how long"), (r"bis morgen(?: früh)?", "until morning"),
    (r"(?:bist du|sind sie|seid ihr) (?:dir |sich )?sicher", "are you sure"), (r"wie sicher", "how sure"),
    (r"was (?:noch|sonst)|was könnte es sonst sein|sonst noch was", "what else could it be"),
    (r"noch etwas (?:anderes )?kaputt", "something else broken"), (r"im betrieb|zur laufzeit", "at runtime"),
    (r"schief ?geht|schief gehen", "goes wrong"), (r"zurück ?(?:nehmen|setzen|drehen|rollen)", "undo"),
    (r"(?:host|arbeits|haupt)speicher", "host memory"), (r"grafikspeicher|gpu-?speicher", "gpu memory"),
    (r"was (?:heißt|bedeutet|meint) (?:der |die |das )?([\w -]+)", r"what does \1 mean"),
    (r"am wenigsten", "least"), (r"seit wann", "since when"), (r"um wie viel schneller", "how much faster"),
    (r"was (?:ich|wir|man) (?:jetzt |denn |nun )?(?:machen|tun) (?:soll\w*|muss|müssen|kann)", "what should i do"),
    (r"(?:ist|bleibt|wäre) (?:der |das |die )?\w+ (?:dann )?weg", "is it down"),
    (r"sag(?:e|en)? (?:mir|uns)", "tell me"),
    (r"was kostet (?:mich |uns )?(?:das|es|dies)", "what does it cost"), (r"neu ?(?:zu ?)?start(?:en|e|et)", "restart"),
    (r"lohnt (?:sich|es sich) (?:das|dies|es)|lohnt (?:das|es) sich", "is it worth it"),
    (r"passiert mit", "happens with"), (r"bei(?:m)? (?:einem )?neustart", "at restart"),
)  # fmt: skip
_WORDS: Final = {
    "wie": "how", "was": "what", "warum": "why", "wieso": "why", "weshalb": "why", "wann": "when", "wo": "where",
    "wer": "who", "wen": "who", "welche": "which", "welcher": "which", "welches": "which", "welchen": "which",
    "ist": "is", "sind": "are", "war": "was", "kann": "can", "können": "can", "könnte": "could", "soll": "should",
    "sollte": "should", "muss": "must", "müssen": "must", "darf": "may", "wird": "will", "werden": "will",
    "würde": "would", "ich": "i", "wir": "we", "du": "you", "man": "we", "es": "it", "das": "this", "dies": "this",
    "der": "the", "die": "the", "den": "the", "dem": "the", "des": "the", "ein": "a", "eine": "a", "einen": "a",
    "und": "and", "oder": "or", "mit": "with", "ohne": "without", "für": "for", "auf": "on", "von": "of", "im": "in",
    "nicht": "not", "kein": "no", "keine": "no", "keinen": "no", "wenn": "if", "jetzt": "now", "später": "later",
    "heute": "today", "nachts": "tonight", "danach": "after that", "zu": "to", "mehr": "more", "noch": "more",
    "passiert": "happens", "laufenden": "running", "laufende": "running",
    "tun": "do", "machen": "do", "mache": "do", "mach": "do", "macht": "does", "gibt": "gives", "brauche": "need",
    "brauchen": "need", "braucht": "need", "nötig": "needed", "notwendig": "needed", "warten": "wait",
    "dauert": "take", "dauern": "take", "lange": "long", "lang": "long", "neustart": "restart", "neustarten": "restart",
    "neu": "re", "starten": "start", "start": "start", "ausfall": "outage", "ausfallzeit": "downtime",
    "offline": "offline", "rückgängig": "undo", "zurück": "back", "ändern": "change", "änderung": "change",
    "geändert": "changed", "sicher": "safe", "gefährlich": "dangerous", "risiko": "risk", "ursache": "cause",
    "grund": "reason", "schuld": "cause", "problem": "problem", "fehler": "problem", "befehl": "command",
    "befehle": "commands", "schalter": "flag", "einstellung": "setting", "anfragen": "requests", "anfrage": "request",
    "nutzer": "users", "benutzer": "users", "verliere": "lose", "verlieren": "lose", "verloren": "lost",
    "langsamer": "slower", "schneller": "faster", "schlechter": "worse", "besser": "better", "geht": "works",
    "funktioniert": "work", "hilft": "help", "prüfen": "verify", "überprüfen": "verify", "beweis": "proof",
    "beweise": "proof", "belege": "proof", "zeig": "show", "zeige": "show", "warteschlange": "queue", "grenze": "limit",
    "limit": "limit", "speicher": "memory", "läuft": "running", "laufen": "run", "version": "version",
    "möglichkeiten": "options", "optionen": "options", "alternativen": "alternatives", "statt": "instead of",
    "anstatt": "instead of", "zusammenfassung": "summary", "kurz": "in short", "kaputt": "broken",
    "betroffen": "affected",
    "log": "log", "zeile": "line", "protokoll": "log", "steht": "says", "kostet": "cost", "kosten": "cost",
    "empfiehlst": "recommend", "weiter": "next", "bringt": "gain", "reicht": "enough",
    "karte": "card", "karten": "cards", "tot": "dead", "defekt": "broken", "gesund": "healthy", "passt": "fits",
    "passen": "fit", "kontextlänge": "context length", "kontextfenster": "context window", "halbiere": "halve",
    "halbieren": "halve", "verdoppeln": "double", "verdoppelt": "doubled", "verdopple": "double",
    "doppelt": "twice", "abbrechen": "abort", "abschießen": "kill", "beenden": "end", "längsten": "longest",
    "einfach": "just", "größer": "larger", "kleiner": "smaller", "senken": "lower", "senke": "lower",
    "erhöhen": "raise", "erhöhe": "raise", "setzen": "set", "setze": "set", "schlimmer": "worse", "dringend": "urgent",
    "leck": "leak", "speicherleck": "memory leak", "chef": "boss", "kunden": "users", "sagen": "tell",
    "verkehr": "traffic", "last": "load", "wecken": "wake", "jemanden": "somebody", "genug": "enough",
    "auslagern": "offload", "gerade": "now", "nichts": "nothing", "wenigstens": "only", "höher": "higher",
    "hoch": "high", "gehen": "go", "hier": "here", "platte": "disk", "voll": "full", "frei": "free",
    "viel": "much", "braucht's": "need", "abgestürzt": "crashed", "bekannt": "known", "bekannter": "known",
    "bedeutet": "mean", "heißt": "mean",
    "fehlt": "missing", "fehlen": "missing", "bleiben": "stay", "bleibt": "stays", "behalten": "keep",
    "gleichzeitigen": "concurrent", "gleichzeitige": "concurrent", "gleichzeitig": "concurrent",
    "abstürzt": "crashes", "abschmiert": "crashes", "wegen": "because", "zufrieden": "okay", "dann": "then",
    "wartet": "waits", "welchem": "which", "wäre": "would be", "besten": "best",
    "eingabe": "prompt", "eingaben": "prompts", "ausgabe": "output", "ausgaben": "outputs", "antworten": "answers",
    "antwort": "answer",
}  # fmt: skip
# Words of a German question that no English one has.
_SURE: Final = frozenset(_WORDS) - {
    "was", "die", "man", "war", "den", "des", "start", "offline", "problem", "limit", "version", "log", "still", "mach",
    "im", "es", "wen", "lang", "grund", "auf", "von", "neu", "mit", "dem", "du", "last",
}  # fmt: skip
_TOKEN: Final = re.compile(r"[a-zäöüß]+")


def in_english(text: str) -> str:
    """A German question word for word; any other text as it is."""
    if not _SURE & set(_TOKEN.findall(text)):
        return text
    for pattern, english in _PHRASES:
        text = re.sub(rf"\b(?:{pattern})\b", english, text)
    return re.sub(
        r"(?<![-/.\w])[a-zäöüß]+(?![-/.\w])", lambda found: _WORDS.get(found[0], found[0]), text + " "
    ).strip()
