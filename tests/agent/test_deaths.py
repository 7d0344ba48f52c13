"""Thousands of `kill -9` of the program with a model at an endpoint, on a recorded host over SSH.

    SGLSCOUT_DEATHS=5000 pytest -s tests/agent/test_deaths.py      the long form; it prints what it counted
    SGLSCOUT_SEED=N                                                other moments

After each death: every record that was shown is on disk as it was shown, every task has an id and a status, and the
session is taken up again. What the host had answered on record is not asked again. In the end the answer is that of a
run nobody disturbed. Death comes at a moment of the life: so long after so many records were shown.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.case import Case
from agent.document import document
from tests.agent.deaths.lives import Life, Moment, Parent
from tests.agent.deaths.world import ANSWER, COMMAND, World, world
from transcripts.records import records_of
from transcripts.store import Store

Json = dict[str, Any]
DEATHS = int(os.environ.get("SGLSCOUT_DEATHS", "100"))
SEED = int(os.environ.get("SGLSCOUT_SEED", "7"))
DEATHS_OF_ONE = 25  # each costs a turn or two of the sixty that one question may spend
COMPLAINT = "low on max parallel requests"
HOST_ALWAYS = {"discovery", "command"}


@dataclass(slots=True)
class Count:
    """What the long form prints."""

    deaths: int = 0
    sessions: int = 0
    shown: int = 0
    lost: list[Json] = field(default_factory=list)
    asked_again: list[str] = field(default_factory=list)
    nameless: list[str] = field(default_factory=list)
    unresumed: list[str] = field(default_factory=list)
    torn: int = 0
    died_while: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return (
            f"{self.deaths} deaths in {self.sessions} sessions, {self.shown} records shown before them: "
            f"{len(self.lost)} lost, {len(self.asked_again)} commands asked again, "
            f"{len(self.nameless)} tasks without id or status, {len(self.unresumed)} sessions not resumed; "
            f"{self.torn} torn lines cut; last record before death: {dict(self.died_while.most_common())}"
        )


@dataclass(slots=True)
class Trial:
    """One session after another, each killed until it is done."""

    home: Path
    parent: Parent
    world: World
    chance: random.Random
    count: Count

    def session(self, number: int, *, deaths_left: int) -> Json:
        """A session from its complaint to its answer; its document."""
        home = self.home / str(number)
        store = Store(home)
        env = {"SGLSCOUT_HOME": str(home), "OPENAI_BASE_URL": self.world.url, "OPENAI_API_KEY": "k"}
        env["SGLSCOUT_MODEL"] = "m"
        identity = ""
        self.count.sessions += 1
        while True:
            words = ["resume", identity] if identity else ["diagnose", COMPLAINT, "--host", "gpu1"]
            answered = self._answered(store, identity)
            before = self.world.host.probes, self.world.host.asked
            life = self.parent.live([*words, "--events"], env, self._moment() if deaths_left > 0 else None)
            self._asked_again(answered, *before)
            identity = identity or next((name for name in store.ids() if _first(store, name) == "session"), "")
            self._kept(store, identity, life)
            if life.exit is not None:
                if life.exit != 3 or "sglscout:" in life.err:
                    self.count.unresumed.append(f"{identity}: {life.exit} {life.err}")
                return document(Case.fold(records_of(store.read(identity))))
            deaths_left -= 1
            self.count.deaths += 1

    def _moment(self) -> Moment:
        if self.chance.random() < 0.3:
            return Moment(0, self.chance.uniform(0.0, 0.5))
        return Moment(self.chance.randrange(1, 12), self.chance.choice((0.0, self.chance.uniform(0.0, 0.03))))

    def _answered(self, store: Store, identity: str) -> set[str]:
        """What the host has answered on record: probes, and whether the one command was run."""
        records = store.peek(identity) if identity else []
        return {record["probe"] for record in records if record["type"] == "evidence"}

    def _asked_again(self, answered: set[str], probes: Counter[str], asked: Counter[str]) -> None:
        again = [probe for probe in answered - HOST_ALWAYS if self.world.host.probes[probe] > probes[probe]]
        if "command" in answered:
            again += [line for line, n in self.world.host.asked.items() if COMMAND in line and n > asked[line]]
        self.count.asked_again += again

    def _kept(self, store: Store, identity: str, life: Life) -> None:
        """Everything that was shown is on disk; every task of the session has an id and a status."""
        self.count.shown += len(life.shown)
        on_disk: dict[str, dict[int, Json]] = {}
        for event in life.shown:
            name = event.get("transcript") or identity
            if name not in on_disk:
                on_disk[name] = {record["seq"]: record for record in store.peek(name)}
            stored = on_disk[name].get(event["seq"], {})
            if any(stored.get(key) != value for key, value in event.items() if key not in ("v", "transcript")):
                self.count.lost.append(event)
        if not identity:
            return
        records = store.read(identity)
        assert not [record for record in records if record["type"] == "damaged"]
        self.count.torn = self.count.torn + (records[-1]["type"] == "repaired")
        if life.exit is None:
            self.count.died_while[records[-1]["type"]] += 1
        case = Case.fold(records_of(records))
        self.count.nameless += [
            str(task) for task in case.tasks.values() if not (task.id and task.status and task.asked)
        ]
        known = {name for name in store.ids() if _first(store, name) == "task"}
        self.count.nameless += sorted(known - case.tasks.keys())


def _first(store: Store, name: str) -> str:
    return str(store.ends(name)[0]["role"])


def _settled(made: Json) -> Json:
    """What must be equal however often the program died."""
    diagnosis = json.dumps(made["diagnosis"], sort_keys=True).replace(made["id"], "ID")
    return {
        "diagnosis": diagnosis,
        "hypotheses": [(row["label"], row["status"], row["weight"]) for row in made["hypotheses"]],
        "evidence": sorted(row["probe"] for row in made["evidence"]),
        "findings": sorted((row["subject"], row["text"]) for row in made["findings"]),
        "tasks": sorted((row["description"], row["status"]) for row in made["tasks"]),
        "citations": sorted((row["path"], row["line"], row["checked"]) for row in made["citations"]),
        "options": [option["name"] for option in made["options"]],
        "answer": [row["text"] for row in made["answer"]],
        "state": made["state"],
    }


def test_nothing_shown_is_lost_and_nothing_answered_is_asked_again(tmp_path: Path) -> None:
    count = Count()
    with world(tmp_path) as around, Parent(tmp_path) as parent:
        trial = Trial(tmp_path / "homes", parent, around, random.Random(SEED), count)
        undisturbed = _settled(trial.session(0, deaths_left=0))
        assert undisturbed["answer"] == [ANSWER]
        assert undisturbed["tasks"] != []
        number = 0
        while count.deaths < DEATHS:
            number += 1
            settled = _settled(trial.session(number, deaths_left=min(DEATHS_OF_ONE, DEATHS - count.deaths)))
            assert settled == undisturbed, f"session {number}\n{count}"
            assert (count.lost, count.asked_again, count.nameless, count.unresumed) == ([], [], [], []), str(count)
            if DEATHS > 1000 and number % 20 == 0:
                print(count, flush=True)
    print(count)
