"""What to do: decision, what is known now, the change, its verification, follow-ups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from agent.views.first import headline
from agent.views.sections.before import findings_told
from agent.views.sections.blocks import HAPPENED, Block, Code, Items, Paragraph, Table, cited, happened, options_matter
from agent.views.tables import against
from agent.views.terminal import rolled_back_when, still_asked
from agent.views.words import (
    VERDICTS,
    amount,
    change_told,
    checked,
    defanged,
    ended,
    in_short,
    sentence,
    visible,
)

Json = dict[str, Any]
_WEIGHED: Final = ("", "Live: ", "The strongest lead: ", "Ruled out: ")
ANSWERED: Final = 2  # sentences of an answer to a later question
_SUM: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)+ = ")


def decision(document: Json) -> Iterator[Block]:
    """What was decided and why, then of the answer what no other section tells, and what was not chosen."""
    answer = document["decided"].get("answer", ())
    leaning = [source for change in document["changes"] for source in change["evidence"]][:3]
    yield cited(_decided(document), leaning)
    told_below = _told_elsewhere(document)
    read = {source for each in findings_told(document) for source in each["citations"]}
    own = [
        each
        for each in answer
        if not each["text"].startswith(told_below) and not (each["references"] and read.issuperset(each["references"]))
    ]
    if own:
        yield Items(tuple(cited(sentence(each["text"]), each["references"]) for each in own))
    compared = {piece for option in document["options"] for piece in against(option)}
    above = [each["what"] for each in document["alternatives"] if compared.issuperset(each["why_not"].split("; "))]
    left = [f"Not chosen, for what the options above say against them: {'; '.join(above)}."] if above else []
    left += [
        ended(f"Not chosen: {each['what']}: {each['why_not']}")
        for each in document["alternatives"]
        if each["what"] not in above
    ]
    if left:
        yield Items(tuple(cited(text, leaning) for text in left))
    later = [
        cited(*_said_later(each)) for each in document["follow_ups"] if any(s["references"] for s in each["answer"])
    ]
    if later:
        yield Items(tuple(later))


def _decided(document: Json) -> str:
    """The decision in one sentence, or that there is none."""
    if not document["decided"]:
        return "No answer was reached in this session."
    kind, changes = document["diagnosis"]["kind"], document["changes"]
    if changes:
        return f"{headline(document)} Therefore: {'; '.join(map(change_told, changes))}."
    if kind == "healthy":
        return "Nothing is changed: nothing is wrong."
    return f"{headline(document)} {'Nothing is changed yet' if kind == 'abstain' else 'No change is proposed'}."


def _told_elsewhere(document: Json) -> tuple[str, ...]:
    """How sentences of an answer begin that another section tells: claims judged, hypotheses with their reasons, what
    will bind next, the change."""
    judged = (f"“{claim['text']}” {VERDICTS[claim['verdict']]}" for claim in document["claims"])
    bound = (f"The next wall: {wall['what']}" for wall in document["walls"])
    weighed = (row["statement"].rstrip(".") for row in document["hypotheses"])
    reasons = (f"{start}{each}" for each in weighed for start in _WEIGHED)
    changed = [f"Change: {change['do']} {change['flag']}" for change in document["changes"]]
    return (*judged, *bound, *reasons, *changed, "Not checked, since nothing of it was seen")


def _said_later(follow_up: Json) -> tuple[str, list[str]]:
    """A question and the first sentences of its answer; commands and sums stand where they are shown whole."""
    spoken = [each for each in follow_up["answer"] if not _SUM.match(each["text"])][:ANSWERED]
    said = " ".join(sentence(each["text"]) for each in spoken).replace("with these commands", "with the commands below")
    named = [reference for each in spoken for reference in each["references"]]
    return f"Asked later, “{in_short(follow_up['question'])}”: {said}", named


def known(document: Json) -> Iterator[Block]:
    """What of the beliefs fell, what will bind next, then the sums."""
    fell = [claim for claim in document["claims"] if claim["verdict"] == "contradicted"]
    if fell:
        yield cited(
            f"What was believed and does not hold, for the reasons above: {'; '.join(each['text'] for each in fell)}.",
            [source for each in fell for source in each["evidence"]],
        )
    if document["walls"]:
        yield Items(
            tuple(cited(ended(f"What will bind next: {each['what']}"), each["evidence"]) for each in document["walls"])
        )
    if not options_matter(document):
        return
    rows = tuple(
        (
            item["name"].replace("_", " "),
            f"{amount(item['value'])} {item['unit']}",
            item.get("grade", ""),
            cited(_worked_out(item), item.get("evidence", ())),
        )
        for item in document["arithmetic"]
    )
    if rows:
        yield Table("Sums", ("sum", "value", "known", "worked out"), rows)


def _worked_out(item: Json) -> str:
    inputs = ", ".join(f"{name} {amount(value)}" for name, value in item["inputs"].items())
    limit = f"; limit {amount(item['limit'])} ({item['limit_from']})" if item.get("limit") is not None else ""
    at = f"; formula from {item['at']}" if item.get("at") else ""
    return f"{item['expression']}, with {inputs}{limit}{at}"


def _changing(words: Sequence[Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Words that go and words that come, before a value the option that stays: `kept --tp`, `removed 8`, `added 4`."""
    for (before, option), (state, word) in pairwise([("", ""), *words]):
        if state != "same":
            if before == "same" and option.startswith("--") and not word.startswith("--"):
                yield "kept", option
            yield state, word


def change(document: Json) -> Iterator[Block]:
    if not document["changes"]:
        yield Paragraph("None.")
        return
    for each in document["changes"]:
        told = (change_told(each), each["why"], checked(each))
        yield cited(" ".join(filter(None, map(sentence, told))), each["evidence"])
    launch = document["launch"]
    rows = tuple(_changing(launch.get("diff", ())))
    if rows:
        yield Table("Words of the launch command that change", ("word", "launch command"), rows)
    commands = "\n".join(line for stage in document["stages"] for line in stage["commands"])
    if launch.get("patch") and launch["patch"].strip() not in commands:
        yield from _as_typed([launch["patch"]], document)
    if launch.get("notes"):
        yield Items(tuple(cited(note) for note in launch["notes"]))
    for number, stage in enumerate(document["stages"], 1):
        yield Paragraph(f"Step {number}: {sentence(stage['title'])}" + (f" {stage['cost']}" if stage["cost"] else ""))
        yield from _as_typed(stage["commands"], document)


def _as_typed(commands: list[str], document: Json) -> Iterator[Block]:
    """Commands to take over; where an address in them was made unlinkable, where they stand as they are typed."""
    text = "\n".join(commands)
    if text:
        yield Code(text)
    if defanged(text) != visible(text):
        whole = f"sglscout show {document['ids']['session']} --document"
        yield Paragraph(f"Brackets keep addresses in it from becoming links; as it is typed it stands in: {whole}")


def verification(document: Json) -> Iterator[Block]:
    if not document["changes"]:
        return
    if document["expected"]:
        rows = tuple((each["what"], each["where"]) for each in document["expected"])
        yield Table("What the next start must print", ("expected", "where"), rows)
    if document["verify"]:
        watched = tuple(
            (each["metric"], f"{each['window_s'] // 60} min", each["better"], each["worse"])
            for each in document["verify"]
        )
        yield Table("What to watch", ("measure", "for", "better", "worse"), watched)
    if document["ids"]["verify"]:
        yield Paragraph(f"After that, compare with the host: {document['ids']['verify']}")
    if document["verified"]:
        yield _looked_again(document["verified"])
    if document["since"]:
        yield Table("What the log shows since, by its own clock", HAPPENED, tuple(map(happened, document["since"])))
    rollback = document["rollback"]
    if rollback.get("commands"):
        yield Paragraph(f"Roll back when one of these is seen: {'; '.join(rolled_back_when(document))}.")
        yield from _as_typed(rollback["commands"], document)


def _looked_again(rows: list[Json]) -> Table:
    columns = ("outcome", "expected", "before", "then", "why")
    return Table(
        "What another look found",
        columns,
        tuple(
            (
                row["outcome"],
                row["what"],
                row["before"] or "not known",
                row["after"] or "not known",
                cited(row["why"], row["evidence"]),
            )
            for row in rows
        ),
    )


def follow_ups(document: Json) -> Iterator[Block]:
    """Actions, each with its check; an owner is named by the team, never here."""
    rows: list[tuple[str | Paragraph, ...]] = [
        (change_told(each), "", document["ids"]["verify"] or "the complaint is gone") for each in document["changes"]
    ]
    undecided = document["diagnosis"]["kind"] == "abstain"
    for text in still_asked(document):
        what, _, look = text.partition("Look: ")
        if look or undecided:  # what was merely not seen is no task once the cause is named
            rows.append((f"Find out: {what.strip()}", "", look or "ask again with what was found"))
    rows += [(cited(f"Settle: {text}"), "", "read both places") for text in document["contradictions"]]
    if rows:
        yield Table("Actions", ("action", "owner", "check"), tuple(rows))
    warned: dict[str, list[str]] = {}
    for each in document["must_not"]:
        warned.setdefault(f"Do not {each['do']} {each['flag']}", []).append(each["why"])
    if warned:
        yield Items(tuple(cited(ended(f"{text}: {'; '.join(dict.fromkeys(why))}")) for text, why in warned.items()))
    about = {task["id"]: task["description"] for task in document["tasks"]}
    researched = [
        (f"go on with the research on {in_short(about[identity]) or identity}", command)
        for identity, command in zip(document["ids"]["tasks"], document["ids"]["resume_task"], strict=True)
    ]
    yield Table(
        "How to go on",
        ("to", "run"),
        (
            ("ask more", document["ids"]["ask"]),
            *researched,
        ),
    )
