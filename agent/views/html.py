"""The write-up and the transcript, one HTML file each: no script, nothing loaded, for phone and print too."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any, Final

from agent.views import pictures, writeup
from agent.views.sections.blocks import Anchor, Block, Code, Items, Paragraph, Picture, Table
from agent.views.transcript import Entry
from agent.views.words import visible

Json = dict[str, Any]

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #57606a; --paper: #ffffff; --rule: #d0d7de; --link: #0a58ca;
  --a: #1f6feb; --b: #b35900; --c: #1a7f37; --d: #8250df; --e: #bf3989; --f: #57606a; --free: #d8dee4; --bad: #cf222e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6edf3; --dim: #9da7b1; --paper: #0d1117; --rule: #3d444d;
  --link: #6cb6ff; --a: #58a6ff; --b: #e3a04f; --c: #56d364; --d: #bc8cff; --e: #ff7bc5; --f: #9da7b1; --free: #2d333b;
  --bad: #ff7b72; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 60rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.2; } h2 { font-size: 1.15rem; margin-top: 2rem; } h3 { font-size: 1rem; }
a { color: var(--link); } p { margin: .5rem 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .5rem; border-bottom: 1px solid var(--rule);
  min-width: 4rem; }
th { color: var(--dim); font-weight: 600; }
pre { margin: .5rem 0; padding: .6rem; border: 1px solid var(--rule); white-space: pre-wrap; font-size: .85rem; }
summary { cursor: pointer; } .when { color: var(--dim); } td:first-child { min-width: 6rem; }
svg { width: 100%; height: auto; font: 12px system-ui, sans-serif; } svg text { fill: var(--ink); }
svg .a { fill: var(--a); } svg .b { fill: var(--b); } svg .c { fill: var(--c); } svg .d { fill: var(--d); }
svg .e { fill: var(--e); } svg .f { fill: var(--f); } svg .free { fill: var(--free); }
svg .bad { fill: var(--bad); stroke: var(--bad); }
svg .line { fill: none; stroke-width: 2; } svg .line.a { stroke: var(--a); } svg .line.b { stroke: var(--b); }
svg .line.c { stroke: var(--c); } svg .axis { stroke: var(--rule); } svg .limit { stroke: var(--bad); stroke-width: 2; }
@media print { body { max-width: none; } pre, table, svg { break-inside: avoid; } a { color: inherit; } }
"""


def html(document: Json) -> str:
    """The write-up; the same document gives the same bytes."""
    known = writeup.targets(document)
    parts = [f"<h1>{_text(writeup.title(document))}</h1>"]
    for section in writeup.sections(document):
        drawn = [text for block in section.blocks if (text := _block(block, document, known))]
        if drawn:
            parts += [f"<h2>{_text(section.title)}</h2>", *drawn]
    return _page(writeup.title(document), "\n".join(parts))


def transcript(title: str, entries: Iterable[Entry]) -> str:
    """The conversation, with everything long folded."""
    parts = [f"<h1>{_text(title)}</h1>"]
    for entry in entries:
        when, who = _text(entry.at[11:19]), _text(entry.who)
        head = f'<span class="when">{when}</span> <strong>{who}</strong> {_text(entry.heading)}'
        if entry.body:
            parts.append(f"<details><summary>{head}</summary><pre>{_text(entry.body)}</pre></details>")
        else:
            parts.append(f"<p>{head}</p>")
    return _page(title, "\n".join(parts))


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


def _text(text: str) -> str:
    return escape(visible(text))


def _block(block: Block, document: Json, known: frozenset[str]) -> str:
    match block:
        case Paragraph():
            return f"<p>{_said(block, known)}</p>"
        case Items():
            kind = "ol" if block.ordered else "ul"
            return f"<{kind}>{''.join(f'<li>{_said(each, known)}</li>' for each in block.items)}</{kind}>"
        case Table():
            head = "".join(f'<th scope="col">{_text(column)}</th>' for column in block.columns)
            rows = "".join(
                "<tr>" + "".join(f"<td>{_cell(cell, known)}</td>" for cell in row) + "</tr>" for row in block.rows
            )
            table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
            return f'<div class="scroll" tabindex="0" role="region" aria-label="{_text(block.label)}">{table}</div>'
        case Code():
            return f'<pre tabindex="0">{_text(block.text)}</pre>'
        case Anchor():
            return f'<h3 id="{escape(writeup.anchor(block.id))}">{_text(block.text)}</h3>'
        case Picture():
            return {"memory": pictures.memory, "load": pictures.load, "host": pictures.host}[block.kind](document)


def _said(paragraph: Paragraph, known: frozenset[str]) -> str:
    """The text and its references behind it, each a link where this document has what it names."""
    links = ", ".join(_link(reference, known) for reference in paragraph.references)
    text = _text(paragraph.text)
    return f'{text} <span class="refs">[{links}]</span>' if text and links else text or links


def _cell(cell: str | Paragraph, known: frozenset[str]) -> str:
    return _said(cell, known) if isinstance(cell, Paragraph) else _text(cell)


def _link(reference: str, known: frozenset[str]) -> str:
    anchor = writeup.target(reference, known)
    return f'<a href="#{escape(anchor)}">{_text(reference)}</a>' if anchor else _text(reference)
