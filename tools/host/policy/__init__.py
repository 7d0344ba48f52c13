"""The command policy: a strict grammar, a catalogue of reading commands, and the string that is really sent.

Front: `judge`, `Verdict`, `regenerate`, and for paths `lookup_command`, `read_lookup`, `settle`, and `score` for the
evaluation. Nothing here talks to a host, and no other part decides what may run there.
"""

from tools.host.policy.evaluate import score
from tools.host.policy.judge import judge
from tools.host.policy.resolve import lookup_command, read_lookup, settle
from tools.host.policy.send import ENVIRONMENT, regenerate
from tools.host.policy.verdict import Privacy, Verdict

__all__ = [
    "ENVIRONMENT",
    "Privacy",
    "Verdict",
    "judge",
    "lookup_command",
    "read_lookup",
    "regenerate",
    "score",
    "settle",
]
