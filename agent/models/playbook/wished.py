"""A setting with a value beside it, in whatever words: `raise mem fraction to 0.93?`, `what if I cap at 16 running`.

Every number is given to the option that stands nearest to it and takes such a value. Memory options are summed
together; of any other the value is held against the one in force and the one that is recommended.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from agent.case import Case
from agent.models.playbook.answer import cited
from agent.models.playbook.asked import Answer, Ask
from agent.models.playbook.chosen import in_force
from agent.models.playbook.operating import looks, sources
from agent.views.words import BRACKETED, FLAG, amount, change_told
from tools import capacity
from tools.spoken import HICACHE

Json = dict[str, Any]
FRACTION: Final = "--mem-fraction-static"
SLOTS: Final = "--max-running-requests"
RATIO: Final = "--hicache-ratio"
CONTEXT: Final = "--context-length"
SIZE: Final = "--hicache-size"
DTYPE: Final = "--kv-cache-dtype"
FP8: Final = "fp8_e4m3"
FEWEST: Final = 8  # requests that are counted; a smaller number of them counts something else


@dataclass(frozen=True, slots=True)
class _Option:
    """How people call an option, and the values it can take."""

    flag: str
    called: re.Pattern[str]
    least: float
    most: float
    whole: bool = True
    only_after: bool = False  # a word that says what the number before it counts

    def takes(self, value: float) -> bool:
        return self.least <= value <= self.most and (not self.whole or value.is_integer())


def _options() -> Iterator[_Option]:
    rows = (
        (FRACTION, r"(?:mem(?:ory)?[- _]?)?fraction(?:[- _]static)?|static fraction|mem-fraction", 0.01, 0.999, False),
        (SLOTS, r"max[-_ .]?running(?:[-_ ]requests)?|running requests|slots?", 1, 1e5, True),
        (RATIO, r"hi-?cache[- _]ratio|ratio", 0.1, 64, False),
        (SIZE, r"hi-?cache[- _]size", 1, 1e5, True),
        ("--dp-size", r"dp(?:[- _](?:attention|size))?|data[- ]parallel\w*", 2, 64, True),
        ("--dcp-size", r"dcp(?:[- _]size)?", 2, 64, True),
        ("--chunked-prefill-size", r"chunk\w*(?:[- _]prefill)?(?:[- _]size)?", 16, 1e6, True),
        ("--max-prefill-tokens", r"max[- _]prefill[- _]tokens", 16, 1e7, True),
        ("--max-total-tokens", r"max[- _]total[- _]tokens", 16, 1e9, True),
        (CONTEXT, r"(?:max[- _])?context(?:[- _](?:length|len|window|size|limit))?", 512, 1e8, True),
        ("--schedule-conservativeness", r"(?:schedule[- _])?conservativ\w*", 0.01, 10, False),
        ("--page-size", r"page[- _]?size", 1, 1024, True),
        ("--cuda-graph-max-bs", r"(?:cuda[- _])?graph[- _](?:max[- _])?(?:bs|batch)(?:[- _]size)?", 1, 1e4, True),
        ("--max-queued-requests", r"max[- _]queued?(?:[- _]requests)?|queue (?:limit|cap)", 1, 1e6, True),
        ("--num-continuous-decode-steps", r"(?:num[- _])?continuous[- _]decode[- _]steps", 1, 1e3, True),
        ("--speculative-num-steps", r"(?:speculative[- _])?num[- _]steps|draft steps", 1, 64, True),
    )  # fmt: skip
    for flag, called, least, most, whole in rows:
        yield _Option(flag, re.compile(rf"(?<![\w/])(?:--)?(?:{called})(?!\w)"), least, most, whole)
    counted = r"concurren\w*|(?:in )?parallel\w*|at once|at a time|simultaneous\w*|running|users|streams|sessions"
    counted += r"|requests?(?! wait| queue)"
    yield _Option(SLOTS, re.compile(rf"(?<![\w-])(?:{counted})(?!\w)"), FEWEST, 1e5, only_after=True)


OPTIONS: Final = tuple(_options())
# A number that is no part of a word, a version, a time or a card; `8k` and `64,000` are numbers.
_NUMBER: Final = re.compile(
    r"(?<![\w.:-])(?<!rtx )(?<!pro )(?P<n>\d{1,3}(?:,\d{3})+|\d+(?:[.,]\d+)?|\.\d+)(?P<k>k)?(?P<pc> ?%)?"
    r"(?![\w.:]*\w|:\d)(?! ?(?:am|pm|o'clock|minutes?|seconds?|hours?|days?|times|ranks?|gpus?|cards?)\b)"
)
_NOT_WANTED: Final = re.compile(r"\b(?:no|not|without|instead of) \S+")
_ITS_OWN: Final = re.compile(r"\W*(?:(?:of|to|at|is)\W+)?\d")  # a word with a number behind it has its own
_LENGTH: Final = re.compile(r"\d+k\b|\d ?-?tokens?\b")
_GB: Final = re.compile(r" ?(?:gi?b)\b")
_DTYPE: Final = re.compile(r"\b(?:fp8_?(?:e4m3|e5m2)|fp8|e4m3|e5m2|fp4(?:_e2m1)?|bf16|bfloat16)\b")
_HICACHE: Final = re.compile(r"hi-?cache|hierarchical|\bratio\b")
_SHARES: Final = re.compile(r"usage|load|ratio|conservativ|certain|confiden|version|accept|hit|share|full|sglang")
_WORD: Final = re.compile(r"[ ,]*([a-z'-]+)")
# Words after a number that leave it what it is: any other may be what it counts.
_PLAIN: Final = frozenset({
    "instead", "without", "be", "or", "and", "enough", "too", "safe", "now", "then", "is", "work", "works", "okay",
    "better", "gb", "gib", "help", "fit", "fits", "if", "as", "would", "will", "for", "but", "than", "not", "with",
    "at", "so", "only", "can", "first", "stay", "good", "sure", "still", "more", "fine", "possible", "high", "low",
})  # fmt: skip
_COUNTED_ELSE: Final = re.compile(r"\btp\b|\bpp\b|\bep\b|free -|says|minutes|tokens|\bport\b|errors?|\btask\b")
_TOGETHER: Final = re.compile(r"\b(?:both|together|and|with|plus|at)\b")
_PARTED: Final = re.compile(r"[;.!?] |\d|token|longest")
ALIKE: Final = 10  # times what is recommended, beyond which a number by itself is of something else
BETWEEN: Final = 4  # words that may stand between an option and its value


def settings_named(case: Case, question: str) -> dict[str, list[float]]:
    """Options of a plain question with the numbers that are meant for them, in their order."""
    found: dict[str, list[float]] = {}
    wanted = question.partition("instead of")[0]
    text = wanted if _NUMBER.search(wanted) else question
    for number in _NUMBER.finditer(text):
        value = _value(number)
        option = _nearest(text, number, value)
        flag = option.flag if option is not None else _by_itself(case, text, number, value)
        if flag:
            found.setdefault(flag, []).append(value if value <= 1 or not number["pc"] else value / 100)
    return found


def _by_itself(case: Case, text: str, number: re.Match[str], value: float) -> str:
    """The option that a number with nothing beside it is for: one of the change, the limit, or the static fraction."""
    following = _WORD.match(text, number.end())
    if (following and following[1] not in _PLAIN) or _COUNTED_ELSE.search(text):
        return ""
    in_gb = bool(_GB.match(text, number.end("n")))
    for each in _changes(case):
        option = next((option for option in OPTIONS if option.flag == each["flag"]), None)
        goal = _as_number(each["to"])
        if option is None or goal is None or not option.takes(value) or (in_gb and option.flag != SIZE):
            continue
        if value == goal:
            return ""  # why it is that is another question
        if goal / ALIKE <= value <= ALIKE * goal:
            return option.flag
    if 0.5 <= value < 1 and _SHARES.search(text) is None:
        return FRACTION
    limit = case.facts.number("running_limit")
    against = limit is not None and limit in {_value(other) for other in _NUMBER.finditer(text)}
    return SLOTS if against and value >= FEWEST and value.is_integer() else ""


def _value(number: re.Match[str]) -> float:
    bare = re.sub(r",(?=\d{3}\b)", "", number["n"]).replace(",", ".")
    return float(bare) * (1000 if number["k"] else 1)


def _nearest(text: str, number: re.Match[str], value: float) -> _Option | None:
    """The option that takes such a value and stands nearest; of equals the one before the number."""
    best: tuple[int, _Option] | None = None
    in_gb = bool(_GB.match(text, number.end("n")))
    for option in OPTIONS:
        taken = value / 100 if number["pc"] and option.flag == FRACTION else value
        if not option.takes(taken) or (in_gb and option.flag != SIZE) or (number["k"] and option.flag == SLOTS):
            continue
        for called in option.called.finditer(text):
            between = text[called.end() : number.start()] if called.end() <= number.start() else (
                text[number.end() : called.start()]
            )  # fmt: skip
            words, after = len(between.split()), called.start() >= number.end()
            if words > (1 if after else 0 if option.only_after else BETWEEN) or _PARTED.search(between):
                continue
            if option.only_after and not after:
                continue
            if after and not option.only_after and _ITS_OWN.match(text, called.end()):
                continue
            far = 2 * words + after - (len(called[0]) > 12)
            if best is None or far < best[0]:
                best = far, option
    return best[1] if best else None


_STAYS: Final = re.compile(r"\b(?:stay|keep|remain|too (?:high|low|much|large|small)|enough|okay|leave|fine)\b")


def _as_they_run(case: Case, flags: list[str]) -> str:
    """Values that are in force already, each with what is recommended of it."""
    lines = []
    for flag in flags:
        held, told = in_force(case, flag), [each for each in _changes(case) if each["flag"] == flag]
        lines += [cited(f"{flag} is {held[0]}, as the server runs", [held[1]], case)] if held else []
        lines += [
            cited(f"What is recommended: {change_told(each)}: {each['why']}", each["evidence"], case) for each in told
        ]
        if held and not told and _changes(case):
            lines.append(cited(f"Nothing that is recommended changes {flag}", sources(case), case))
    return "\n".join(lines)


def taken_up(case: Case, text: str, answer: Answer) -> bool:
    """Whether an answer is about the numbers of its question: else it is one to a question with other numbers.

    What the case shows already may stand in a question as what it is about; a small count is no value.
    """
    if isinstance(answer, Ask):
        said = _floats(json.dumps(answer.arguments))
        named = settings_named(case, text).items()
        meant = {value for flag, values in named if (value := _meant(case, flag, values)) is not None}
        shares = {value for number in _NUMBER.finditer(text) if 0 < (value := _value(number)) < 1}
        alone = answer.arguments.get("value") is None
        return answer.tool != "calculate" or (shares <= said and (meant <= said or not alone))
    said = _floats(BRACKETED.sub("", answer)) | _shown(case)
    said |= {float(math.floor(each)) for each in said} | {float(round(each)) for each in said}
    told = (_value(number) for number in _NUMBER.finditer(text))
    return all(value in said for value in told if value >= FEWEST or not value.is_integer())


def _floats(text: str) -> set[float]:
    return {_value(number) for number in re.finditer(r"(?P<n>\d{1,3}(?:,\d{3})+|\d+(?:\.\d+)?)(?P<k>(?!))?", text)}


def _shown(case: Case) -> set[float]:
    """Figures of the load, the pool, the memory and the change, as they are told on the screen."""
    facts = [fact for name in _SHOWN for fact in case.facts.all(name) if isinstance(fact.value, int | float)]
    each = {float(fact.value) for fact in facts if fact.unit != "bytes"}
    for size in (float(fact.value) for fact in facts if fact.unit == "bytes"):
        each |= {round(size / (1 << 30), 1), round(size / (1 << 30)), round(size / capacity.GB)}
    changed = {_as_number(row[side]) for row in _changes(case) for side in ("from", "to")}
    return {round(value, 2) for value in each} | {value for value in changed if value is not None}


_SHOWN: Final = (
    "running_p50", "running_p95", "running_max", "running_limit", "queue_p50", "queue_p95", "queue_max", "usage_p50",
    "usage_p95", "usage_max", "kv_pool", "context_len", "mem_available_bytes", "mem_total_bytes", "gpu_count",
)  # fmt: skip


def valued(case: Case, found: re.Match[str]) -> Answer:
    """What the values that are named would do; empty where none is, or where they are the ones that are in force."""
    text = found.string
    numbers = settings_named(case, text)
    types = {_type(each[0]) for each in _DTYPE.finditer(_NOT_WANTED.sub("", text))}
    dtype = types.pop() if len(types) == 1 else ""
    if dtype and not numbers and _TOGETHER.search(text):
        numbers = {SLOTS: [each for number in _NUMBER.finditer(text) if (each := _value(number)) >= FEWEST]}
    wanted = {flag: meant for flag, values in numbers.items() if (meant := _meant(case, flag, values)) is not None}
    if numbers and not wanted and _STAYS.search(text):
        return _as_they_run(case, list(numbers))
    if wanted.keys() == {CONTEXT} or (not wanted and dtype in ("", FP8)):
        return ""  # a context length sizes no pool
    settings = {flag: f"{value:g}" if value < 1e5 else str(int(value)) for flag, value in wanted.items()}
    settings |= {DTYPE: dtype} if dtype else {}
    if settings.keys() <= {*_SUMMED, SLOTS, RATIO, SIZE} and (len(settings) > 1 or settings.keys() <= _SUMMED):
        return _summed(case, settings) or _held_against(case, text, wanted)
    if settings.keys() == {SLOTS} and _LENGTH.search(text):
        return ""  # how long they are is what counts
    if settings.keys() == {SLOTS}:
        changed = _changed(case)
        return Ask("calculate", {"what": "running_requests", "value": wanted[SLOTS], "settings": changed})
    if settings.keys() == {RATIO} and not isinstance(capacity.host_budget(case.facts, ratio=wanted[RATIO]), tuple):
        return Ask("calculate", {"what": "hicache_ratio", "value": wanted[RATIO]})
    if settings.keys() == {SIZE} and not isinstance(capacity.host_budget(case.facts, size_gb=int(wanted[SIZE])), tuple):
        return Ask("calculate", {"what": "hicache_size", "value": wanted[SIZE]})
    return _held_against(case, text, {flag: value for flag, value in wanted.items() if flag != SLOTS} or wanted)


_SUMMED: Final = frozenset({FRACTION, DTYPE, "--dp-size", "--dcp-size", "--max-total-tokens"})


def _type(word: str) -> str:
    """The name of a KV type as the server takes it."""
    bare = word.replace("fp8", "").strip("_")
    return {"": FP8, "e4m3": FP8, "e5m2": "fp8_e5m2"}.get(bare, word)


def _meant(case: Case, flag: str, values: list[float]) -> float | None:
    """The value that is not in force, and of several the last that is not the recommended one."""
    held, told = in_force(case, flag), {_as_number(each["to"]) for each in _changes(case) if each["flag"] == flag}
    off = flag in (RATIO, SIZE) and (in_force(case, HICACHE) or ("False",))[0].lower() != "true"
    now = {_as_number(held[0])} if held and not off else set[float | None]()
    now |= {case.facts.number("running_limit")} if flag == SLOTS else set()
    other = [value for value in values if value not in now]
    return next((value for value in reversed(other) if value not in told), other[-1] if other else None)


def _summed(case: Case, settings: dict[str, str]) -> Answer:
    """The call that sums them; empty where what it needs was not seen."""
    if RATIO in settings or SIZE in settings:
        settings = {HICACHE: "true", **settings}
    if "--dp-size" in settings:
        settings = {"--enable-dp-attention": "true", **settings}
    if any(isinstance(lever, capacity.Missing) for lever in capacity.levers(case.facts)):
        return ""
    return Ask("calculate", {"what": "settings", "settings": settings})


def _changed(case: Case) -> dict[str, str]:
    """What is recommended beside the limit, as far as memory options go."""
    rows = (each for each in _changes(case) if each["flag"] in capacity.MEMORY_LEVERS and each["flag"] != SLOTS)
    return {each["flag"]: str(each["to"] or "true") for each in rows}


def _held_against(case: Case, text: str, wanted: dict[str, float]) -> str:
    """Values beside those in force and those recommended: which way they go, and what is known of that way."""
    return "\n".join(line for flag, value in wanted.items() for line in _compared(case, text, flag, value) if line)


def _compared(case: Case, text: str, flag: str, value: float) -> Iterator[str]:
    held = in_force(case, flag)
    now = _as_number(held[0]) if held else None
    change = next((each for each in _changes(case) if each["flag"] == flag), None)
    goal = _as_number(change["to"]) if change else None
    if now is None and change is not None:
        now = _as_number(change["from"])
    way = "" if now is None else "raise" if value > now else "lower"
    rules = case.advised.must_not if case.advised else ()
    forbidden = [rule for rule in rules if rule["flag"] == flag and rule["do"] in (way, "set")]
    if (now is None or FLAG.search(text)) and change is None and not forbidden:
        return  # what the version says to the option is all there is
    if now is not None:
        cites = [held[1]] if held else change["evidence"] if change else looks(case)
        done = {"raise": "raises", "lower": "lowers"}[way]
        yield cited(f"{flag} {value:,g} {done} it: it is {amount(now)} as the server runs", cites, case)
    if change is not None and goal is not None and now is not None:
        yield cited(f"{_beside(value, now, goal)}: {change_told(change)}: {change['why']}", change["evidence"], case)
    for rule in forbidden:
        yield cited(f"Do not {rule['do']} it for this: {rule['why']}", sources(case), case)
    version = case.facts.get("version")
    if not forbidden:
        look = (
            f"; `sglscout rules {flag.lstrip('-')} --version {version.value}` tells what the code enforces"
            if version
            else ""
        )
        yield cited(f"How much {value:,g} brings was not summed{look}", looks(case), case)


def _beside(value: float, now: float, goal: float) -> str:
    """Where a value stands to the step that is recommended."""
    if (value - now) * (goal - now) < 0:
        return "That is the other way than what is recommended"
    if abs(value - now) < abs(goal - now):
        return "That goes the way of what is recommended, not as far"
    return "That is what is recommended" if value == goal else "That goes further than what is recommended"


def _as_number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def _changes(case: Case) -> tuple[Json, ...]:
    return case.advised.changes if case.advised else ()
