"""The standard probes: what the policy says of them, and what the one script finds on a real machine."""

from __future__ import annotations

import asyncio
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.needs import needs
from tools.host import STANDARD, Observation, Probe, connect, fetch_tree, least_rights, look
from tools.host.framing import Splitter, compose, decompose, fill, frame
from tools.host.look import problem_of, slots_of
from tools.host.policy import judge
from tools.host.probes import READERS
from transcripts.errors import Inconclusive

SLOTS = {
    "PID": "4711",
    "UNIT": "sglang-kimi.service",
    "PORT": "30000",
    "CGROUP": "/system.slice/sglang-kimi.service",
    "MODEL": "/models/kimi",
    "DRAFT": "/root/draft",
    "PACKAGE": "/root/sglang/python/sglang",
    "DIST": "/root/venv/lib/python3.12/site-packages/sglang-0.5.9.dist-info",
    "GIT": "/root/sglang/.git/refs/heads/main",
    "VERSION": "/root/sglang/python/sglang/_version.py",
    "CONTAINER": "a" * 64,
    "PODMAN": "b" * 64,
    "LOG": "/root/sglang.log",
    "BOOTLOG": "/root/sglang.log",
    "SINCE": "1796000000",
    "UNTIL": "1796001860",
    "MEMGROUP": "/docker/" + "a" * 64,
}
MARKER = "0123456789abcdef" * 2


@pytest.mark.parametrize("probe", STANDARD, ids=lambda probe: probe.name)
def test_every_probe_is_one_that_the_policy_allows_or_a_named_reader(probe: Probe) -> None:
    import shlex

    verdict = judge(shlex.join(fill(probe.argv, SLOTS)))
    if probe.name in READERS:
        assert verdict.kind in ("allow", "ask", "deny")
        assert probe.argv[0] in ("cat", "head", "tail", "grep", "curl")
    else:
        assert verdict.kind == "allow", verdict.reason


def test_a_script_taken_apart_asks_what_was_put_together() -> None:
    marker, asked = decompose(compose(STANDARD, MARKER))
    assert marker == MARKER
    assert [(one.name, list(one.argv), one.needs, one.limit_s, one.limit_bytes) for one in asked] == [
        (probe.name, probe.argv, probe.needs, probe.limit_s, probe.limit_bytes) for probe in STANDARD
    ]


@given(st.lists(st.binary(max_size=200), max_size=6), st.integers(1, 40))
@settings(max_examples=200, deadline=None)
def test_no_output_passes_for_a_frame(outputs: list[bytes], step: int) -> None:
    outputs = [
        *outputs,
        b"\n00000000000000000000000000000000 end 5\nhello",
        b"x 0\n" + MARKER[:31].encode() + b" end 0\n",
    ]
    stream = b"noise of a login\n" + b"".join(frame(MARKER, f"p{i}", out, 0, 1 << 16) for i, out in enumerate(outputs))
    stream += frame(MARKER, "end", b"", 0, 1 << 10)
    splitter = Splitter(MARKER)
    got = [answer for at in range(0, len(stream), step) for answer in splitter.feed(stream[at : at + step])]
    assert [answer.name for answer in got] == [f"p{i}" for i in range(len(outputs))]
    for answer, output in zip(got, outputs, strict=True):
        assert answer.output.removesuffix(b"\n") == output.replace(b"\0", b"\n").removesuffix(b"\n")
    assert splitter.done


@contextmanager
def _server(folder: Path, *words: str, log: str = "out.log", name: str = "sglang") -> Iterator[int]:
    """A process that has the command line of a server, and does nothing."""
    package = folder / name
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "launch_server.py").write_text(
        "import time\nprint('server_args=ServerArgs()', flush=True)\nprint('The server is fired up and ready to roll!'"
        ", flush=True)\ntime.sleep(600)\n"
    )
    (package / "_version.py").write_text("__version__ = version = '0.5.9'\n")
    with (folder / log).open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", f"{name}.launch_server", *words],
            cwd=folder,
            stdout=out,
            env={"PATH": os.environ["PATH"], "HF_TOKEN": "hf_secretsecret", "SGLANG_ENABLE_SPEC_V2": "True"},
        )
    try:
        while "ready to roll" not in (folder / log).read_text():
            if process.poll() is not None:
                raise AssertionError("the stand-in ended")
        yield process.pid
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


def _look() -> dict[str, Observation]:
    async def work() -> dict[str, Observation]:
        async with connect("local") as host:
            return {seen.probe: seen async for seen in look(host)}

    return asyncio.run(work())


def _found(seen: dict[str, Observation]) -> dict[str, str]:
    return dict(line.split("=", 1) for line in seen["discovery"].text.splitlines() if "=" in line)


def test_a_server_in_a_plain_shell_that_writes_to_a_file(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"architectures": ["X"]}')
    with _server(tmp_path / "run", "--model-path", str(model), "--port=31234") as pid:
        seen = _look()
    found = _found(seen)
    assert found["pid"] == str(pid)
    assert (found["port"], found["model"], found["output"]) == ("31234", str(model), "file")
    assert found["package"] == str(tmp_path / "run" / "sglang")
    assert "ready to roll" in seen["log_recent"].text
    assert "server_args=" in seen["log_boot"].text
    assert "0.5.9" in seen["package_version"].text
    assert seen["model_config"].text.startswith('{"architectures"')
    assert seen["process"].command == f"cat /proc/{pid}/cmdline"
    assert seen["unit"].problem == "skipped"


def test_of_the_environment_only_names_and_plain_switches_leave_the_host(tmp_path: Path) -> None:
    with _server(tmp_path / "run"):
        lines = _look()["environment"].text.split()
    assert "SGLANG_ENABLE_SPEC_V2=True" in lines
    assert "HF_TOKEN=" in lines
    assert not any("secret" in line for line in lines)


@pytest.mark.parametrize(
    "value", ["/m/$(touch X)", "/m/`touch X`", "/m/a;touch X", "/m/a'b", '/m/a"b', "/m/../etc", "/m/a\nb", "-rf", "*"]
)
def test_a_hostile_command_line_cannot_widen_what_runs(tmp_path: Path, value: str) -> None:
    folder = tmp_path / "run"
    value = value.replace("touch X", f"touch {tmp_path}/made")
    with _server(folder, "--model-path", value, "--port", "30000;id"):
        seen = _look()
    assert _found(seen)["model"] == ""
    assert seen["model_config"].problem == "skipped"
    assert not (tmp_path / "made").exists()
    assert _found(seen)["port"].isdecimal()


def test_several_servers_are_all_named(tmp_path: Path) -> None:
    with _server(tmp_path / "a", "--port", "30001") as first, _server(tmp_path / "b", "--port", "30002") as second:
        found = _look()["discovery"].text
    assert set(found.split("all_pids=")[1].splitlines()[0].split()) == {str(first), str(second)}
    assert f"also={max(first, second)} 3000" in found or f"also={min(first, second)} 3000" in found


def test_no_server_is_found_where_only_its_name_is_mentioned(tmp_path: Path) -> None:
    process = subprocess.Popen(["sh", "-c", "sleep 60; : sglang.launch_server"])
    try:
        assert _found(_look())["pid"] == ""
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


def test_what_looking_cost_is_said() -> None:
    cost = dict(line.split("=") for line in _look()["cost"].text.split())
    assert int(cost["probes"]) == len(STANDARD)
    assert 0 <= float(cost["cpu_seconds"]) < 60
    assert int(cost["bytes"]) > 1000


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_the_script_reads_alike_in_every_shell(shell: str) -> None:
    program = needs(shell, apt=shell)
    done = subprocess.run(
        [program, "-s"],
        input=compose(STANDARD, MARKER).encode(),
        capture_output=True,
        check=False,
        start_new_session=True,
    )
    splitter = Splitter(MARKER)
    names = [answer.name for answer in splitter.feed(done.stdout)]
    assert sorted(names) == sorted(["discovery", *(probe.name for probe in STANDARD)])
    assert done.stderr == b""


def _fetch(folder: Path) -> bytes:
    async def work() -> bytes:
        async with connect("local") as host:
            return b"".join([piece async for piece in fetch_tree(host, str(folder))])

    return asyncio.run(work())


def test_a_tree_comes_whole_and_only_as_text(tmp_path: Path) -> None:
    package = tmp_path / "sglang"
    (package / "srt").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "srt" / "server_args.py").write_bytes(os.urandom(300_000))
    (package / "srt" / "kernel.so").write_bytes(b"\x7fELF")
    (package / "srt" / "large.json").write_bytes(b" " * (3 << 20))
    (package / "srt" / "link.py").symlink_to("/etc/passwd")
    with tarfile.open(fileobj=io.BytesIO(_fetch(package)), mode="r:gz") as archive:
        members = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}  # type: ignore[union-attr]
    assert set(members) == {"./__init__.py", "./srt/server_args.py"}
    assert members["./srt/server_args.py"] == (package / "srt" / "server_args.py").read_bytes()


@pytest.mark.parametrize("folder", ["/no/such", "relative", "/a/../b", "/x;id", "/tmp"])
def test_what_is_no_package_is_not_fetched(folder: str) -> None:
    with pytest.raises(Inconclusive):
        _fetch(Path(folder) if folder != "relative" else Path("relative"))


def test_local_probes_leave_nothing_running() -> None:
    slow = Probe("slow", f"{shutil.which('sleep')} 6187", "stands in for a program that hangs", limit_s=500)

    async def work() -> list[str]:
        async with connect("local") as host, aclosing(host.observe([slow])) as stream:
            async for seen in stream:
                return [seen.probe]
        return []

    assert asyncio.run(work()) == ["discovery"]
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "sleep 6187" not in listed


def test_a_login_without_rights_is_told_which_would_do(tmp_path: Path) -> None:
    setpriv = needs("setpriv", apt="util-linux")
    if os.getuid() != 0:
        pytest.skip("only root can look with another user's eyes")
    with _server(tmp_path / "run", "--port", "30007") as pid:
        done = subprocess.run(
            [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-s"],
            input=compose(STANDARD, MARKER).encode(),
            capture_output=True,
            check=False,
            start_new_session=True,
        )
    answers = {answer.name: answer for answer in Splitter(MARKER).feed(done.stdout)}
    found = slots_of(answers["discovery"].output.decode())
    assert (found["PID"], found["PORT"], found["OUTPUT"]) == (str(pid), "30007", "unreadable")
    denied = {
        name
        for name, answer in answers.items()
        if problem_of(answer.output.decode("utf-8", "replace"), answer.exit) == "denied"
    }
    assert "environment" in denied
    assert all(least_rights(name) for name in denied)
