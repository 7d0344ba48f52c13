"""Arguments in effect, from the log line or from /server_info.

Up to 0.5.16 the log prints a dataclass (`server_args=ServerArgs(model_path='…', …)`, sglang 0.5.9
srt/entrypoints/engine.py:1031), later a dictionary (0.5.23 srt/entrypoints/engine.py:1185). Both hold keys in clear
text: names that can hold a secret are dropped here, whatever redaction did before.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Final

Scalar = bool | int | float | str

_SECRET: Final = re.compile(
    r"api_?key|passw|secret|credential|private_?key|keyfile|(?:access|auth|hf|bearer|security)_?token(?!s|izer)|^token$",
    re.I,
)
_CLOSING: Final = {"(": ")", "[": "]", "{": "}", "<": ">"}
_LONGEST_VALUE: Final = 4_000
_NAME: Final = re.compile(r"\w+")
_BREAK: Final = re.compile(r"""[,'"()\[\]{}<>]""")
_WORDS: Final = {"None": "None", "null": "None"}


def from_log(text: str) -> dict[str, Scalar]:
    """Destination -> value from the line `server_args=…`; what a cut leaves unfinished is left out."""
    start = text.find("server_args=")
    if start < 0:
        return {}
    rest = text[start + len("server_args=") :]
    if rest.startswith("ServerArgs("):
        pairs = (part.partition("=") for part in _parts(rest[len("ServerArgs(") :], ")"))
    elif rest.startswith("{"):
        pairs = (part.partition(":") for part in _parts(rest[1:], "}"))
    else:
        return {}
    found: dict[str, Scalar] = {}
    for name, sign, value in pairs:
        key = name.strip().strip("'\"")
        if sign and _NAME.fullmatch(key) and not is_secret(key):
            found[key] = _scalar(value.strip())
    return found


def from_mapping(values: Mapping[str, object]) -> dict[str, Scalar]:
    """The same from decoded JSON: lists and objects as compact text, null as `None`, secrets left out."""
    found: dict[str, Scalar] = {}
    for key, value in values.items():
        if is_secret(key):
            continue
        if isinstance(value, bool | int | float | str):
            found[key] = value
        elif value is None:
            found[key] = "None"
        else:
            text = repr(value)
            if len(text) <= _LONGEST_VALUE and not _SECRET.search(text):
                found[key] = text
    return found


def is_secret(name: str) -> bool:
    """Whether a name can hold a secret (`api_key`, `ssl_keyfile_password`, `hf_token`; not `max_total_tokens`)."""
    return _SECRET.search(name) is not None


def _parts(text: str, closing: str) -> Iterator[str]:
    """Pieces between commas at the outermost level, up to the closing bracket; an unfinished last piece is dropped."""
    stack: list[str] = []
    quote = ""
    start = position = 0
    while position < len(text):
        letter = text[position]
        if quote:
            end = _end_of_text(text, position, quote)
            if end < 0:
                return
            position, quote = end, ""
        elif letter in "'\"":
            quote = letter
        elif stack and letter == stack[-1]:
            stack.pop()
        elif not stack and letter == closing:
            yield text[start:position]
            return
        elif letter in _CLOSING:
            stack.append(_CLOSING[letter])
        elif letter == "," and not stack:
            yield text[start:position]
            start = position + 1
        position += 1
        if not quote:
            found = _BREAK.search(text, position)
            position = found.start() if found else len(text)


def _end_of_text(text: str, position: int, quote: str) -> int:
    """Where the quoted text ends, -1 where it does not; backslashes as repr writes them."""
    while True:
        end = text.find(quote, position)
        if end < 0:
            return -1
        slashes = 0
        while text[end - slashes - 1] == "\\" and end - slashes > position:
            slashes += 1
        if slashes % 2 == 0:
            return end
        position = end + 1


def _scalar(value: str) -> Scalar:
    if value in _WORDS:
        return _WORDS[value]
    if value in ("True", "true"):
        return True
    if value in ("False", "false"):
        return False
    if len(value) <= _LONGEST_VALUE:
        try:
            read = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return value
        if isinstance(read, bool | int | float | str):
            return read
    return value[:_LONGEST_VALUE]
