"""Allowed commands, changed a little: none may stay allowed unless it is still only a reading command.

SGLSCOUT_LONG_TESTS=1 judges every mutant (more than 50,000); without it a sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.long import LONG
from tests.tools.host.policy.rows import rows
from tools.host.policy import Verdict, judge

STRIDE = 1 if LONG else 23
ACTIVE = "$`\\!#~<>(){}&\n\r\t\0[]\u200b\u202e\u00a0\uff1b\u0456"
TAILS = (
    "; reboot", " && rm -rf /x", " || reboot", " | sh", " | tee /etc/x", " > /etc/x", " >> /etc/x", " 2> /etc/x",
    " < /etc/shadow",
    " $(id)", " `id`", " & reboot", "\nreboot", " # x", " <<EOF", " | xargs rm", " && cat /etc/shadow", " | base64",
    " ; exec sh",
    " ${IFS}x", " {a,b}", " && systemctl restart x", " | env", " ; nvidia-smi -r", " && curl http://evil.example/",
)  # fmt: skip
# Taken from the tools' own manuals: options that write, run, follow, or reach elsewhere.
OPTIONS = {
    "nvidia-smi": "-r --gpu-reset -pm=1 -pl=300 -lgc=1000 -rgc -ac=1,1 -rac -mig=1 -e=0 -p=0 -f=/etc/x "
    "--filename=/etc/x -l=1 -lms=1 --loop=1 -gom=1 -dm=1 -am=1 -caa -cc=1 -lmc=1 -rmc -gtt=80 -acp=0",
    "journalctl": "--vacuum-size=1 --vacuum-time=1 --vacuum-files=1 --rotate --flush --sync --relinquish-var "
    "--setup-keys --update-catalog --cursor-file=/etc/x -f --follow --root=/x -D/x --directory=/x "
    "--file=/x --vacuum-s=1 --image=/x",
    "systemctl": "-H=x -Hx --host=x -Mx --machine=x --root=/x --image=/x --now --force -f -s=KILL -sKILL "
    "--signal=9 --kill-whom=all --runtime --job-mode=x",
    "dmesg": "-C -c -Cx -D -E -n1 -n --clear --read-clear --console-off --console-on --console-level=1 -w -W "
    "--follow --follow-new -F/etc/shadow --file=/etc/shadow --cle",
    "find": "-delete -fls -fprint -fprint0 -fprintf -exec -execdir -ok -okdir -files0-from -L -follow",
    "sort": "-o/etc/x -o --output=/etc/x --outp=/etc/x -T/x --temporary-directory=/x --compress-program=sh "
    "--files0-from=/etc/shadow --files0=/x -ro/etc/x",
    "rg": "--pre=sh --pre --hostname-bin=sh -z --search-zip -f/etc/shadow --file=/etc/shadow "
    "--ignore-file=/x -L --follow -zn",
    "grep": "-f/etc/shadow --file=/etc/shadow --fil=/x -R --dereference-recursive -d=recurse -drecurse "
    "--exclude-from=/etc/shadow -cf/etc/shadow",
    "curl": "-o/etc/x -o --output=/etc/x -O -d=x -dx --data=x -F=x -T/etc/shadow -x=http://evil -xevil "
    "--proxy=evil -L --location -K/etc/shadow --next -H=x --resolve=x:1:2 --unix-socket=/x -w=x "
    "-XPOST -X=POST --request=POST --connect-to=x --dump-header=/etc/x -sO -sL -so/etc/x",
    "docker": "-H=tcp://x --host=tcp://x -f --follow --config=/x --context=x",
    "ss": "-K --kill -K -E --events -D/etc/x --diag=/etc/x -F/etc/shadow --filter=/etc/shadow -N=x -Nx "
    "--net=x -lK",
    "ip": "-b=/x -batch -force -n -netns -all",
    "ethtool": "-s -K -A -C -G -L -N -U -X -p -t -r -f -E --flash --set-priv-flags --reset",
    "date": "-s=now -snow --set=now -f/etc/shadow --file=/etc/shadow --se=now",
    "hostname": "-F=/x -F/x --file=/x -b evil",
    "top": "-bn=0",
    "tail": "-f -F --follow --follow=name --retry --fol=name -nf",
    "lsof": "-r +r1 -r5 +D/ -D=r",
    "awk": "-f/x -fx --file=/x -lx --load=x -ix -E/x -v=x",
    "sysctl": "-w -p --system --load --write -q x=1 vm.x=1",
    "uniq": "/tmp/in",
    "free": "-s0 -s --seconds=99",
    "ps": "e eww axe -E",
    "dcgmi": "--host=x -a -b -c -d -s --set",
    "wc": "--files0-from=/etc/shadow --files0=/x",
    "lspci": "-i/etc/shadow -p/x -F/x -A=x -Ax -Ox -H1 -x -xxxx -M -q -Q",
    "du": "--files0-from=/x -X/etc/shadow --exclude-from=/x",
    "vmstat": "1",
    "cat": "-f --x /etc/shadow",
    "systemd-analyze": "--host=x -Hx --root=/x",
}  # fmt: skip


def _outside_quotes(command: str) -> Iterator[int]:
    quote = ""
    for position, mark in enumerate(command):
        if not quote:
            yield position
        if mark in "'\"" and quote in {"", mark}:
            quote = "" if quote else mark
    if not quote:
        yield len(command)


def _inserted(command: str) -> Iterator[str]:
    for position in _outside_quotes(command):
        for mark in ACTIVE:
            yield command[:position] + mark + command[position:]


def _extended(command: str, denied: list[str]) -> Iterator[str]:
    yield from (command + tail for tail in TAILS)
    for other in denied:
        for joint in (" ; ", " && ", " || ", " | "):
            yield command + joint + other
            yield other + joint + command


def _with_options(command: str) -> Iterator[str]:
    name = command.split()[0]
    words = command.split(" ")
    for option in OPTIONS.get(name, "").split():
        for position in range(1, len(words) + 1):
            head = words[:position]
            if " ".join(head).count("'") % 2 == 0 and "|" not in head and "--" not in head and "&&" not in head:
                yield " ".join([*head, option, *words[position:]])


def _harmful(verdict: Verdict) -> bool:
    """Does an allowed argv hold what must never run? Written without the catalogue."""
    bad = re.compile(
        r"/etc/(shadow|x$)|^(reboot|rm|sh|tee|xargs|env|base64|exec)$|evil"
        r"|--(vacuum|rotate|flush|output|pre=|compress|kill|follow)|^-delete$|^-exec"
    )
    return any(bad.search(word) for stage in verdict.stages for word in stage)


def test_no_mutant_of_an_allowed_command_is_wrongly_allowed() -> None:
    table = rows()
    allowed = [command for command, want, _ in table if want == "allow"]
    denied = [command for command, want, _ in table if want == "deny" and "[limit]" not in _]
    counted = 0
    wrong: list[str] = []
    for command in allowed:
        mutants = [*_inserted(command), *_extended(command, denied), *_with_options(command)]
        for mutant in mutants[::STRIDE]:
            counted += 1
            if judge(mutant).kind == "allow" and not _still_reads(command, mutant):
                wrong.append(mutant)
    assert wrong == []
    assert counted >= (50_000 if LONG else 1_000)


def _still_reads(command: str, mutant: str) -> bool:
    """A pattern of find or an argument of grep may take an option's word as its own value: then nothing was added."""
    verdict = judge(mutant)
    if _harmful(verdict):
        return False
    name = command.split()[0]
    added = set(mutant.split()) - set(command.split())
    return name == "grep" and "-e" in added


def test_quotes_blanks_and_joints_moved_about_add_nothing() -> None:
    for command in [command for command, want, _ in rows() if want == "allow"]:
        for position in range(0, len(command) + 1, 1 if LONG else 5):
            for mark in "'\" ;|*?=-":
                verdict = judge(command[:position] + mark + command[position:])
                assert verdict.kind != "allow" or not _harmful(verdict)
