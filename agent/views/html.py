"""The write-up and the transcript, one HTML file each: no script, nothing loaded, for phone and print too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from itertools import groupby
from typing import Any, Final

from agent.views import pictures, writeup
from agent.views.sections.blocks import Anchor, Block, Code, Items, Paragraph, Picture, Quotes, Table
from agent.views.transcript import Entry
from agent.views.words import defanged

Json = dict[str, Any]

MOST_COLUMNS: Final = 8  # that paper holds side by side: rows of more are set as running text there
STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #57606a; --paper: #ffffff; --rule: #d0d7de; --link: #0a4fb5;
  --code: #f6f8fa; --a: #2f6fdf; --b: #b35900; --c: #1a7f37; --d: #7a4bd0; --e: #b0307f; --f: #5b6b7b; --free: #c9d1d9;
  --bad: #cf222e; --on: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9da7b1; --paper: #0d1117; --rule: #3d444d;
  --link: #79bbff; --code: #161b22; --a: #58a6ff; --b: #e3a04f; --c: #56d364; --d: #bc8cff; --e: #ff7bc5; --f: #9da7b1;
  --free: #3d444d; --bad: #ff7b72; --on: #0d1117; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 62rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; }
h2 { font-size: 1.2rem; margin-top: 2.2rem; padding-bottom: .2rem; border-bottom: 1px solid var(--rule); }
h3 { font-size: .9rem; margin: 1rem 0 .2rem; } :target { outline: 2px solid var(--link); outline-offset: 2px; }
a { color: var(--link); } p { margin: .5rem 0; max-width: 48rem; } li { margin: .25rem 0; max-width: 48rem; }
.refs { font-size: .85em; color: var(--dim); } .when { color: var(--dim); }
.scroll { overflow-x: auto; margin: .75rem 0; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
caption { text-align: left; color: var(--dim); font-size: .85rem; padding-bottom: .2rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--rule);
  min-width: 4.5rem; overflow-wrap: break-word; }
td[data-column="time"] { white-space: nowrap; }
th { color: var(--dim); font-weight: 600; } td:last-child { min-width: 9rem; }
.wide th, .wide td { min-width: 3.2rem; } .wide td:last-child { min-width: 17rem; }
pre { margin: .5rem 0; padding: .6rem; background: var(--code); border: 1px solid var(--rule); white-space: pre-wrap;
  font-size: .82rem; overflow-wrap: anywhere; }
.quotes { margin: .5rem 0; padding: .3rem .6rem; background: var(--code); border: 1px solid var(--rule); }
.quotes p { display: flex; gap: .8rem; margin: 0; padding: .12rem 0; max-width: none; font-size: .82rem; }
.quotes span { flex: 0 0 2.5rem; color: var(--dim); text-align: right; } .quotes code { white-space: pre-wrap; }
details { border-bottom: 1px solid var(--rule); padding: .25rem 0; } summary { cursor: pointer; }
.task > :not(summary) { margin-left: 1rem; }
.step { padding: .25rem 0; } .said { border-left: 3px solid var(--link); padding-left: .6rem; margin: .8rem 0; }
figure { margin: 1rem 0; max-width: 44rem; } figcaption { font-weight: 600; font-size: .9rem; margin-bottom: .3rem; }
svg { display: block; width: 100%; height: auto; font: 13px system-ui, sans-serif; } svg text { fill: var(--ink); }
svg text.dim { fill: var(--dim); } svg text.on { fill: var(--on); } svg text.strong { font-weight: 700; }
.key { display: inline-block; width: .8rem; height: .8rem; background: var(--rule); print-color-adjust: exact; }
.key.a { background: var(--a); } .key.b { background: var(--b); } .key.c { background: var(--c); }
.key.d { background: var(--d); } .key.e { background: var(--e); } .key.f { background: var(--f); }
.key.free { background: var(--free); } .key.mark { background: var(--bad); width: .25rem; }
.key.limit { background: var(--paper); border-top: 2px dashed var(--bad); height: .3rem; vertical-align: middle; }
.keyed { display: inline-block; margin-right: .8rem; }
.parts { width: auto; margin-top: .4rem; }
.parts td, .parts th { padding: .1rem 1.5rem .1rem 0; border: 0; overflow-wrap: anywhere; }
svg .a { fill: var(--a); } svg .b { fill: var(--b); } svg .c { fill: var(--c); } svg .d { fill: var(--d); }
svg .e { fill: var(--e); } svg .f { fill: var(--f); } svg .free { fill: var(--free); } svg .bad { fill: var(--bad); }
svg .line { fill: none; stroke-width: 1.75; } svg .line.a { stroke: var(--a); } svg .line.b { stroke: var(--b); }
svg .line.c { stroke: var(--c); } svg .axis { stroke: var(--rule); } svg .mark { stroke: var(--bad); fill: var(--bad);
  stroke-width: 2; } svg .limit { stroke: var(--bad); fill: var(--bad); stroke-width: 1.5; stroke-dasharray: 5 4; }
@media screen and (max-width: 40rem) { svg { font-size: 20px; } svg .on { display: none; }
  .scroll thead { display: none; } .scroll tr { display: block; padding: .4rem 0;
  border-bottom: 1px solid var(--rule); } .scroll td { display: block; border: 0; padding: .05rem 0; }
  .scroll td::before { content: attr(data-column) ": "; color: var(--dim); font-size: .85em; }
  .scroll td.empty { display: none; } .scroll tbody, .scroll table, .scroll caption { display: block; } }
@media print { body { max-width: none; padding: 0; font-size: .85rem; } pre, figure, tr, .quotes p {
  break-inside: avoid; }
  h2, h3, caption, thead { break-after: avoid; } tbody tr:first-child { break-before: avoid; }
  a { color: inherit; text-decoration: none; } .scroll { overflow: visible; }
  .wide thead { display: none; } .wide tr { display: block; padding: .3rem 0; border-bottom: 1px solid var(--rule); }
  .wide td, .wide td:last-child { display: inline; min-width: 0; border: 0; padding: 0 .8rem 0 0; }
  .wide td::before { content: attr(data-column) ": "; color: var(--dim); } .wide td.empty { display: none; }
  .wide td:first-child { font-weight: 600; } .wide td:first-child::before { content: none; } }
"""


def html(document: Json) -> str:
    """The write-up; the same document gives the same bytes."""
    told = writeup.sections(document)
    known = writeup.places(told)
    parts = [f"<h1>{_text(writeup.title(document))}</h1>"]
    for section in told:
        drawn = [text for block in section.blocks if (text := _block(block, document, known))]
        if drawn:
            parts += [f"<h2>{_text(section.title)}</h2>", *drawn]
    return _page(writeup.title(document), "\n".join(parts))


def transcript(title: str, entries: Iterable[Entry]) -> str:
    """The conversation: what was said stands open, tools, tasks and evidence are folded, looks in a row together."""
    return _page(title, "\n".join([f"<h1>{_text(title)}</h1>", *_entries(entries)]))


def _entries(entries: Iterable[Entry]) -> Iterator[str]:
    for kind, several in groupby(entries, key=lambda entry: entry.kind):
        drawn = [_entry(entry) for entry in several]
        if kind == "look" and len(drawn) > 1:
            yield f"<details><summary>{len(drawn)} looks</summary>{''.join(drawn)}</details>"
        else:
            yield from drawn


def _entry(entry: Entry) -> str:
    when = _text(entry.at[:19].replace("T", " "))
    head = f'<span class="when">{when}</span> <strong>{_text(entry.who)}</strong> {_text(entry.heading)}'
    if entry.kind == "said":
        body = f'<pre tabindex="0">{_text(entry.body)}</pre>' if entry.body else ""
        return f'<div class="said">{head}{body}</div>'
    if entry.inside:
        return f'<details class="task"><summary>{head}</summary>{"".join(_entries(entry.inside))}</details>'
    if entry.body:
        return f'<details><summary>{head}</summary><pre tabindex="0">{_text(entry.body)}</pre></details>'
    return f'<div class="step">{head}</div>'


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _text(text: str) -> str:
    return escape(defanged(text))


def _block(block: Block, document: Json, known: Mapping[str, str]) -> str:
    match block:
        case Paragraph():
            return f"<p>{_said(block, known)}</p>"
        case Items():
            kind = "ol" if block.ordered else "ul"
            return f"<{kind}>{''.join(f'<li>{_said(each, known)}</li>' for each in block.items)}</{kind}>"
        case Table():
            head = "".join(f'<th scope="col">{_text(column)}</th>' for column in block.columns)
            rows = "".join(
                "<tr>"
                + "".join(_cell(cell, name, known) for cell, name in zip(row, block.columns, strict=True))
                + "</tr>"
                for row in block.rows
            )
            kind = "scroll wide" if len(block.columns) > MOST_COLUMNS else "scroll"
            caption = f"<caption>{_text(block.label)}</caption>"
            table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
            return f'<div class="{kind}" tabindex="0" role="region" aria-label="{_text(block.label)}">{table}</div>'
        case Code():
            return f'<pre tabindex="0">{_text(block.text)}</pre>'
        case Quotes():
            rows = "".join(
                f'<p id="{escape(writeup.anchor(row.id))}"><span>{_text(row.margin)}</span>'
                f"<code>{_text(row.text)}</code></p>"
                for row in block.rows
            )
            return f'<div class="quotes">{rows}</div>'
        case Anchor():
            return f'<h3 id="{escape(writeup.anchor(block.id))}">{_text(block.id)}: {_text(block.text)}</h3>'
        case Picture():
            return {"memory": pictures.memory, "load": pictures.load, "host": pictures.host}[block.kind](document)


def _said(paragraph: Paragraph, known: Mapping[str, str]) -> str:
    """The text and its references behind it, each a link where this document has what it names."""
    links = ", ".join(_link(reference, known) for reference in paragraph.references)
    text = _text(paragraph.text)
    return f'{text} <span class="refs">[{links}]</span>' if text and links else text or links


def _cell(cell: str | Paragraph, column: str, known: Mapping[str, str]) -> str:
    """A cell that knows its column, for screens too narrow for columns."""
    text = _said(cell, known) if isinstance(cell, Paragraph) else _text(cell)
    return f'<td data-column="{_text(column)}">{text}</td>' if text else '<td class="empty"></td>'


def _link(reference: str, known: Mapping[str, str]) -> str:
    found = writeup.target(reference, known)
    return f'<a href="#{escape(writeup.anchor(found))}">{_text(reference)}</a>' if found else _text(reference)
