"""What the filters of a pipeline share: their output, their input, text as lines."""

from __future__ import annotations

from tools.host.recorded.files import Files, Missing

Output = tuple[int, str, str]


def split(text: str) -> list[str]:
    return text.split("\n")[:-1] if text.endswith("\n") else text.split("\n") if text else []


def join(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


def inputs(name: str, files: Files, paths: list[str], stdin: str) -> tuple[list[tuple[str, str]], str]:
    """(path, text) of what can be read, and the complaints about the rest."""
    if not paths:
        return [("-", stdin)], ""
    found, complaints = [], ""
    for path in paths:
        try:
            found.append((path, stdin if path == "-" else files.read(path)))
        except Missing:
            opening = "cannot open '{}' for reading: " if name in ("head", "tail") else "{}: "
            complaints += f"{name}: {opening.format(path)}No such file or directory\n"
        except IsADirectoryError:
            complaints += f"{name}: {path}: Is a directory\n"
    return found, complaints
