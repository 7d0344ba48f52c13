"""The parent that forks: everything is imported once, each child is the program as its `main` runs it.

Reads a JSON line `{"words": […], "env": {…}, "out": PATH, "err": PATH}`, answers `{"pid": N}` and, when the child has
ended, `{"signal": N, "exit": N}`. It has no threads and no event loop, so that a child begins like a fresh process.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
from typing import Any, Final

PRELOADED: Final = (
    "agent.cli",
    "agent.commands.diagnose",
    "agent.models.openai_compatible",
    "agent.roles.main",
    "agent.roles.researcher",
    "agent.run",
    "agent.views.markdown",
    "agent.views.terminal",
    "agent.views.watching",
    "openai",
    "openai.resources.chat",
    "paramiko",
    "tenacity",
    "tools.advice",
    "tools.capacity",
    "tools.diagnosis",
    "tools.host.parsers",
    "tools.host.policy",
    "tools.host.ssh",
    "tools.source",
)


def main() -> None:
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _program(request)
        _tell({"pid": child})
        _, status = os.waitpid(child, 0)
        _tell({"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else {"exit": os.WEXITSTATUS(status)})


def _tell(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _program(request: dict[str, Any]) -> None:
    """The child: its own streams, environment and words; it never comes back."""
    code = 70
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(request["out"], os.O_WRONLY), 1)
        os.dup2(os.open(request["err"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
        os.environ.update(request["env"])
        sys.argv = ["sglscout", *request["words"]]
        from agent.cli import main as program

        program()
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
