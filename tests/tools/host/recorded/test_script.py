"""The recorded host answers the probe script byte for byte as a real sh does, where the commands say the same."""

from __future__ import annotations

import subprocess

import pytest

from tools.host.framing import Answer, Splitter, compose
from tools.host.probes import Probe
from tools.host.recorded import load
from tools.host.recorded.script import run_script

MARKER = "0123456789abcdef" * 2
PROBES = (
    Probe("says", "echo hello", "one line"),
    Probe("quiet", "true", "nothing at all"),
    Probe("fails", "false", "an exit status"),
    Probe("lacking", "cat /nowhere/at-all", "a complaint on standard error"),
    Probe("absent", "no-such-program --with x", "a program that is not there"),
    Probe("quoted", "echo 'two  words' '$HOME' \"it's\"", "words that sh must not touch"),
    Probe("cut", "echo 123456789012345678901234567890123456789012345678901234567890", "a limit in bytes", "", 5, 40),
    Probe("needing", "cat $GIT", "a slot that stays empty", "GIT"),
    Probe("zero", "cat /proc/sys/vm/overcommit_memory", "a file of the kernel"),
)


def told(answer: Answer) -> tuple[bytes, int | None, bool, bool]:
    """All of an answer that does not depend on the clock."""
    return answer.output, answer.exit, answer.truncated, answer.skipped


def answers(stream: bytes) -> dict[str, Answer]:
    splitter = Splitter(MARKER)
    found = {answer.name: answer for answer in splitter.feed(stream)}
    assert splitter.done
    return found


@pytest.fixture(scope="module")
def real() -> dict[str, Answer]:
    script = compose(PROBES, MARKER).encode()
    return answers(subprocess.run(["sh", "-s"], input=script, capture_output=True, check=True, timeout=60).stdout)


@pytest.fixture(scope="module")
def simulated() -> dict[str, Answer]:
    asked: list[tuple[str, str]] = []
    stream = b"".join(
        run_script(load("story"), compose(PROBES, MARKER), lambda *pair: asked.append((pair[0], pair[1])))
    )
    assert [name for name, _ in asked] == ["discovery", *(probe.name for probe in PROBES if not probe.needs)]
    return answers(stream)


@pytest.mark.parametrize("name", [probe.name for probe in PROBES if probe.name != "zero"])
def test_an_answer_is_that_of_a_real_shell(name: str, real: dict[str, Answer], simulated: dict[str, Answer]) -> None:
    if name == "needing" and not real[name].skipped:
        pytest.fail("this machine serves SGLang from a git tree; run the tests elsewhere")
    assert told(simulated[name]) == told(real[name])


def test_the_same_shape_for_files(real: dict[str, Answer], simulated: dict[str, Answer]) -> None:
    assert (simulated["zero"].exit, simulated["zero"].output.strip().isdigit()) == (0, True)
    assert simulated["zero"].output.count(b"\n") == real["zero"].output.count(b"\n")


def test_discovery_names_the_same_things(real: dict[str, Answer], simulated: dict[str, Answer]) -> None:
    def keys(answer: Answer) -> list[str]:
        return [key for line in answer.output.decode().splitlines() if (key := line.split("=")[0]) != "also"]

    assert keys(simulated["discovery"]) == keys(real["discovery"])
