"""What Tab offers at the prompt: commands, and after a command the ids, hosts or files that it takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from agent.chat import Chat
from agent.chat_commands import COMMANDS
from transcripts.paths import at_home
from transcripts.store import Store

SESSIONS_OFFERED = 50


class Words(Completer):
    """Completes the line of one chat."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        line = document.text_before_cursor
        if not line.startswith("/"):
            return
        name, space, typed = line[1:].partition(" ")
        offered = self._arguments(name) if space else ((f"/{each}", text) for each, (_, text) in COMMANDS.items())
        wanted = typed if space else line
        for text, about in offered:
            if text.lower().startswith(wanted.lower()):
                yield Completion(text, start_position=-len(wanted), display_meta=about)

    def _arguments(self, command: str) -> Iterable[tuple[str, str]]:
        """What may follow a command, with a word about each."""
        case = self._chat.session.case if self._chat.session is not None else None
        tasks = [(task.id, task.description) for task in list(case.tasks.values())] if case is not None else []
        match command:
            case "task" | "stop":
                return tasks
            case "resume":
                return [*tasks, *self._sessions()]
            case "evidence":
                return [(each.id, each.probe) for each in list(case.evidence.values())] if case is not None else []
            case "fork":
                return [(each.id, each.question) for each in list(case.decisions)] if case is not None else []
            case "why":
                weighed = case.weighed if case is not None else None
                return [(row.id, row.label) for row in weighed.hypotheses] if weighed is not None else []
            case "host":
                return [("local", "this machine"), *((name, "") for name in configured_hosts())]
            case "model":
                return [("playbook", "no endpoint"), (self._chat.settings.model, "")]
        return []

    def _sessions(self) -> Iterator[tuple[str, str]]:
        heads = Store(self._chat.settings.home).heads()
        opened = (first for first, _ in heads if first.get("role") == "session")
        for first in islice(opened, SESSIONS_OFFERED):
            yield first["id"], " ".join(str(first["text"]).split())[:60]


def configured_hosts(path: Path = Path("~/.ssh/config")) -> list[str]:
    """The names that an SSH configuration gives, without its patterns; none where it cannot be read."""
    try:
        lines = at_home(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    words = [line.split() for line in lines if line.strip().lower().startswith("host ")]
    return [name for line in words for name in line[1:] if not set(name) & set("*?!")]
