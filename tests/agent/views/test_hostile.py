"""A transcript full of text that wants to be more than text: it is shown as text, in every view."""

from __future__ import annotations

import io
import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from agent.case import Case
from agent.document import document
from agent.views import terminal, transcript
from agent.views.console import PlainConsole
from agent.views.html import html
from agent.views.html import transcript as transcript_page
from agent.views.markdown import markdown
from agent.views.sections.blocks import Code, Quotes, quoted
from agent.views.words import defanged
from agent.views.writeup import sections
from transcripts.facts import Evidence, Fact
from transcripts.parts import Call, Citation, ClaimRow, Finding, HypothesisRow, ReasonRow
from transcripts.records import (
    Advised,
    Claimed,
    Compared,
    Concluded,
    Ended,
    EvidenceTaken,
    Opened,
    Record,
    Replied,
    Reported,
    Said,
    TaskChanged,
    Weighed,
)

Json = dict[str, Any]
HOSTILE = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "</pre></details></main><iframe src=//evil.example>",
    "![x](https://evil.example/p.png)",
    "[click](javascript:alert(1))",
    "<https://evil.example>",
    "https://evil.example/?q=1 www.evil.example mailto:a@evil.example @everyone",
    "[x]: https://evil.example",
    "# heading\n## another\n- item\n1. one\n> quote\n```\nfence\n```\n---\n===",
    "| a | b |\n| --- | --- |",
    "$x^2$ **bold** __bold__ ~~gone~~ `code`",
    "&lt;b&gt; &amp; &#x3c;",
    "\x1b[2J\x1b]0;title\x07\x1b[31mred\x1b[0m \x9b31m \x08\x08\x7f\r",
    "\u202egnp.exe\u202c \u2066\u2067\u2069 \u200bzero \ufeff \u00ad \u2028line",
    "\U000e0041\U000e0042",
    "[bold red]rich[/] {{ template }} ${VAR} %n",
    "]]></title><style>*{display:none}</style>",
)
ALL = " ".join(HOSTILE)
CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
# What viewers turn into a link by themselves, in prose and in code.
ADDRESS = re.compile(r"://|\bwww\.\w|mailto:|javascript:|\w@\w", re.IGNORECASE)
TAGS = frozenset(
    {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "h3", "p", "a", "ul", "ol", "li", "div"}
    | {"table", "caption", "thead", "tbody", "tr", "th", "td", "pre", "span", "strong", "figure", "figcaption", "svg"}
    | {"rect", "text", "line", "path", "details", "summary", "code"}
)


def _change(text: str) -> Json:
    return {
        "kind": "flag",
        "do": "set",
        "flag": text,
        "from": text,
        "to": text,
        "unit": text,
        "why": text,
        "valid": {"in": text, "at": text, "rules": text},
        "evidence": ["E1:1", text],
        "confirmed": False,
    }


def hostile(text: str = ALL) -> list[Record]:
    """A session in which every field that anybody else wrote holds that text."""
    evidence = Evidence("E1", text, text, text, "2026-01-01T00:00:00Z", 0, f"{text}\n{text}", problem="")
    citation = Citation(id="S1", path=text, line=1, quote=text, version=text, checked=True)
    finding = Finding(question="offload.x", subject=text, kind="does", text=text, citations=(citation,))
    reason = ReasonRow(text=text, source=("E1:1", text), weight=1)
    option = {
        "name": text,
        "running_factor": 1.0,
        "running": 1,
        "prefix_tokens": 1,
        "host_gb": 2.0,
        "risk": text,
        "why_not": text,
        "fits": False,
        "restart": True,
        "evidence": ["E1:1", text],
    }
    told = {"name": text, "running_factor": None, "does": text, "risk": text, "restart": True, "evidence": ["S1"]}
    total = {
        "name": "host_total",
        "expression": text,
        "inputs": {text: 1},
        "value": 1,
        "unit": text,
        "grade": text,
        "evidence": ["E1:1"],
        "limit": 3.0,
        "limit_from": text,
        "range": [1, 2],
        "at": text,
    }
    step = {"name": text, "gib": 4.0, "left_gib": 1.0, "grade": text, "source": "E1:1", "why_not_spare": text}
    return [
        Opened(id="ses_01TESTTESTTEST00", role="session", text=text, target={"host": text}, model=text),
        Replied(text=text, calls=(Call(id="c1", name=text, arguments=text),), model=text),
        EvidenceTaken.of(
            evidence,
            [
                Fact("served_model", text, text, "observed", "E1:1"),
                Fact("gpu_name", text, "", "claimed", "operator", "gpu0"),
                Fact("error_line", text, "", "observed", "E1:2", "x", text),
            ],
        ),
        Ended(call="c1", status="ok", text=text),
        Weighed(
            kind="cause",
            label=text,
            certainty=0.5,
            missing=(text,),
            not_checked=(text,),
            checked=(text,),
            hypotheses=(
                HypothesisRow(
                    id="H1",
                    label=text,
                    statement=text,
                    status="open",
                    weight=1,
                    supporting=(reason,),
                    against=(reason,),
                    would_settle=text,
                ),
            ),
        ),
        Claimed(claims=(ClaimRow(id="C1", text=text, verdict="contradicted", evidence=("E1:1",), why=text),)),
        TaskChanged(id="ses_01TESTTESTTEST01", description=text, status="failed"),
        Reported(task="ses_01TESTTESTTEST01", findings=(finding,), text=text),
        Compared(options=(option, told), arithmetic=(total,), memory=(step, {**step, "name": "free"})),
        Advised(
            changes=(_change(text),),
            refused=({"what": text, "reason": text},),
            arithmetic=(total,),
            launch={"patch": text, "diff": [["added", text]]},
            expected=({"what": text, "where": text},),
            verify=({"metric": text, "window_s": 60, "better": text, "worse": text},),
            rollback={"commands": [text], "when": [text]},
            alternatives=({"what": text, "why_not": text},),
            must_not=({"do": text, "flag": text, "why": text},),
            stages=({"title": text, "cost": text, "commands": [text], "restart": True},),
            walls=({"what": text, "evidence": ["E1:1"]},),
        ),
        Said(text=text),
        Concluded(text=f"{text} [E1:1]", exit=0, reason=text),
    ]


class _Seen(HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(params=[ALL, *HOSTILE], ids=lambda text: repr(text[:12]))
def records(request: pytest.FixtureRequest) -> list[Record]:
    return hostile(request.param)


def test_pages_hold_only_their_own_elements_and_lead_nowhere_else(records: list[Record]) -> None:
    made = document(Case.fold(records))
    for page in (html(made), transcript_page("hostile", transcript.entries(records))):
        for tag, attributes in _Seen(page).found:
            assert tag in TAGS
            assert not [name for name in attributes if name.startswith("on") or name in ("style", "src", "srcset")]
            if "href" in attributes:
                assert re.fullmatch(r"#[a-z0-9-]+", attributes["href"] or "")
        assert not CONTROL.search(page.replace("\n", ""))
        assert not ADDRESS.search(unescape(page.partition("</style>")[2]))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("see https://evil.example/a?b=1", "see https[:]//evil.example/a?b=1"),
        ("HTTP://EVIL.EXAMPLE ftp://x", "HTTP[:]//EVIL.EXAMPLE ftp[:]//x"),
        ("mail alice@corp.example", "mail alice[@]corp.example"),
        ("WWW.evil.example", "WWW[.]evil.example"),
        ("javascript:alert(1) data:text/html,x", "javascript[:]alert(1) data[:]text/html,x"),
        ("systemctl restart sglang@0.service", "systemctl restart sglang@0.service"),
        ("data: 3 file: x", "data: 3 file: x"),
        ("--dist-init-addr 10.0.0.1:20000", "--dist-init-addr 10.0.0.1:20000"),
    ],
)
def test_addresses_are_shown_so_that_no_viewer_links_them(text: str, shown: str) -> None:
    assert defanged(text) == shown


def test_markdown_holds_no_link_image_markup_or_heading_but_its_own(records: list[Record]) -> None:
    made = document(Case.fold(records))
    text = markdown(made)
    assert not CONTROL.search(text.replace("\n", ""))
    code = {
        line
        for section in sections(made)
        for block in section.blocks
        if isinstance(block, Code | Quotes)
        for line in markdown_code(quoted(block) if isinstance(block, Quotes) else block.text)
    }
    for line in text.splitlines():
        assert not ADDRESS.search(line)
        if line in code:
            continue
        assert not re.search(r"(?<!\\)!\[", line)
        assert not re.search(r"(?<!\\)<", line)
        assert not re.search(r"(?<!\\)`", line)
        assert all(re.fullmatch(r"[a-z0-9-]+", target) for target in re.findall(r"(?<!\\)\]\(#?([^)]*)\)", line))
        assert not re.match(r"(>|```|=+$|-+$|\d+[.)] )", line)
    titles = {section.title for section in sections(made)}
    headings = [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")]
    assert set(headings) <= titles
    assert len(headings) == len(set(headings))


def markdown_code(text: str) -> list[str]:
    return [f"    {defanged(line)}".rstrip() for line in text.split("\n")]


def test_the_terminal_is_told_nothing_but_text(records: list[Record]) -> None:
    made = document(Case.fold(records))
    for shown in (terminal.render(made), transcript.terminal(records)):
        out = io.StringIO()
        PlainConsole(file=out, width=80, highlight=False).print(shown)
        assert not CONTROL.search(out.getvalue().replace("\n", ""))
        assert "\\u001b" in out.getvalue() or "\x1b" not in json.dumps(
            [r.model_dump() for r in records], ensure_ascii=False
        )


def test_strings_given_to_the_console_are_text_too() -> None:
    out = io.StringIO()
    PlainConsole(file=out, width=80, highlight=False).print("[bold]x[/bold] \x1b[31m :smile:")
    assert out.getvalue() == "[bold]x[/bold] \\u001b[31m :smile:\n"


def test_a_case_with_almost_nothing_in_it_has_every_view(tmp_path: Path) -> None:
    made = document(Case.fold([Opened(id="ses_01TESTTESTTEST00", role="session", text="slow")]))
    assert markdown(made).startswith("# ")
    assert html(made).endswith("</html>\n")
    assert terminal.render(made).lines(80)


def test_progress_and_listings_are_text_too(tmp_path: Path) -> None:
    from agent.views.watching import Watching
    from tests.program import sglscout
    from transcripts.records import dump
    from transcripts.store import Store

    out = io.StringIO()
    with Watching(out) as watching:
        for record in hostile():
            watching.session(record)
    assert not CONTROL.search(out.getvalue().replace("\n", ""))
    first = hostile()[0]
    assert isinstance(first, Opened)
    Store(tmp_path).create(first.id, dump(first)).close()
    listed = sglscout(tmp_path, "sessions").out
    assert first.id in listed
    assert not CONTROL.search(listed.replace("\n", ""))
    assert not CONTROL.search(sglscout(tmp_path, "show", first.id).out.replace("\n", ""))
