"""A real terminal for tests: the program in a tmux pane, keys in, the screen and what scrolled away out."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.needs import needs
from tests.program import ROOT, command, environment

DEADLINE_S = 90.0


@dataclass(frozen=True, slots=True)
class Terminal:
    """One pane. `sees` polls the screen until the text is there, and fails with the screen when it never is."""

    socket: str

    def _tmux(self, *words: str) -> str:
        done = subprocess.run(["tmux", "-L", self.socket, *words], capture_output=True, text=True, check=False)
        return done.stdout

    def types(self, text: str) -> None:
        self._tmux("send-keys", "-t", "chat", "-l", text)

    def enters(self, text: str) -> None:
        self.types(text)
        self.presses("Enter")

    def presses(self, *keys: str) -> None:
        self._tmux("send-keys", "-t", "chat", *keys)

    @property
    def screen(self) -> str:
        """What is to be seen now."""
        return self._tmux("capture-pane", "-p", "-t", "chat")

    @property
    def everything(self) -> str:
        """The screen and what scrolled off it, lines that wrapped at the edge joined again."""
        return self._tmux("capture-pane", "-p", "-J", "-S", "-", "-t", "chat")

    @contextmanager
    def held(self) -> Iterator[None]:
        """The program stands still meanwhile; keys pressed in between are there when it goes on."""
        shell = self._tmux("display-message", "-p", "-t", "chat", "#{pane_pid}").strip()
        program = int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])
        os.kill(program, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(program, signal.SIGCONT)

    def sees(self, text: str, times: int = 1) -> str:
        until = time.monotonic() + DEADLINE_S
        while (seen := self.everything).count(text) < times:
            if time.monotonic() > until:
                raise AssertionError(f"{text!r} never came {times} times:\n{seen}")
            time.sleep(0.05)
        return seen

    def stands_at(self, prompt: str) -> None:
        """Wait until the prompt stands alone on the last line: what is typed before is echoed wherever output ends."""
        until = time.monotonic() + DEADLINE_S
        while not (seen := self.screen.rstrip()).endswith("\n" + prompt.rstrip()):
            if time.monotonic() > until:
                raise AssertionError(f"{prompt!r} never stood alone on the last line:\n{seen}")
            time.sleep(0.05)

    def ended(self) -> int:
        """Wait for the program to end; its exit code."""
        seen = self.sees("ended with ")
        return int(seen.rpartition("ended with ")[2].split()[0])


@contextmanager
def terminal(
    home: Path, *words: str, columns: int = 80, term: str = "screen-256color", **variables: str
) -> Iterator[Terminal]:
    """`sglscout WORDS` in a terminal of 40 lines."""
    needs("tmux", apt="tmux")
    pane = Terminal(f"sglscout-{uuid.uuid4().hex[:8]}")
    kept = {name: value for name, value in environment(home).items() if name not in ("COLUMNS", "TERM")}
    given = kept | {"PYTHONPATH": str(ROOT)} | variables
    program = shlex.join(["env", f"TERM={term}", *command(*words)])
    variables_given = [part for pair in given.items() for part in ("-e", "=".join(pair))]
    start = ["tmux", "-L", pane.socket, "-f", "/dev/null", "new-session", "-d", "-s", "chat", "-y", "40"]
    size = ["-x", str(columns)]
    line = f"trap : INT; cd {ROOT}; {program}; echo ended with $?; read -r end"
    subprocess.run([*start, *size, *variables_given, "sh", "-c", line], check=True, env=given)
    pane._tmux("set-option", "-g", "history-limit", "20000")
    try:
        yield pane
    finally:
        pane._tmux("kill-server")
