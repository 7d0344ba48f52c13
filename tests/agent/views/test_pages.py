"""The pages in a real browser: quiet, alone, as wide as the screen, and readable for everyone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from agent.case import Case
from agent.document import document
from agent.views import transcript
from agent.views.html import html
from agent.views.html import transcript as transcript_page
from tests.agent.views.browser import Browser
from tests.agent.views.conftest import HOSTS
from tests.agent.views.test_hostile import hostile
from tests.needs import needs
from tests.program import sglscout
from transcripts.records import Record, TaskChanged, records_of
from transcripts.store import Store

Json = dict[str, Any]
AXE = "axe.run(document, {resultTypes: ['violations']}).then(r => r.violations.map(v => v.id + ': ' + v.nodes[0].html))"
WIDTHS = (390, 1280)
PAPER = 718  # pixels between the margins of A4


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(needs("chromium", apt="chromium"), tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(
    tmp_path_factory: pytest.TempPathFactory,
    made: Callable[[str], Json],
    records: Callable[[str], list[Record]],
    home: Path,
) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    told = {name: html(made(name)) for name in HOSTS}
    told["transcript"] = transcript_page("Transcript", transcript.entries(records("kv"), _tasks(home, records("kv"))))
    told["hostile"] = html(document(Case.fold(hostile())))
    inside = {record.id: hostile() for record in hostile() if isinstance(record, TaskChanged)}
    told["hostile transcript"] = transcript_page("Transcript", transcript.entries(hostile(), inside))
    paths = {name: folder / f"{name.replace(' ', '-')}.html" for name in told}
    for name, path in paths.items():
        path.write_text(told[name], encoding="utf-8")
    return paths


def _tasks(home: Path, records: list[Record]) -> dict[str, list[Record]]:
    ids = {record.id for record in records if isinstance(record, TaskChanged)}
    return {identity: records_of(Store(home / "kv").read(identity)) for identity in ids}


PAGES = (*HOSTS, "transcript", "hostile", "hostile transcript")


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", WIDTHS)
def test_asks_for_nothing_complains_of_nothing_and_fits(
    browser: Browser, pages: dict[str, Path], name: str, width: int
) -> None:
    browser.open(pages[name], width=width)
    assert browser.value("document.documentElement.scrollWidth") <= width
    assert browser.value("document.scripts.length + document.images.length") == 0
    assert browser.requests() == []
    assert browser.complaints() == []


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True)])
def test_breaks_no_rule_of_accessibility(
    browser: Browser, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    browser.open(pages[name], width=width, dark=dark)
    browser.value(files("axe_core_python").joinpath("axe.min.js").read_text() + "; 0")
    assert browser.value(AXE) == []


def test_light_and_dark_are_two_papers_and_print_is_white_enough(browser: Browser, pages: dict[str, Path]) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    browser.open(pages["kv"], width=1280)
    light = browser.value(paper)
    browser.open(pages["kv"], width=1280, dark=True)
    dark = browser.value(paper)
    browser.open(pages["kv"], width=794, medium="print")
    assert light != dark
    assert browser.value(paper) == light
    assert browser.printed().startswith(b"%PDF")


@pytest.mark.parametrize("name", HOSTS)
def test_print_is_as_wide_as_paper(browser: Browser, pages: dict[str, Path], name: str) -> None:
    """What is wider has the browser print everything smaller."""
    browser.open(pages[name], width=PAPER, medium="print")
    assert browser.value("document.documentElement.scrollWidth") <= PAPER


def test_a_reference_is_followed_to_the_line_it_names(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["kv"], width=1280)
    followed = "(() => { const a = document.querySelector('main p a'); a.click(); return [a.hash, location.hash]; })()"
    wanted, at = browser.value(followed)
    assert wanted == at
    named = browser.value("document.querySelector(':target').textContent")
    assert named.startswith("E37")  # the look that told the version: one of those a line each
    assert browser.value("document.querySelector(':target').tagName") == "P"
    line = (
        "(() => { document.querySelector('a[href=\"#e20-311\"]').click(); return document.querySelector(':target') })()"
    )
    assert "fired up" in browser.value(f"{line}.textContent")


def test_every_picture_has_a_name_and_stays_inside_its_frame(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["kv"], width=1280)
    names = browser.value("[...document.querySelectorAll('svg')].map(s => s.getAttribute('aria-label'))")
    assert [name.split(",")[0].split(" ")[0] for name in names] == ["Memory", "Load", "Host"]
    inside = """[...document.querySelectorAll('svg')].every(s => { const f = s.viewBox.baseVal;
      return [...s.querySelectorAll('text, rect, path')].every(e => { const b = e.getBBox();
        return b.x >= -2 && b.y >= -2 && b.x + b.width <= f.width + 2 && b.y + b.height <= f.height + 2; }); })"""
    assert browser.value(inside)


def test_the_conversation_of_a_task_is_folded_into_that_of_its_session(
    home: Path, session: Callable[[str], str], tmp_path: Path
) -> None:
    """Once for each task, with what its researcher called and answered; of a copy for others just so."""
    identity = session("kv")
    assert sglscout(home / "kv", "export", identity, "-o", str(tmp_path / "copy.tar.gz")).exit == 0
    for named, page in ((identity, "own.html"), (str(tmp_path / "copy.tar.gz"), "copy.html")):
        assert sglscout(home / "kv", "show", named, "--html", str(tmp_path / page)).exit == 0
    text = (tmp_path / "own.html").read_text()
    assert (tmp_path / "copy.html").read_text() == text
    tasks = text.split('<details class="task">')[1:]
    assert len(tasks) == len(_tasks(home, records_of(Store(home / "kv").read(identity))))
    assert all("calls flag" in each or "calls search" in each or "calls rules" in each for each in tasks)
    assert all("calls report" in each for each in tasks)
