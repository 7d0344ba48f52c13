"""Two processes want one session at the same moment: one gets it, the other is told who has it.

`SGLSCOUT_RACES=1000 pytest -s tests/transcripts/test_races.py` is the long form.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.program import ROOT
from transcripts.ids import new_id
from transcripts.store import Store

RACES = int(os.environ.get("SGLSCOUT_RACES", "50"))

# Each race forks two; both begin when a byte pipe is closed, the winner writes and holds until both have tried, and in
# every other race it is killed instead of giving the session back.
RACER = """
import json, os, signal, sys
from pathlib import Path
from transcripts.files import BusyError
from transcripts.store import Store

store, identity, races = Store(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])

for number in range(races):
    start, begin = os.pipe()
    told, tell = os.pipe()
    over, end = os.pipe()
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            os.close(begin), os.close(end)
            os.read(start, 1)
            try:
                with store.open(identity) as transcript:
                    transcript.append({"type": "note", "text": f"{number} {os.getpid()}"})
                    os.write(tell, json.dumps({"won": os.getpid()}).encode() + b"\\n")
                    os.read(over, 1)
                    if number % 2:
                        os.kill(os.getpid(), signal.SIGKILL)
            except BusyError as error:
                lost = {"lost": os.getpid(), "said": error.message, "code": error.exit_code}
                os.write(tell, json.dumps(lost).encode() + b"\\n")
            os._exit(0)
        children.append(child)
    os.close(start), os.close(tell), os.close(over)
    os.close(begin)
    lines = b""
    while lines.count(b"\\n") < 2:
        lines += os.read(told, 4096)
    os.close(end), os.close(told)
    for child in children:
        os.waitpid(child, 0)
    print(json.dumps([json.loads(line) for line in lines.splitlines()]), flush=True)
"""


def test_one_gets_it_and_the_other_is_told_who_has_it(tmp_path: Path) -> None:
    store, identity = Store(tmp_path), new_id()
    store.create(identity, {"type": "opened", "id": identity, "role": "session", "text": "slow"}).close()
    done = subprocess.run(
        [sys.executable, "-c", RACER, str(tmp_path), identity, str(RACES)],
        capture_output=True, text=True, cwd=ROOT, check=True, timeout=600,
    )  # fmt: skip
    races = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(races) == RACES
    for race in races:
        (winner,) = [each["won"] for each in race if "won" in each]
        (loser,) = [each for each in race if "lost" in each]
        assert loser["said"] == f"{identity} is in use by process {winner}."
        assert loser["code"] == 2
    records = store.read(identity)
    assert [record["seq"] for record in records] == list(range(1, RACES + 2))
    print(f"{RACES} races, {RACES} with one winner and a loser who was told its process")
