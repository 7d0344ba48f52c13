"""A write-up for people outside: nothing in it says whose server it was, in any form, and it can still be read."""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest

from agent.case import Case
from agent.document import document
from agent.views.html import html
from agent.views.markdown import markdown
from agent.views.share import shared
from tests.program import RECORDED, sglscout
from transcripts.facts import Evidence, Fact
from transcripts.records import Concluded, EvidenceTaken, Note, Opened, Record, Said, TaskChanged, records_of
from transcripts.store import Store

Json = dict[str, Any]
COMPLAINT = (
    "requests queue on zebrafish (10.20.30.41, 2001:db8::77, aa:bb:cc:dd:ee:01), though /data/wonka/models has room; "
    "violet says oompa-chat is slow since ssh quentin@bastion7.fizzy.internal, mail charlie@bucket.example, "
    "or violet@primrose.example, says primrose"
)
# Word that must not be left, and where it stands.
CANARIES = {
    "zebrafish": "the host's name: in the prefix of its log, in the complaint, in a follow-up",
    "veruca": "the target, a folder of a recording",
    "violet": "a home folder, and by name alone in a follow-up",
    "augustus": "a folder under a home folder",
    "wonka": "the first folder below /data",
    "slugworth": "a part of the model's name on disk",
    "oompa": "the served model, and the unit",
    "gloop": "a path in the environment of the unit",
    "quentin": "who logs in by ssh, then alone",
    "bastion7": "a host one logs in to",
    "fizzy": "a domain",
    "charlie": "an address for mail",
    "primrose": "where somebody has mail who is known by another place, and by name alone",
    "10.20.30.41": "an IPv4 address",
    "2001:db8::77": "an IPv6 address",
    "aa:bb:cc:dd:ee:01": "a MAC address",
    "1321021034567": "the serial number of a GPU",
    "8f2c1c3e": "the UUID of a GPU",
    "fickelgruber": "another host that logs",
    "secret diary": "a prompt in the log",
    "prodnose": "a namespace of Kubernetes",
    "7d9f8b6c5": "a pod",
    "snozzberry": "a registry and a folder of it",
    "everlasting": "a deployment",
    "gobstopper": "the description of a task",
    "tinker": "a note",
    "salt": "a bucket",
    "whipple": "the model's name at an endpoint",
    "scrumdid": "a folder in an answer",
}
LINES = """\
Feb 11 14:28:37 fickelgruber python3[9]: POST /generate HTTP/1.1
2026-02-11T14:28:38+00:00 zebrafish python3[1]: Receive: obj=GenerateReqInput(text='my secret diary', input_ids=None)
Serial Number : 1321021034567
0, GPU-8f2c1c3e-1111-2222-3333-444455556666
pods/sglang-chat-7d9f8b6c5-x2x1z in namespace: prodnose-llm
kubectl -n prodnose-llm logs deployment/everlasting-sglang
image: registry.snozzberry.io/snozzberry/sglang:v0.5.9
--model-path s3://salt-lake-models/kimi
"""


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A home, and in it a session on a host whose every name is a canary, with a follow-up and what was added later."""
    home = tmp_path_factory.mktemp("shared")
    host = home / "veruca"
    shutil.copytree(RECORDED / "kv", host)
    config = (host / "host.yaml").read_text()
    config = config.replace("hostname: gpu1", "hostname: zebrafish").replace("mount: /models", "mount: /data/wonka")
    config = config.replace("/root/sglang", "/home/violet/augustus/sglang").replace("sglang-kimi", "sglang-oompa")
    (host / "host.yaml").write_text(config)
    models = host / "root" / "data" / "wonka" / "models"
    models.parent.mkdir(parents=True)
    (host / "root" / "models").rename(models)
    (models / "Kimi-K2.5").rename(models / "Kimi-K2.5-slugworth")
    units = host / "root" / "etc" / "systemd" / "system"
    unit = (units / "sglang-kimi.service").read_text()
    unit = unit.replace("--model-path /models/Kimi-K2.5", "--model-path /data/wonka/models/Kimi-K2.5-slugworth")
    unit = unit.replace("path /models/", "path /data/wonka/models/").replace("name kimi-k2.5", "name oompa-chat")
    unit = unit.replace("/root/sglang", "/home/violet/augustus/sglang")
    unit = unit.replace("[Install]", "Environment=HF_HOME=/mnt/gloop/hf\n\n[Install]")
    (units / "sglang-oompa.service").write_text(unit)
    (units / "sglang-kimi.service").unlink()
    assert sglscout(home, "demo", "--recorded", str(host), "--complaint", COMPLAINT).exit == 0
    (identity,) = [first["id"] for first, _ in Store(home).heads() if first["role"] == "session"]
    assert sglscout(home, "resume", identity, "must quentin or violet restart zebrafish for it?").exit in (0, 3)
    return home, str(identity)


@pytest.fixture(scope="module")
def made(named: tuple[Path, str]) -> Json:
    home, identity = named
    records = records_of(Store(home).read(identity))
    lines = EvidenceTaken.of(
        Evidence("E90", "wonka.log", "cat ~/wonka/wonka.log", "quentin@zebrafish", "2026-02-11T15:00:00Z", 0, LINES),
        (Fact("served_model", "oompa-chat", "", "observed", "E90:1"),),
    )
    task = TaskChanged(id="ses_01TESTTASK000000", description="does /opt/gobstopper matter?", status="completed")
    answer = "Violet wrote it to /srv/scrumdid/notes [E90:1, E90:2, E90:3, E90:4]. "
    answer += "Whipple agrees [E90:5, E90:6, E90:7, E90:8]."
    opened = records[0]
    assert isinstance(opened, Opened)
    added: list[Record] = [lines, task, Note(text="/home/tinker/x is there"), Said(text="and then?")]
    added.append(Concluded(text=answer, exit=0))
    return document(Case.fold([opened.model_copy(update={"model": "whipple-70b"}), *records[1:], *added]), latest=True)


def _texts(made: Json) -> dict[str, str]:
    clean = shared(made)
    return {"md": markdown(clean), "html": html(clean), "json": json.dumps(clean, ensure_ascii=False)}


def test_each_canary_is_there_before(made: Json) -> None:
    whole = json.dumps(made, ensure_ascii=False).lower()
    assert [name for name in CANARIES if name not in whole and name != "secret diary"] == []
    assert len(CANARIES) > 25


@pytest.mark.parametrize("form", ["md", "html", "json"])
def test_none_is_left(made: Json, form: str) -> None:
    text = _texts(made)[form].lower()
    assert {name: where for name, where in CANARIES.items() if name in text} == {}


def test_it_can_still_be_read(made: Json) -> None:
    """One name has one placeholder throughout; versions, flags, figures, models of the trade and lines stay."""
    text = _texts(made)["md"]
    assert text.startswith("# «host»: The KV pool holds too few tokens")
    (model,) = set(re.findall(r"--model-path /data/(«name_\d+»)/models/Kimi-K2.5-«name_\d+»", text))
    assert f"/data/{model.replace('_', chr(92) + '_')}/models has room" in text.replace("\\_", "_").replace("_", "\\_")
    assert len(set(re.findall(r"must «user_\d+» or («user_\d+») restart «host»", text.replace("\\", "")))) == 1
    assert re.search(r"ExecStart=/home/«user_\d+»/«name_\d+»/sglang/.venv/bin/python3 -m sglang.launch_server", text)
    for kept in (
        "SGLang 0.5.9",
        "--mem-fraction-static 0.885",
        "srt/server_args.py:3080",
        "Kimi-K2.5-eagle3",
        "EAGLE3",
    ):
        assert kept in text
    assert text.count("«") < 400


@pytest.mark.parametrize("name", ["kv", "slots", "prefix"])
def test_nothing_but_the_host_is_hidden_where_nothing_else_has_a_name(
    request: pytest.FixtureRequest, name: str
) -> None:
    """Paths, models and units of these hosts are words of the trade."""
    text = markdown(shared(request.getfixturevalue("made_of")(name)))
    assert set(re.findall(r"«[^»]*»", text)) <= {"«host»", "«serial»"}


@pytest.fixture(name="made_of")
def _made_of(home: Path, session: Any, records: Any) -> Any:
    return lambda name: document(Case.fold(records(name)))


def test_a_copy_for_others_holds_none_either(named: tuple[Path, str], tmp_path: Path) -> None:
    home, identity = named
    target = tmp_path / "copy.tar.gz"
    assert sglscout(home, "export", identity, "--share", "-o", str(target)).exit == 0
    with tarfile.open(target) as archive:
        members = archive.getmembers()
        whole = "\n".join(member.name for member in members).encode()
        whole += b"".join(archive.extractfile(member).read() for member in members if member.isfile())  # type: ignore[union-attr]
    text = io.StringIO(whole.decode()).read().lower()
    hidden = [name for name in CANARIES if name in json.dumps(Store(home).read(identity)).lower()]
    assert len(hidden) > 12
    assert [name for name in hidden if name in text] == []
