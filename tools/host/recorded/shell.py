"""Command lines of the policy's grammar, run over a recording: words, pipes, `&&`, `||`, `;` and harmless redirections.

Nothing of it reaches a shell of this machine. What is beyond that grammar is answered as sh answers a syntax error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tools.host.recorded.options import UsageMistake

Program = Callable[[list[str], str], tuple[int, str, str]]
_OPERATORS = ("&&", "||", "|", ";", "2>/dev/null", "2>&1", "</dev/null", ">/dev/null", "1>/dev/null", "(", ")")
_FOLDERS = ("/usr/bin/", "/bin/", "/usr/sbin/", "/sbin/", "/usr/local/bin/", "/usr/local/sbin/")


@dataclass(frozen=True, slots=True)
class Reply:
    exit: int
    stdout: str
    stderr: str = ""


@dataclass(frozen=True, slots=True)
class Word:
    text: str
    operator: bool = False
    glob: bool = False


class NotUnderstood(ValueError):
    """Beyond the grammar."""


def words_of(line: str) -> list[Word]:
    """Words and operators of a line. Raises NotUnderstood."""
    found: list[Word] = []
    place = 0
    while place < len(line):
        if line[place] in " \t\n":
            place += 1
            continue
        operator = next((mark for mark in _OPERATORS if line.startswith(mark, place)), None)
        if operator:
            found.append(Word(operator, operator=True))
            place += len(operator)
            continue
        word, place = _word(line, place)
        found.append(word)
    return found


def _word(line: str, place: int) -> tuple[Word, int]:
    text, glob = "", False
    while place < len(line) and line[place] not in " \t\n;|()&<>":
        letter = line[place]
        if letter == "\\":
            text += line[place + 1 : place + 2]
            place += 2
        elif letter in "'\"":
            end = line.find(letter, place + 1)
            if end < 0:
                raise NotUnderstood("Unterminated quoted string")
            inner = line[place + 1 : end]
            if letter == '"' and re.search(r"[`$\\]", inner):
                raise NotUnderstood("expansion is not supported")
            text += inner
            place = end + 1
        elif letter in "`$":
            raise NotUnderstood("expansion is not supported")
        else:
            glob = glob or letter in "*?["
            text += letter
            place += 1
    if place < len(line) and line[place] in "&<>":
        raise NotUnderstood(f'"{line[place]}" unexpected')
    return Word(text, glob=glob), place


class Shell:
    """Programs by name, and how their names are found."""

    def __init__(self, programs: dict[str, Program], glob: Callable[[str], list[str]]) -> None:
        self._programs = programs
        self._glob = glob

    def line(self, text: str) -> Reply:
        """A whole command line."""
        if (grouped := re.fullmatch(r"\{ (.*) ; \} \| (.*)", text.strip(), re.DOTALL)) is not None:
            inner = self.line(grouped[1])
            argv = [word.text for word in words_of(grouped[2])]
            outer = self._run(argv, inner.stdout)
            return Reply(outer.exit, outer.stdout, inner.stderr + outer.stderr)
        try:
            words = words_of(text)
        except NotUnderstood as error:
            return Reply(2, "", f"sh: 1: Syntax error: {error}\n")
        status, out, err = 0, "", ""
        connector, part = ";", list[Word]()
        for word in (*words, Word(";", operator=True)):
            if not (word.operator and word.text in ("&&", "||", ";")):
                part.append(word)
                continue
            wanted = connector == ";" or (connector == "&&") == (status == 0)
            if part and wanted:
                reply = self._pipeline(part)
                status, out, err = reply.exit, out + reply.stdout, err + reply.stderr
            connector, part = word.text, []
        return Reply(status, out, err)

    def pipeline(self, stages: Sequence[Sequence[str]]) -> Reply:
        """Stages given as argument lists."""
        stdin, err, status = "", "", 0
        for argv in stages:
            reply = self._run(list(argv), stdin)
            stdin, err, status = reply.stdout, err + reply.stderr, reply.exit
        return Reply(status, stdin, err)

    def _pipeline(self, words: list[Word]) -> Reply:
        words = [word for word in words if not (word.operator and word.text in "()")]
        stages: list[list[Word]] = [[]]
        for word in words:
            if word.operator and word.text == "|":
                stages.append([])
            else:
                stages[-1].append(word)
        stdin, err, status = "", "", 0
        for stage in stages:
            marks = {word.text for word in stage if word.operator}
            reply = self._run(self._expanded(word for word in stage if not word.operator), stdin)
            complaint = "" if "2>/dev/null" in marks else reply.stderr
            stdin = "" if marks & {">/dev/null", "1>/dev/null"} else reply.stdout
            if "2>&1" in marks:
                stdin, complaint = stdin + complaint, ""
            err, status = err + complaint, reply.exit
        return Reply(status, stdin, err)

    def _expanded(self, words: Iterable[Word]) -> list[str]:
        argv: list[str] = []
        for word in words:
            argv += (self._glob(word.text) or [word.text]) if word.glob and word.text.startswith("/") else [word.text]
        return argv

    def _run(self, argv: list[str], stdin: str) -> Reply:
        argv, caller = _unwrapped(argv)
        if not argv:
            return Reply(0, "")
        name = argv[0]
        for folder in _FOLDERS:
            if name.startswith(folder):
                name = name[len(folder) :]
                break
        program = self._programs.get(name)
        if program is None:
            return _not_found(argv[0], caller)
        try:
            status, out, err = program([name, *argv[1:]], stdin)
        except UsageMistake as mistake:
            text = str(mistake)
            return Reply(
                2 if name in ("grep", "ls", "sort") else 1, "", text + "\n" if ":" in text else f"{name}: {text}\n"
            )
        return Reply(status, out, err)


def _not_found(name: str, caller: str) -> Reply:
    if caller:
        return Reply(127, "", f"{caller}: failed to run command '{name}': No such file or directory\n")
    return Reply(127, "", f"sh: 1: {name}: not found\n")


def _unwrapped(argv: list[str]) -> tuple[list[str], str]:
    """The command behind assignments, `env`, `timeout`, `nice`, `sudo -n`, and which of them would start it."""
    caller = ""
    while argv:
        name = argv[0].rpartition("/")[2]
        if re.fullmatch(r"[A-Za-z_]\w*=.*", argv[0], re.DOTALL):
            argv = argv[1:]
        elif name in ("env", "timeout", "nice", "ionice", "sudo", "stdbuf", "command", "exec"):
            caller = name if name in ("env", "timeout", "nice", "ionice", "stdbuf") else ""
            argv = _skip_options(name, argv[1:])
        else:
            break
    return argv, caller


_WITH_VALUE = {
    "timeout": ("-k", "-s", "--kill-after", "--signal"),
    "nice": ("-n",),
    "ionice": ("-c", "-n"),
    "sudo": ("-u",),
    "env": ("-u",),
    "stdbuf": ("-o", "-e", "-i"),
}


def _skip_options(name: str, words: list[str]) -> list[str]:
    while words and words[0].startswith("-"):
        words = words[2:] if words[0] in _WITH_VALUE.get(name, ()) else words[1:]
    return words[1:] if name == "timeout" else words
