"""Shell text: commands as words with their places. Nothing is run or expanded, except arrays and plain assignments.

`set -- …` fills `"$@"` as an array; what is appended (`+=`, `ARGS="$ARGS …"`) is read as appended, whatever the branch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tools.advice.mapped import Mapped, Word

_ARRAY = re.compile(r"([A-Za-z_]\w*)(\+?)=$")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_SPLICE = re.compile(r"\$(?:\{([A-Za-z_]\w*|[@*])(?:\[[@*]\])?\}|([A-Za-z_]\w*|[@*]))")
_PARENTHESES = re.compile(r"\([ \t]*\)")
_ANSI = re.compile(r"\\(?:x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|.)", re.S)
_ANSI_CHARS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "e": "\x1b", "E": "\x1b"}
_POSITIONAL = "@"
_BLANK = " \t\r"
_END = "\n;&|()"


@dataclass(slots=True)
class Commands:
    """What a shell text holds: simple commands in order, and the words of its arrays and assignments.

    `documents` are here-documents, each with the words of the command that reads it. `functions` has for each simple
    command the function that it stands in, empty outside of any.
    """

    simple: list[list[Word]] = field(default_factory=list)
    variables: dict[str, list[Word]] = field(default_factory=dict)
    documents: list[tuple[list[Word], Mapped]] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)

    def variables_in(self, command: int) -> dict[str, list[Word]]:
        """What a simple command sees, by its index: in a function, `"$@"` is what its last call hands over."""
        called = self.functions[command]
        if not called:
            return self.variables
        inside = [words for words, name in zip(self.simple, self.functions, strict=True) if name == called]
        if any(words[0].text == "shift" for words in inside):
            return self.variables
        calls = [words for words in self.simple if words[0].text == called and words not in inside]
        return self.variables | ({_POSITIONAL: splice(calls[-1][1:], self.variables)} if calls else {})


def read(text: Mapped) -> Commands:
    """Split into simple commands. Comments, redirections and here-documents are no words."""
    return _Lexer(text).run()


def splice(words: list[Word], variables: dict[str, list[Word]]) -> list[Word]:
    """Put the words of a known array or assignment in the place of `"${ARGS[@]}"` or `$ARGS`."""
    found: list[Word] = []
    for word in words:
        whole = _SPLICE.fullmatch(word.text)
        name = (whole[1] or whole[2]).replace("*", _POSITIONAL) if whole else ""
        known = variables.get(name)
        one_word = not word.bare and "[" not in word.text and name != _POSITIONAL
        found += [word] if known is None or (one_word and len(known) != 1) else known
    return found


def _ansi_char(escape: str) -> str:
    """The character of an escape without its backslash; one that is none stands for itself."""
    if escape[0] in "xuU" and len(escape) > 1:
        code = int(escape[1:], 16)
        return chr(code) if code <= 0x10FFFF else "\ufffd"
    if escape[0] in "01234567":
        return chr(int(escape, 8) & 0xFF)
    return _ANSI_CHARS.get(escape, escape)


class _Lexer:
    def __init__(self, text: Mapped) -> None:
        self._in = text
        self._at = 0
        self._out = Commands()
        self._words: list[Word] = []
        # delimiters of here-documents whose bodies begin on the next line, with the command that reads each
        self._waiting: list[tuple[str, list[Word]]] = []
        self._skip_next = False  # the next word is the target of a redirection
        self._function = ""

    def run(self) -> Commands:
        text = self._in.text
        while self._at < len(text):
            char = text[self._at]
            if char in _BLANK:
                self._at += 1
            elif char == "\\" and text[self._at + 1 : self._at + 2] == "\n":
                self._at += 2
            elif text.startswith("\\\r\n", self._at):
                self._at += 3
            elif char == "#" or text.startswith("```", self._at):  # a comment, or the fence of Markdown around it
                self._at = self._line_end()
            elif char == "(" and self._opens_array():
                self._array()
            elif char in _END:
                self._opens_function()
                self._finish()
                self._at += 1
                if char == "\n":
                    self._here_documents()
            elif char in "<>":
                self._redirection()
            else:
                self._take(self._word())
        self._finish()
        return self._out

    def _line_end(self) -> int:
        end = self._in.text.find("\n", self._at)
        return len(self._in) if end < 0 else end

    def _opens_function(self) -> None:
        """`name() {`, `function name {`; a brace that stands alone closes it."""
        words = [word.text for word in self._words]
        if len(words) == 1 and _PARENTHESES.match(self._in.text, self._at):
            self._function = words[0]
        elif words[:1] == ["function"] and len(words) > 1:
            self._function = words[1]
        elif words[-1:] == ["}"]:
            self._function = ""

    def _finish(self) -> None:
        if self._words:
            self._out.simple.append(self._words)
            self._out.functions.append(self._function)
            for word in self._words:
                self._note_assignment(word)
            if [word.text for word in self._words[:2]] == ["set", "--"]:
                self._out.variables[_POSITIONAL] = splice(self._words[2:], self._out.variables)
        self._words = []
        self._skip_next = False

    def _note_assignment(self, word: Word) -> None:
        named = _ASSIGNMENT.match(word.text)
        if named:
            inside = read(word.value.part(named.end(), len(word.value)))
            known = self._out.variables
            words = splice([one for words in inside.simple for one in words], known)
            known[named[1]] = [*known.get(named[1], []), *words] if named[2] else words

    def _take(self, word: Word) -> None:
        if self._skip_next:
            self._skip_next = False
        else:
            self._words.append(word)

    def _opens_array(self) -> bool:
        if not self._words:
            return False
        last = self._words[-1]
        return bool(_ARRAY.match(last.text)) and last.end == self._in.spans[self._at][0]

    def _array(self) -> None:
        named = _ARRAY.match(self._words.pop().text)
        assert named is not None
        inner = _Lexer(self._in)
        inner._at = self._at + 1
        elements: list[Word] = []
        text = self._in.text
        while inner._at < len(text) and text[inner._at] != ")":
            char = text[inner._at]
            if char in _BLANK + "\n\\" and (char != "\\" or text[inner._at + 1 : inner._at + 2] in ("\n", "\r")):
                inner._at += 1
            elif char == "#":
                inner._at = inner._line_end()
            elif char in _END + "<>":
                inner._at += 1
            else:
                elements.append(inner._word())
        self._at = inner._at + 1
        known = self._out.variables
        elements = splice(elements, known)
        known[named[1]] = [*known.get(named[1], []), *elements] if named[2] else elements

    def _redirection(self) -> None:
        text = self._in.text
        if self._words and self._words[-1].text.isdecimal() and self._words[-1].end == self._in.spans[self._at][0]:
            self._words.pop()
        start = self._at
        while self._at < len(text) and text[self._at] in "<>&|-":
            self._at += 1
        operator = text[start : self._at]
        if operator in ("<<", "<<-"):
            while self._at < len(text) and text[self._at] in _BLANK:
                self._at += 1
            if self._at < len(text) and text[self._at] not in _END:
                self._waiting.append((self._word().text, self._words))
        elif not operator.endswith("-"):
            self._skip_next = True

    def _here_documents(self) -> None:
        for delimiter, reader in self._waiting:
            start = stop = self._at
            while self._at < len(self._in):
                end = self._line_end()
                line = self._in.text[self._at : end].strip()
                stop, self._at = self._at, min(end + 1, len(self._in))
                if line == delimiter:
                    break
            self._out.documents.append((reader, self._in.part(start, stop)))
        self._waiting = []

    def _word(self) -> Word:
        text, parts, start, bare = self._in.text, [], self._at, True
        while self._at < len(text):
            char = text[self._at]
            if char in _BLANK + _END + "<>":
                break
            if char == "'":
                bare = False
                parts.append(self._single())
            elif char == '"':
                bare = False
                parts.append(self._double())
            elif char == "\\":
                bare = False
                parts.append(self._escape())
            elif text.startswith("$'", self._at):
                bare = False
                parts.append(self._ansi())
            elif char == "$" or char == "`":
                parts.append(self._substitution())
            else:
                parts.append(self._in.part(self._at, self._at + 1))
                self._at += 1
        spans = self._in.spans[start : self._at]
        return Word(Mapped.join(parts), spans[0][0], spans[-1][1], None, bare)

    def _single(self) -> Mapped:
        end = self._in.text.find("'", self._at + 1)
        end = len(self._in) if end < 0 else end
        inside = self._in.part(self._at + 1, end)
        self._at = min(end + 1, len(self._in))
        return inside

    def _ansi(self) -> Mapped:
        """`$'…'`: escapes as C has them."""
        text, parts = self._in.text, []
        self._at += 2
        while self._at < len(text) and text[self._at] != "'":
            escape = _ANSI.match(text, self._at)
            if escape is None:
                parts.append(self._in.part(self._at, self._at + 1))
                self._at += 1
            else:
                parts.append(self._in.as_char(self._at, escape.end(), _ansi_char(escape[0][1:])))
                self._at = escape.end()
        self._at = min(self._at + 1, len(text))
        return Mapped.join(parts)

    def _double(self) -> Mapped:
        text, parts = self._in.text, []
        self._at += 1
        while self._at < len(text) and text[self._at] != '"':
            if text[self._at] == "\\" and text[self._at + 1 : self._at + 2] in ('"', "\\", "$", "`", "\n"):
                parts.append(self._escape())
            elif text[self._at] in "$`":
                parts.append(self._substitution())
            else:
                parts.append(self._in.part(self._at, self._at + 1))
                self._at += 1
        self._at = min(self._at + 1, len(text))
        return Mapped.join(parts)

    def _escape(self) -> Mapped:
        """A backslash and what follows; a continued line is nothing."""
        at, text = self._at, self._in.text
        self._at = min(at + 2, len(text))
        if at + 1 >= len(text):
            return self._in.part(at, at + 1)
        return Mapped("", ()) if text[at + 1] == "\n" else self._in.as_char(at, at + 2, text[at + 1])

    def _substitution(self) -> Mapped:
        """`$(…)`, `${…}`, backquotes: kept as they are, to their end."""
        text, start = self._in.text, self._at
        pair = {"$(": ")", "${": "}"}.get(text[start : start + 2])
        if text[start] == "`":
            end = text.find("`", start + 1)
            self._at = len(text) if end < 0 else end + 1
        elif pair is None:
            self._at = start + 1
        else:
            depth, self._at = 1, start + 2
            while self._at < len(text) and depth:
                depth += {text[start + 1]: 1, pair: -1}.get(text[self._at], 0)
                self._at += 1
        return self._in.part(start, self._at)
