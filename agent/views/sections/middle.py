"""What was found: evidence, hypotheses, assumptions, what went wrong or stayed open, options."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from agent.views.sections.blocks import Block, Items, Paragraph, Picture, Table, cited, options_matter, refs
from agent.views.tables import against, felt, gpu_memory, told_options
from agent.views.terminal import FAILED, still_asked, unknown
from agent.views.terminal import brought as task_brought
from agent.views.weighed import facts_weighed, looks_weighed
from agent.views.words import amount, change_told, ended, in_short, plural, sentence
from transcripts.vocabulary import VOCABULARY

Json = dict[str, Any]
ROWS: Final = 14
_STATUS: Final = {"supported": "kept", "refuted": "dropped", "open": "still possible"}


def evidence(document: Json) -> Iterator[Block]:
    """What the document leans on, with the picture of the load; everything asked stands in the appendix."""
    brought, lost = looks_weighed(document)
    seen = [item for item in brought if item["host"] != "operator"]  # what was said is evidence, and no look
    facts = facts_weighed(document)
    yield cited(
        f"{plural(len(seen), 'look')} at {document['target']['host']} brought something; looking changes nothing "
        f"there. {plural(len(facts), 'value')} {'was' if len(facts) == 1 else 'were'} read from it.",
        [item["id"] for item in (*seen[:1], *seen[-1:])],
    )
    leaned = dict.fromkeys(reference.partition(":")[0] for reference in document["quoted"])
    counted: dict[str, int] = {}
    for fact in facts:
        name = fact["from"].partition(":")[0]
        counted[name] = counted.get(name, 0) + 1
    rows = tuple(
        (refs([item["id"]]), item["probe"], plural(item["lines"], "line"), plural(counted.get(item["id"], 0), "value"))
        for item in brought
        if item["id"] in leaned
    )
    if rows:
        yield Table("Evidence that this rests on", ("id", "look", "brought", "read from it"), rows)
    for item in lost:
        yield cited(f"{item['probe']} brought nothing: {item['problem']}.", [item["id"]])
    yield Picture("load")


def hypotheses(document: Json) -> Iterator[Block]:
    rows = [
        (
            f"{row['id']} {row['label']}: {sentence(row['statement'])}",
            f"{_STATUS[row['status']]} ({row['weight']:+.1f})",
            _reasons(row),
        )
        for row in document["hypotheses"]
    ]
    if rows:
        yield Table("Hypotheses", ("explanation", "kept or dropped", "why"), tuple(rows))


def _reasons(row: Json) -> Paragraph:
    said = [f"For: {'; '.join(each['text'] for each in row['reasons_for'])}."] if row["reasons_for"] else []
    against = "; ".join(each["text"] for each in row["reasons_against"])
    said += [f"Against: {against}."] if against else []
    if row["status"] == "open" and row["would_settle"]:
        said.append(f"Would settle it: {sentence(row['would_settle'])}")
    return cited(" ".join(said), [*row["for"], *row["against"]])


def assumptions(document: Json) -> Iterator[Block]:
    """What was taken for granted: values claimed or estimated, sums that rest on such, changes not confirmed."""
    facts = facts_weighed(document)
    observed = {fact["name"]: fact for fact in facts if fact["grade"] in ("observed", "derived")}
    rows: list[tuple[str | Paragraph, ...]] = []
    for fact in facts:
        if fact["grade"] not in ("estimated", "claimed") or fact["name"] == "symptom":  # that is the complaint itself
            continue
        known = observed.get(fact["name"])
        verified = "no"
        if known is not None:
            verified = "yes" if known["value"] == fact["value"] else f"no: {amount(known['value'])} was observed"
        meaning = VOCABULARY.get(fact["name"], ("", fact["name"]))[1].partition(";")[0]
        sources = [fact["from"], known["from"] if known else ""]
        rows.append((meaning, f"{amount(fact['value'])} {fact['unit']} ({fact['grade']})", verified, refs(sources)))
    for item in document["arithmetic"] if options_matter(document) else ():
        if item.get("grade") == "estimated":
            span = f", between {amount(item['range'][0])} and {amount(item['range'][1])}" if item.get("range") else ""
            unit = "" if item["unit"] == "fraction" else f" {item['unit']}"
            value = f"{amount(item['value'])}{unit}{span} (estimated)"
            rows.append((item["name"].replace("_", " "), value, "no: measure it", refs(item.get("evidence", ()))))
    if rows:
        columns = ("taken for granted", "value", "verified", "from")
        yield Table("Assumptions", columns, tuple(rows[:ROWS]))
    if len(rows) > ROWS:
        yield Paragraph(f"And {len(rows) - ROWS} more of the kind.")
    for change in document["changes"]:
        if not change["confirmed"]:
            yield cited(f"Not confirmed on a live host: {change_told(change)}.", change["evidence"])
    if not rows:
        yield Paragraph("Every value that the answer rests on was observed, or derived from what was observed.")


def left_open(document: Json) -> Iterator[Block]:
    items = [cited(f"Not known: {ended(text.replace(' Look: ', ' Look at '))}") for text in still_asked(document)]
    items += [cited(f"Not checked: {ended(text)}") for text in unknown(document)]
    items += [
        cited(ended(f"Asked, and not answered by this case: “{in_short(text)}”")) for text in _unanswered(document)
    ]
    items += [
        cited(f"Said without support, so do not rely on it: {spoken['text']}")
        for spoken in document["decided"].get("answer", ())
        if not spoken["supported"]
    ]
    items += [cited(f"Proposed and refused: {each['what']}: {each['reason']}") for each in document["refused"]]
    items += [cited(f"Findings disagree: {text}") for text in document["contradictions"]]
    ended_so: dict[tuple[str, str], list[str]] = {}
    for task in document["tasks"]:
        if task["status"] in FAILED:
            ended_so.setdefault((task["status"], task_brought(task)), []).append(
                f"{task['description']} ({task['id']})"
            )
    items += [
        cited(ended(f"Research ended as {status}: {'; '.join(about)}: {what}"))
        for (status, what), about in ended_so.items()
    ]
    items += [
        cited(f"A citation is not in the source: {each['path']}:{each['line']}", [each["id"]])
        for each in document["citations"]
        if not each["checked"]
    ]
    said = [event["text"] for event in document["timeline"] if event["text"].startswith("weighed: ")]
    if len(set(said)) > 1:
        changed = [text.removeprefix("weighed: ") for text in dict.fromkeys(said)]
        items.append(cited(f"The verdict changed as more was seen: {', then '.join(changed)}"))
    if items:
        yield Items(tuple(items))
    else:
        yield Paragraph("Nothing that was proposed was refused, and nothing that was asked stayed open.")


def _unanswered(document: Json) -> list[str]:
    """Later questions to which nothing in the case was an answer; what was told is no question."""
    decisions = [document["decided"], *document["follow_ups"]]
    told = {each["text"] for each in document["told"]}
    answered = {each["question"] for each in decisions if any(one["references"] for one in each.get("answer", ()))}
    return list(dict.fromkeys(each["text"] for each in document["questions"] if each["text"] not in answered | told))


def options(document: Json) -> Iterator[Block]:
    if not options_matter(document):
        return
    measured = [option for option in document["options"] if option.get("running_factor") is not None]
    single = [option for option in measured if not option.get("combined")]
    combined = sorted(
        (option for option in measured if option.get("combined") and option.get("fits")),
        key=lambda option: (-option["running_factor"], option["name"]),
    )
    shown = [*single, *combined[:3]]
    told_of_parts = {piece for option in single for piece in against(option)}
    rows = tuple(
        (
            option["name"],
            f"{option['running_factor']:.2f}x",
            amount(option["running"]) if option.get("running") else "unchanged",
            amount(option["prefix_tokens"]) if option.get("prefix_tokens") else "",
            gpu_memory(option),
            amount(option["host_gb"]) if option.get("host_gb") else "none",
            "does not fit" if option.get("fits") is False else "restart" if option.get("restart") else "nothing",
            felt(option, "first_token"),
            felt(option, "decode"),
            option.get("grade", ""),
            cited("; ".join(_risks(option, told_of_parts)), option.get("evidence", ())),
        )
        for option in shown
    )
    if rows:
        yield Table(
            "Options side by side",
            (
                "option",
                "GPU pool",
                "running",
                "prefix tokens",
                "GiB of a GPU",
                "host GB",
                "takes",
                "first token",
                "each token",
                "its sums",
                "risk or limit",
            ),
            rows,
        )
    if len(measured) > len(shown):
        yield Paragraph(f"{plural(len(measured) - len(shown), 'more combination')} stand in the JSON document.")
    decisive = dict.fromkeys(
        f"{option['name'].partition(',')[0]}: {option['would_change']}"
        for option in single
        if option.get("would_change")
    )
    if decisive:
        yield Paragraph("What would rank them otherwise:")
        yield Items(tuple(cited(sentence(line)) for line in decisive))
    ages: dict[str, list[str]] = {}
    for option in [*single, *(each for each in document["options"] if each.get("does"))]:
        if option.get("maturity"):
            ages.setdefault(option["maturity"], []).append(option["name"])
    if ages:
        yield Paragraph("How long the releases have had them, by the lists of options that sglscout knows:")
        yield Items(tuple(cited(sentence(f"{'; '.join(names)}: {age}")) for age, names in ages.items()))
    yield Picture("host")
    told = {option["name"]: option.get("evidence", ()) for option in document["options"]}
    lines = told_options(document["options"])
    if lines:
        yield Paragraph("What the source knows beside these that uses host RAM or moves weights:")
        yield Items(tuple(cited(sentence(line), _owned(told, line)) for line in lines))


def _risks(option: Json, told_of_parts: Collection[str]) -> list[str]:
    """What speaks against an option, piece by piece; of a combination what is not told of one of its parts."""
    pieces = against(option)
    own = [piece for piece in pieces if not option.get("combined") or piece not in told_of_parts]
    return own if len(own) == len(pieces) else [*own, "what its parts have"]


def _owned(told: dict[str, Any], line: str) -> list[str]:
    """Citations of the options that a line is about."""
    name = line.partition(": ")[0]
    names = [name] if name in told else [each for each in told if f"{each}," in f"{line},"]
    return [source for each in names for source in told[each]]
