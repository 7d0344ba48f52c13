"""What an operator typed, made plain: lower case, short forms written out, slips of the keyboard mended,
German put into English."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import Final

from agent.models.playbook.german import in_english

SHORT: Final = {
    "whats": "what is", "what's": "what is", "hows": "how is", "how's": "how is", "wheres": "where is",
    "where's": "where is", "whens": "when is", "when's": "when is", "cant": "can't", "dont": "don't", "wont": "won't",
    "doesnt": "doesn't", "isnt": "isn't", "reqs": "requests", "req": "request", "cmd": "command", "cmds": "commands",
    "param": "parameter", "params": "parameters", "cfg": "config", "conf": "config", "mem": "memory", "tok": "token",
    "toks": "tokens", "pls": "", "plz": "", "please": "", "u": "you", "r": "are", "ur": "your", "srv": "server",
    "kvcache": "kv cache", "vs": "against", "wrt": "about", "btw": "", "ok": "okay", "prio": "priority",
    "waht": "what", "wat": "what", "wht": "what", "hwo": "how", "teh": "the", "ooms": "oom", "oomed": "oom",
    "wil": "will",
    "shoud": "should", "shuld": "should", "woud": "would", "coud": "could", "ppl": "users",
    "people": "users",
    "customers": "users", "hrs": "hours", "min": "minutes", "mins": "minutes", "secs": "seconds", "gonna": "going to",
    "gotta": "have to", "wanna": "want to", "i'm": "i am", "thx": "", "hey": "",
}  # fmt: skip
# Words that intents listen for; a word that is one slip away from one of them is taken for it.
KNOWN: Final = (
    "restart", "restarting", "reboot", "rollback", "undo", "revert", "request", "requests", "running", "change",
    "parameter", "command", "version", "memory", "latency", "slower", "throughput", "queue", "hicache", "ratio",
    "option", "options", "alternative", "verify", "parallel", "concurrency", "research", "researcher", "evidence",
    "downtime", "outage", "lose", "losing", "dropped", "permanent", "reason", "certain", "confidence", "retraction",
    "speculation", "speculative", "quantization", "fraction", "prefix", "context", "hierarchical", "bottleneck",
    "recommend", "summary", "cause", "problem", "sglang", "source", "citation", "affected", "upgrade", "instead",
    "morning", "tomorrow", "runtime", "faster", "anything", "something", "broken", "quality", "prompts", "waiting",
    "users", "needed", "necessary", "graphs",
    "token", "tokens", "usage", "healthy", "service", "traffic", "measure", "safe", "apply", "flag", "flags", "limit",
    "slots", "prefill", "conservativeness", "concurrent", "schedule", "chunk", "chunked", "scheduler", "stays",
    "offload", "ktransformers", "eagle", "draft", "drain", "session", "sessions", "network", "happens",
)  # fmt: skip
SHORTEST_MENDED: Final = 5
ALIKE: Final = 0.83
_WORD: Final = re.compile(r"(?<![-\w./])[a-z][a-z']*(?![-\w./]*[\d_/-])")


def plain(question: str) -> str:
    """The question as intents read it; flags, paths, ids and figures stay as they are."""
    text = in_english(" ".join(question.lower().replace("’", "'").split()))
    words = [word if word.startswith(("-", "/")) else _WORD.sub(_mended, word) for word in text.split()]
    return " ".join(" ".join(words).split())


def _mended(found: re.Match[str]) -> str:
    word = found[0]
    if word in SHORT:
        return SHORT[word]
    if len(word) < SHORTEST_MENDED or word in KNOWN or word in _ENGLISH:
        return word
    swapped = (each for each in KNOWN if sorted(each) == sorted(word) and each[0] == word[0])
    return next(swapped, "") or next(iter(get_close_matches(word, KNOWN, 1, ALIKE)), word)


# Words that are no slip although they look like one.
_ENGLISH: Final = frozenset({
    "resource", "sources", "turning", "changed", "changes", "ration", "caused", "causes", "because", "lower", "start",
    "starts", "started", "content", "cache", "caches", "cached", "course", "safer", "stage", "limits", "season",
    "charge", "drained", "drafts", "optional", "prompt", "worker", "needs", "fast", "master", "graph", "broke",
    "broker",
    "uses", "user", "waiting", "prompted", "warning", "morning",
})  # fmt: skip
