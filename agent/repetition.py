"""The guard against a model that goes round in circles: one call made over and over, with one result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tools.toolbox import ToolRefused
from transcripts.errors import LimitReached
from transcripts.parts import Call
from transcripts.records import Ended, Record, Started

WARNED, REFUSED, ENDED = 3, 5, 10
NO_CALLS = 3  # messages in a row
ELSE = "Do something else, or answer with what there is."


class Repetition:
    """Equal calls since the operator last said something, in the order in which they were begun.

    One that was interrupted brought nothing, so it does not count: the model was told to make it again.
    """

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._made: Counter[tuple[str, str]] = Counter()
        self._brought: dict[tuple[str, str], str] = {}
        self._in_vain = 0
        begun: dict[str, tuple[str, str]] = {}
        for record in records:
            if record.type == "said":
                self._made.clear()
            elif isinstance(record, Started):
                begun[record.call] = record.name, record.arguments
                self._made[begun[record.call]] += 1
            elif isinstance(record, Ended) and record.status == "interrupted" and record.call in begun:
                self._made[begun[record.call]] -= 1

    def begin(self, call: Call) -> int:
        """Count one more. Raises ToolRefused when it was made too often, LimitReached when even that does not help."""
        self._made[call.name, call.arguments] += 1
        times = self._made[call.name, call.arguments]
        if times > ENDED:
            raise LimitReached(f"the model makes one call over and over: {call.name}.")
        if times > REFUSED:
            raise ToolRefused(f"{call.name} was called with these arguments {REFUSED} times.", ELSE)
        return times

    def told(self, call: Call, times: int, text: str) -> str:
        """The result, with a word to the model when it was there before."""
        known = self._brought.get((call.name, call.arguments))
        self._brought[call.name, call.arguments] = text
        if times < WARNED or known != text:
            return text
        return f"{text}\n(The same call with the same result, {times} times. {ELSE})"

    def answered(self, calls: int, no_calls: int) -> None:
        """After a message of so many calls, so many of them in vain. Raises LimitReached when it goes on like that."""
        self._in_vain = self._in_vain + 1 if calls and calls == no_calls else 0
        if self._in_vain > NO_CALLS:
            raise LimitReached(f"{self._in_vain} times in a row the model's calls could not be carried out.")
