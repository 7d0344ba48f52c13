"""The command line: a table of commands, each imported when used; the one place where errors become exit codes."""

from __future__ import annotations

import errno
import gc
import importlib
import io
import os
import sys
from collections.abc import Mapping
from typing import Any, Final, NoReturn

import click

from transcripts.errors import DISK_FULL, ScoutError

# What is imported lives as long as the program: a seventh of a short run would go into looking for garbage in it.
COLLECTED_AFTER: Final = (50_000, 20, 50)
# name: (module, function, one line of help)
COMMANDS: Final = {
    "demo": ("agent.commands.diagnose", "demo", "Diagnose a recorded host that ships with the program."),
    "diagnose": ("agent.commands.diagnose", "diagnose", "Find the cause of a complaint and the change that helps."),
    "chat": ("agent.commands.diagnose", "chat", "Ask, answer, follow up, at a prompt."),
    "resume": ("agent.commands.diagnose", "resume", "Continue a session or a task by its id."),
    "verify": ("agent.commands.diagnose", "verify", "Look again after a change: what was expected, what is there."),
    "sessions": ("agent.commands.sessions", "sessions", "List sessions, newest first."),
    "tasks": ("agent.commands.sessions", "tasks", "List research tasks, newest first."),
    "show": ("agent.commands.sessions", "show", "Show what a session or task did."),
    "writeup": ("agent.commands.writeup", "writeup", "Write the incident up, from the transcript alone."),
    "fork": ("agent.commands.copies", "fork", "Copy a session, or its beginning, into one that goes its own way."),
    "export": ("agent.commands.copies", "export", "Put a session with its tasks into one file for a colleague."),
    "forget": ("agent.commands.sessions", "forget", "Delete a session with its evidence and tasks."),
    "plan": ("agent.commands.capacity", "plan", "What each memory lever would change."),
    "source": ("agent.commands.source", "source", "List and prune cached SGLang trees."),
    "flags": ("agent.commands.source", "flags", "Flags of an SGLang version, from its source."),
    "rules": ("agent.commands.source", "rules", "What the code of a version enforces about a flag."),
    "check": ("agent.commands.launch", "check", "Check a launch command against a version."),
    "upgrade": ("agent.commands.launch", "upgrade", "What changes between two versions, for a launch command."),
    "trust": ("agent.commands.host", "trust", "Show a host's key and remember it."),
    "collect": ("agent.commands.host", "collect", "Collect redacted evidence into a bundle."),
    "policy": ("agent.commands.safety", "policy", "Explain whether a command may run on a host."),
    "redact": ("agent.commands.safety", "redact", "Redact text from standard input."),
    "doctor": ("agent.commands.doctor", "doctor", "Say what this installation and its endpoint can do."),
}


EVALUATIONS: Final = {
    "cases": ("agent.commands.evaluate", "eval_cases", "Diagnose recorded incidents and score the verdicts."),
    "kv": ("agent.commands.capacity", "eval_kv", "Memory arithmetic against observed server starts."),
    "policy": ("agent.commands.safety", "eval_policy", "Verdicts of the command policy."),
    "redaction": ("agent.commands.safety", "eval_redaction", "What redaction hides and what it leaves."),
}


class LazyGroup(click.Group):
    """Lists from a table; imports a command only to run it or to show its own help."""

    table: Mapping[str, tuple[str, str, str]] = COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.table, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.table.get(cmd_name)
        if entry is None:
            return self.commands.get(cmd_name)
        command = getattr(importlib.import_module(entry[0]), entry[1])
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, entry[2]) for name, entry in self.table.items()]
        rows += [(name, command.get_short_help_str()) for name, command in self.commands.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


class EvaluationGroup(LazyGroup):
    table = EVALUATIONS


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="sglscout", message="%(version)s")
def cli() -> None:
    """Finds out why an SGLang server does what it does, and proves the change that helps.

    Without OPENAI_BASE_URL or OPENAI_API_KEY the embedded playbook decides; nothing is ever written to a host.
    """


@cli.group("eval", cls=EvaluationGroup)
def evaluate() -> None:
    """Score the program on recorded material."""


def main() -> NoReturn:
    """Run the program; exits with the code that the README documents, and never with a traceback."""
    gc.set_threshold(*COLLECTED_AFTER)
    _streams_made_whole()
    try:
        result: Any = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as exit_:
        _leave(exit_.exit_code)
    except click.Abort:
        _leave(130)
    except click.ClickException as error:
        error.show()
        _leave(2)
    except ScoutError as error:
        from agent.views.words import visible

        _say(visible(str(error)))
        _leave(error.exit_code)
    except KeyboardInterrupt:
        _say("interrupted.")
        _leave(130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _leave(0)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            _say("what is given is taken for the name of a file, and is too long for one. Give a path.")
            _leave(2)
        if error.errno not in DISK_FULL:
            _bug(error)
        _say(f"disk full: {error.filename or error.strerror}. Free some space, then try again.")
        _leave(2)
    except Exception as error:  # noqa: BLE001  the last line of defence: a bug is said in one line, its trace is kept
        _bug(error)
    _leave(result if isinstance(result, int) else 0)


def _streams_made_whole() -> None:
    """A standard stream that was closed reads and writes nothing; one that cannot hold a character shows another."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _say(what: str) -> None:
    """One line on standard error; on a terminal it is folded between words."""
    line = f"sglscout: {' '.join(what.split())}"
    if sys.stderr.isatty():
        from shutil import get_terminal_size

        from agent.views.layout import NARROWEST, paragraph

        line = "\n".join(each.text for each in paragraph(line, max(get_terminal_size().columns, NARROWEST), 0, 2))
    click.echo(line, err=True)


def _bug(error: Exception) -> NoReturn:
    _say(f"a bug: {type(error).__name__}: {error}. {_trace_kept()}")
    _leave(1)


def _leave(code: int) -> NoReturn:
    gc.freeze()  # the interpreter's last collection would walk through every imported package for nothing
    sys.exit(code)


def _trace_kept() -> str:
    """Where the trace of the current bug was put, for a report."""
    import tempfile
    import traceback

    if os.environ.get("SGLSCOUT_DEBUG"):
        traceback.print_exc()
    try:
        with tempfile.NamedTemporaryFile("w", prefix="sglscout-bug-", suffix=".txt", delete=False) as file:
            traceback.print_exc(file=file)
            return f"Its trace is in {file.name}; please report it."
    except OSError:
        return "Set SGLSCOUT_DEBUG=1 to see its trace."
