"""What happened: summary, impact, timeline, background, and how the question was put."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from agent.views.first import risk
from agent.views.sections.blocks import (
    HAPPENED,
    Block,
    Items,
    Paragraph,
    Picture,
    Table,
    cited,
    happened,
    moment,
    refs,
)
from agent.views.terminal import still_asked
from agent.views.weighed import facts_weighed
from agent.views.words import IMPACT, REFERENCE, amount, change_told, ended, in_short, listed, plural, sentence

Json = dict[str, Any]
_SURE: Final = ((0.9, "nearly certain"), (0.7, "likely"), (0.0, "possible"))
TERMS: Final = (
    (
        r"KV|token usage|\bpool\b",
        (
            "A running request keeps keys and values (KV) for each of its tokens in a pool on the GPU; "
            "token usage is the share of that pool in use."
        ),
    ),
    (
        r"running limit|running.requests",
        (
            "The server runs at most a set number of requests at once (its running limit); the others wait in a "
            "queue, however much room the pool has."
        ),
    ),
    (
        r"[Ss]peculative|EAGLE",
        (
            "With speculative decoding a small draft model proposes tokens and the large model checks them; the "
            "draft has weights and a pool of its own on the GPU."
        ),
    ),
    (
        r"[Rr]etract|thrown back",
        "When the pool is full the server retracts a running request: its tokens are thrown away and computed again.",
    ),
    (
        r"HiCache|hierarchical",
        (
            "HiCache copies prefixes of earlier requests to host RAM, so that they need not be computed again; a "
            "running request needs all its tokens on the GPU all the same."
        ),
    ),
    (r"DP attention|dp-size", "DP attention gives each group of GPUs its own pool and its own share of the requests."),
    (r"[Oo]ut of memory|OOM", "Out of memory means that a single allocation found too little free on one GPU."),
    (r"graph", "Decode steps are replayed from captured CUDA graphs, which hold GPU memory for good."),
)
TERMS_TOLD: Final = 4
FINDINGS_TOLD: Final = 5


def summary(document: Json) -> Iterator[Block]:
    """Three sentences: what was reported, what it is, what to do."""
    target, diagnosis = document["target"], document["diagnosis"]
    gpus = [f"{gpu['count']} x {gpu['name']}" for gpu in target["gpus"]]
    server = [f"SGLang {target['version'] or 'of unknown version'}", target["model"] or "model unknown", *gpus]
    sources = [target["version_from"], *(gpu["from"] for gpu in target["gpus"])]
    place = f"On {target['host']}" if target["kind"] != "bundle" else f"With {target['host']}"
    yield Paragraph(
        ended(f"{place} ({', '.join(server)}) the operator reported: “{document['complaint'].strip()}”"),
        refs(source for source in sources if REFERENCE.fullmatch(source)).references,
    )
    if document["damage"]:
        yield Paragraph(
            f"The transcript is damaged: {'; '.join(document['damage'])}. What rested on it is missing here."
        )
    if document["state"] == "stopped":
        yield Paragraph("The diagnosis was stopped before its end; what follows is what had been found by then.")
    yield _verdict(document)
    yield _recommendation(document)
    status = {"cause": "cause named", "healthy": "nothing wrong found", "abstain": "undecided"}[diagnosis["kind"]]
    yield Paragraph(
        f"Status: {status}{f'; {_applied(document)}' if document['changes'] else ''}. Session {document['id']}, opened "
        f"{moment(document['at'])} UTC, decided by {document['model']}{_after_what(document['decided'], document)}."
    )


def _after_what(decided: Json, document: Json) -> str:
    """Which of several decisions this is, by what was said before it."""
    if not decided or decided["question"] == document["complaint"]:
        return ""
    return f"; as it stood with decision {decided['id']}, after “{in_short(decided['question'])}”"


def _applied(document: Json) -> str:
    rows = document["verified"]
    if not rows:
        return "nothing in this record says that a change was applied"
    if all(row["outcome"] == "not yet visible" for row in rows):
        return "another look could not yet tell whether the expectations are met: " + "; ".join(
            dict.fromkeys(row["why"] for row in rows)
        )
    met = sum(row["outcome"] == "met" for row in rows)
    return f"another look found {met} of {plural(len(rows), 'expectation')} met"


def _verdict(document: Json) -> Paragraph:
    diagnosis = document["diagnosis"]
    checked = [item["id"] for item in document["evidence"] if not item["problem"]]
    if diagnosis["kind"] == "cause" and document["hypotheses"]:
        first = document["hypotheses"][0]
        sure = next(word for least, word in _SURE if diagnosis["certainty"] >= least)
        return cited(
            f"The cause is {sure} (certainty {diagnosis['certainty']:.2f}, {diagnosis['label']}): "
            f"{sentence(first['statement'])}",
            first["for"],
        )
    if diagnosis["kind"] == "healthy":
        return cited(f"Nothing wrong was found: {'; '.join(diagnosis['checked']) or 'see the evidence'}.", checked[:6])
    live = [row["label"] for row in document["hypotheses"] if row["status"] != "refuted"]
    why = diagnosis.get("why") or "what was seen fits more than one explanation"
    return cited(
        f"The cause is not decided: {why}" + (f"; still possible: {listed(live[:4])}." if live else "."),
        [source for row in document["hypotheses"] for source in row["for"]] or checked[:6],
    )


def _recommendation(document: Json) -> Paragraph:
    if not document["changes"]:
        settle = still_asked(document)[:1]
        refused = [f"{each['what']} was proposed and refused: {each['reason']}" for each in document["refused"][:1]]
        look = settle[0].replace(" Look: ", " Look at ") if settle else ""
        open_ = f" before this is known: {look}" if look and not refused else ""
        return Paragraph(sentence("; ".join([f"No change is recommended{open_}", *refused])))
    said = "; ".join(change_told(change) for change in document["changes"])
    restarts = [stage for stage in document["stages"] if stage.get("restart")]
    without = "no restart" if document["stages"] else "a restart, once what is the operator's is filled in"
    takes = f"it takes {plural(len(restarts), 'restart') if restarts else without}"
    outage = next((_within(stage["cost"]) for stage in restarts if stage["cost"]), "")
    told = [said, f"{takes}: {outage}" if outage else takes]
    against = "; ".join(filter(None, risk(document)))
    told += [f"its risk: {against}"] if against else []
    told += [] if all(change["confirmed"] for change in document["changes"]) else ["not confirmed on a live host"]
    sources = [source for change in document["changes"] for source in change["evidence"]]
    return cited(f"Recommended: {'; '.join(told)}.", sources)


def _within(cost: str) -> str:
    """The first sentence of what a restart costs, as a part of another sentence: the outage."""
    first = cost.partition(". ")[0].rstrip(".")
    return first[:1].lower() + first[1:]


def impact(document: Json) -> Iterator[Block]:
    last = {fact["name"]: fact for fact in facts_weighed(document) if not fact.get("scope")}
    rows = [
        (meaning, f"{_plainly(fact['value'])} {_unit(fact['unit'])}".strip(), fact["grade"], refs([fact["from"]]))
        for name, meaning in IMPACT.items()
        if (fact := last.get(name)) is not None
    ]
    if rows:
        yield Table("Impact in figures", ("what", "value", "known", "from"), tuple(rows))
        yield Paragraph("Which users or requests felt it does not stand in what was looked at.")
    else:
        yield Paragraph("No figure of the load was seen, so which users felt it, and how far, is not known.")


def _plainly(value: object) -> str:
    return value.replace("_", " ") if isinstance(value, str) else amount(value)


def _unit(unit: str) -> str:
    return "" if unit == "fraction" else unit


def timeline(document: Json) -> Iterator[Block]:
    for clock, label in (("log", "By the clock of the host's log"), ("session", "By the session's clock, UTC")):
        rows = tuple(happened(_briefly(event)) for event in document["timeline"] if event["clock"] == clock)
        if rows:
            yield Table(label, HAPPENED, rows)
    if len({event["clock"] for event in document["timeline"]}) > 1:
        yield Paragraph("The two clocks were not compared; times of the log are as printed there.")


def _briefly(event: Json) -> Json:
    """An event; of what the operator said as much as tells which question it was."""
    said = event["clock"] == "session" and event["text"].startswith(("operator: ", "complaint: "))
    return event | {"text": in_short(event["text"])} if said else event


def background(document: Json) -> Iterator[Block]:
    """A short paragraph of terms that this case uses, then what the deployed source says of the flags at hand."""
    live = [row for row in document["hypotheses"] if row["status"] != "refuted"]
    told = live[:2] if document["diagnosis"]["kind"] != "healthy" else []
    spoken = [document["complaint"], *(row["statement"] for row in told)]
    spoken += [sentence["text"] for sentence in document["decided"].get("answer", ())]
    text = " ".join(spoken)
    terms = [meaning for pattern, meaning in TERMS if re.search(pattern, text)][:TERMS_TOLD]
    if terms:
        yield Paragraph(" ".join(terms))
    near = findings_told(document)
    if near:
        version = document["target"]["version"]
        yield Paragraph(f"The source of SGLang {version}, which is what runs here, says:")
        yield Items(tuple(cited(f"{each['subject']}: {sentence(each['text'])}", each["citations"]) for each in near))
    if document["memory"]:
        yield Picture("memory")


def findings_told(document: Json) -> list[Json]:
    """The few findings of the source that one must know: of the flags at hand, those that change first."""
    changed = {change["flag"] for change in document["changes"]}
    if not changed and document["diagnosis"]["kind"] == "healthy":
        return []
    flags = changed | {each["flag"] for each in document["must_not"]}
    findings = [each for each in document["findings"] if each["citations"]]
    near = [each for each in findings if each["subject"] in flags] or findings
    return sorted(near, key=lambda each: each["subject"] not in changed)[:FINDINGS_TOLD]


_VERDICT: Final = {"supported": "holds", "contradicted": "does not hold", "untestable": "could not be tested"}


def framing(document: Json) -> Iterator[Block]:
    """The question as it was put, with the later ones that were answered; what was believed; what it comes down to."""
    yield Paragraph(ended(f"Asked: “{document['complaint'].strip()}”"))
    later = [each["question"] for each in document["follow_ups"] if _answered(each)]
    if later:
        yield Paragraph(ended(f"Asked later: {'; '.join(f'“{in_short(question)}”' for question in later)}"))
    if document["claims"]:
        rows = tuple(
            (claim["text"], _VERDICT[claim["verdict"]], claim["why"], refs(claim["evidence"]))
            for claim in document["claims"]
        )
        yield Table("What was believed, and what the evidence says", ("believed", "verdict", "why", "evidence"), rows)
    live = [row for row in document["hypotheses"] if row["reasons_for"]][:3]
    if live and document["diagnosis"]["kind"] != "healthy":
        what = "this explains it" if len(live) == 1 else "one of these explains it, and which"
        yield Paragraph(f"The question behind it is whether {what}:")
        yield Items(tuple(cited(sentence(row["statement"]), row["for"]) for row in live))


def _answered(follow_up: Json) -> bool:
    """Whether anything in the case answered it."""
    return any(spoken["references"] for spoken in follow_up["answer"])
