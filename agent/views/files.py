"""A document put into a file: Markdown, HTML or JSON by its suffix, readable by its owner alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from transcripts.errors import UsageError

Json = dict[str, Any]
FORMS: Final = {".md": "md", ".html": "html", ".htm": "html", ".json": "json"}
OTHER: Final = frozenset({".pdf", ".doc", ".docx", ".odt", ".rtf", ".tex"})


def dressed(made: Json, form: str) -> str:
    """The write-up as `md`, `html`, or the document itself as `json`."""
    if form == "json":
        return json.dumps(made, indent=1) + "\n"
    if form == "html":
        from agent.views.html import html

        return html(made)
    from agent.views.markdown import markdown

    return markdown(made)


def form_of(path: Path | None) -> str:
    """What a file of that name holds; Markdown where the name does not tell."""
    return FORMS.get(path.suffix.lower(), "md") if path is not None else "md"


def write_up(path: Path, made: Json, form: str = "") -> None:
    """Write it. Raises UsageError where the file cannot be written, and for a name that promises another form."""
    if not form and path.suffix.lower() in OTHER:
        said = f"{path} would be no {path.suffix.lower()[1:]}: a write-up is Markdown, HTML or JSON."
        raise UsageError(said, f"Give {path.stem}.html, which a browser prints, or --format.")
    put(path, dressed(made, form or form_of(path)))


def put_into(folder: Path, name: str, made: Json) -> None:
    """The write-up in both forms, in a folder that is made for it. Raises UsageError where that cannot be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}.", "Give another folder.") from error
    for form in ("md", "html"):
        write_up(folder / f"{name}.{form}", made)


def put(path: Path, text: str) -> None:
    """Text into a file of its owner's. Raises UsageError where it cannot be written."""
    try:
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.", "Give another file.") from error
