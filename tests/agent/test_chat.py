"""The chat in a real terminal, on a recorded host: typing while it works, stopping, going on, leaving; and piped."""

from __future__ import annotations

import subprocess
from pathlib import Path

from agent.chat_completion import configured_hosts
from tests.program import ROOT, command, environment, sglscout
from tests.terminal import Terminal, terminal
from transcripts.store import Store

PROMPT = "sglscout>"
ANSWERED = "ask more  sglscout resume ses_"
COMPLAINT = "low on max parallel request context, what options are there for ram offload of kv cache?"


def _diagnosed(chat: Terminal) -> None:
    chat.sees(PROMPT)
    chat.enters(COMPLAINT)
    chat.sees(ANSWERED)


def _shows(chat: Terminal, command: str, *wanted: str) -> str:
    chat.enters(command)
    seen = ""
    for text in wanted:
        seen = chat.sees(text)
    return seen


def _glued(chat: Terminal) -> list[str]:
    """Lines in which something stands before the prompt."""
    return [line for line in chat.everything.splitlines() if PROMPT in line and not line.startswith(PROMPT)]


def test_questions_typed_while_it_works_wait_are_shown_and_answered(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat", "--demo", "slots") as chat:
        chat.sees(PROMPT)
        chat.enters(COMPLAINT)
        chat.sees("search")
        chat.enters("why not ratio 8?")
        seen = chat.sees("queued (1): why not ratio 8?")
        assert ANSWERED not in seen
        chat.types("half a line")
        chat.sees("716.0 GB of host RAM")
        assert f"{PROMPT} half a line" in chat.screen
        assert _glued(chat) == []


def test_a_terminal_that_cannot_move_its_cursor(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat", "--demo", "slots", term="dumb") as chat:
        assert "Alt-Enter" not in chat.sees(PROMPT)  # it reads whole lines
        chat.enters(COMPLAINT)
        chat.sees("search")
        chat.enters("why not ratio 8?")
        chat.sees("queued (1): why not ratio 8?")
        chat.sees("716.0 GB of host RAM")
        chat.stands_at(PROMPT)
        _shows(chat, "/cost", "together: ")
        chat.stands_at(PROMPT)
        assert _glued(chat) == []
        assert "\x1b" not in chat._tmux("capture-pane", "-p", "-e", "-S", "-", "-t", "chat")
        chat.presses("C-c")
        chat.sees("Ctrl-C again leaves.")
        chat.presses("C-c")
        assert chat.ended() == 130


def test_ctrl_c_stops_the_turn_keeps_what_was_found_and_twice_leaves(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat", "--demo", "slots") as chat:
        chat.sees(PROMPT)
        chat.enters(COMPLAINT)
        chat.sees("opened")  # tasks begin; how far each comes before the stop is not this test's matter
        with chat.held():
            chat.enters("and why not ratio 8?")
            chat.presses("C-c")
        chat.sees("stopped; what was found is kept.")
        assert "queued (1)" in chat.everything
        chat.sees(f"{PROMPT} and why not ratio 8?")  # what waited is not lost, it can be sent again
        chat.presses("C-u")
        _shows(chat, "/tasks", "Options that use")
        _shows(chat, "/evidence", "gpu_processes")
        _shows(chat, "/resume", ANSWERED)
        assert "716.0 GB" not in chat.everything
        chat.presses("C-c")
        chat.sees("Ctrl-C again leaves.")
        chat.presses("C-c")
        assert chat.ended() == 130
    (identity,) = [first["id"] for first, _ in Store(tmp_path).heads() if first["role"] == "session"]
    records = Store(tmp_path).read(identity)
    probes = [record["probe"] for record in records if record["type"] == "evidence"]
    assert len(probes) == len(set(probes))
    assert [record["text"] for record in records if record["type"] == "note"] == ["stopped by the operator."]


def test_every_command_after_a_diagnosis(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat", "--demo", "slots") as chat:
        _diagnosed(chat)
        session = next(first["id"] for first, _ in Store(tmp_path).heads() if first["role"] == "session")
        tasks = [first for first, _ in Store(tmp_path).heads() if first["role"] == "task"]
        task = next(first["id"] for first in tasks if "host RAM" in first["description"])
        _shows(chat, "/help", "/writeup", "/quit")
        _shows(chat, "/evidence E3:1", "1: index, name, memory.total")
        _shows(chat, "/evidence E999", "no evidence is E999")
        _shows(chat, "/why H99", "no hypothesis is H99")
        _shows(chat, "/why", "H1 capacity.spec_default_cap: supported", "nothing speaks for: H3 ")
        _shows(chat, "/why 3", "H3 kv.fp8_slow_path: open", "    - ")
        _shows(chat, "/task ses", "tasks are meant by ses")
        _shows(chat, f"/task {task[-5:]}", "last steps:", "question 1: answered [S")
        _shows(chat, "/task nothing", "no task is meant by nothing")
        _shows(chat, f"/stop {task}", "no running task is meant by")
        _shows(chat, "/stop", "nothing is running")
        _shows(chat, "/resume", "nothing was stopped")
        _shows(chat, f"/resume {task} what keeps weights in host ram?", "--cpu-offload-gb: keeps weights, not KV")
        assert "task_id" not in chat.everything
        _shows(chat, "/writeup", "written: ")
        _shows(chat, "/model", "playbook")
        _shows(chat, "/cost", "together: ")
        _shows(chat, "/compact", "characters of conversation")
        _shows(chat, "/nonsense", "/nonsense is no command")
        _shows(chat, "/host local", "the next question opens a new session")
        _shows(chat, f"/resume {session[:18]}", f"{session}: {COMPLAINT[:20]}")
        _shows(chat, "/host", "recorded:slots")
        assert max(len(line) for line in chat.screen.splitlines()) <= 80
        chat.enters("/quit")
        assert chat.ended() == 0


def test_tab_completes_commands_and_ids(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat", "--demo", "slots") as chat:
        _diagnosed(chat)
        task = next(first["id"] for first, _ in Store(tmp_path).heads() if first["role"] == "task")
        chat.types("/evi")
        chat.presses("Tab")
        chat.sees(f"{PROMPT} /evidence")
        chat.presses("C-u")
        chat.types(f"/task {task[:-1].lower()}")
        chat.presses("Tab")
        chat.sees(f"{PROMPT} /task {task}")


def test_lines_from_a_pipe_are_answered_in_turn_without_colour(tmp_path: Path) -> None:
    lines = f"{COMPLAINT}\nwhy not ratio 8?\n/advice\n/nonsense\n/quit\nnever asked\n"
    done = sglscout(tmp_path, "chat", "--demo", "slots", stdin=lines)
    assert done.exit == 0
    places = [done.out.index(text) for text in (
        f"{PROMPT} {COMPLAINT}"[:79].rpartition(" ")[0], ANSWERED, f"{PROMPT} why not ratio 8?", "716.0 GB",
        f"{PROMPT} /advice", "systemctl restart sglang-kimi.service", f"{PROMPT} /nonsense", "no command",
    )]  # fmt: skip
    assert places == sorted(places)
    assert max(len(line) for line in done.out.splitlines()) <= 80
    assert "\x1b" not in done.out + done.err
    assert "never asked" not in done.out


def test_a_question_that_comes_first_does_not_replace_the_complaint(tmp_path: Path) -> None:
    done = sglscout(tmp_path, "chat", "--demo", "slots", stdin="why 48?\n")
    assert done.exit == 0
    first, _, then = done.out.partition(ANSWERED)
    assert "Asked     seems like I'm kinda low on max parallel" in first
    assert "self.max_running_requests = 48" in then
    done = sglscout(tmp_path, "chat", "--demo", "slots", "--complaint", "requests wait", stdin="what if fp8?\n")
    assert "Asked     requests wait" in done.out
    assert "2.00x" in done.out.partition(ANSWERED)[2]


def test_after_a_claim_only_what_it_changed_is_told(tmp_path: Path) -> None:
    claims = ("yes, others wait in the queue", "we tuned --max-running-requests, do not touch it")
    done = sglscout(tmp_path, "chat", "--demo", "slots", stdin="\n".join(["why 48?", *claims]))
    _, held, tuned = (" ".join(part.split()) for part in done.out.split(f"{PROMPT} ")[1:])
    assert f"Told “{claims[0]}” [E41]: your word, weighed as such. The case was weighed anew; all else stands" in held
    assert "Change none; not taken: set --max-running-requests 72: the operator wants it left as it is" in tuned
    assert "costs, watch, next wall; all else stands as before." in tuned
    assert not {"Cause", "Server", "Asked"} & {*held.split(), *tuned.split()}


def test_a_host_that_is_not_there_is_said_and_leaves_its_exit_code(tmp_path: Path) -> None:
    done = sglscout(tmp_path, "chat", "--host", "nobody@127.0.0.1:9", stdin="it is slow\n")
    assert done.exit == 4
    assert "127.0.0.1" in done.out


def test_a_recorded_host_that_there_is_none_of_is_said_before_anything_is_read(tmp_path: Path) -> None:
    done = sglscout(tmp_path, "chat", "--demo", "nosuch")
    assert done.exit == 2
    assert "no recorded host is named 'nosuch'" in done.err


def test_streams_that_are_closed_or_narrow_end_no_command(tmp_path: Path) -> None:
    words = "exec " + " ".join(command("chat", "--demo", "slots")) + " <&-"
    closed = subprocess.run(
        ["sh", "-c", words], env=environment(tmp_path), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (closed.returncode, closed.stdout) == (2, "")
    assert closed.stderr.startswith("sglscout: nothing was asked. Start it at a terminal, or pipe questions")
    assert sglscout(tmp_path, "chat", "--demo", "slots", stdin="\n \n").exit == 2
    narrow = subprocess.run(
        command("policy", "ls “x”"), env=environment(tmp_path) | {"PYTHONIOENCODING": "ascii"}, cwd=ROOT,
        capture_output=True, check=False,
    )  # fmt: skip
    assert b"ls ?x?" in narrow.stdout
    assert b"a bug" not in narrow.stderr


def test_an_error_is_folded_between_words_on_a_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path, "resume", "ses_00000000NOSUCH00") as program:
        assert program.ended() == 2
        lines = [line for line in program._tmux("capture-pane", "-p", "-t", "chat").splitlines() if line.strip()]
    assert len(lines) > 1
    assert max(map(len, lines)) <= 80
    assert [line for line in lines if line.count("`") % 2] == []  # a command stands whole on its line


def test_no_colour_where_it_is_not_wanted(tmp_path: Path) -> None:
    with terminal(tmp_path, "chat", "--demo", "slots", NO_COLOR="1") as chat:
        _diagnosed(chat)
        coloured = chat._tmux("capture-pane", "-p", "-e", "-S", "-", "-t", "chat")
    assert not {f"\x1b[{code}m" for code in range(31, 37)} & set(_codes(coloured))


def _codes(text: str) -> list[str]:
    return [f"\x1b[{part.partition('m')[0]}m" for part in text.split("\x1b[")[1:]]


def test_hosts_are_offered_as_the_configuration_names_them(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host gpu1 gpu2\n  User a\nHost *.lab !x\nhost gpu3\n")
    assert configured_hosts(config) == ["gpu1", "gpu2", "gpu3"]
    assert configured_hosts(tmp_path / "none") == []
