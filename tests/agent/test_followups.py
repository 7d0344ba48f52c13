"""Follow-ups without a model: questions people ask about a case, each answered from the case, with what it rests on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agent.advise import TUNED
from agent.case import COMPLAINT as COMPLAINT_PROBE
from agent.case import Case
from agent.commands.diagnose import COMPLAINT
from agent.document import document
from agent.grounding import commands_of
from agent.models.playbook.followup import answered
from agent.models.playbook.operating import restart_cost
from agent.run import Run, start
from agent.session import Session
from agent.settings import Settings, load_settings
from agent.told import states
from agent.views import terminal
from agent.views.first import first_screen
from tests.agent.test_demo import HOSTS
from tests.program import sglscout
from transcripts.facts import Fact

# question, words that the answer must hold (lower case)
QUESTIONS = [
    ("can you just do it for me", ["only reads", "--max-running-requests", "made by hand"]),
    ("why not just raise the limit to 200", ["200 running requests would hold", "past what the pool carries"]),
    ("do i need more gpus", ["fp8 kv cache", "dp attention"]),
    ("what did you not check", ["look: "]),
    ("was passiert bei neustart", ["48 requests ran", "a restart ends them"]),
    ("why not ratio 8?", ["8 ranks x 89.50 gb = 716.0 gb", "does not fit", "the largest ratio that fits is 4.4"]),
    ("what about hicache ratio 2?", ["179.0 gb", "fits under"]),
    ("and hicache-size 60?", ["480.0 gb", "does not fit"]),
    ("how long am I down with 0.9", ["319 s", "--mem-fraction-static 0.9", "was not measured"]),
    (
        "is it better to raise max-running-requests or turn on hicache",
        ["358.0 gb", "of the two, recommended: set --max-running-requests to 72"],
    ),
    ("should I use fp8 or dp attention", ["fp8 kv cache: 318,418", "dp 4: 412,988", "neither is what is recommended"]),
    ("is 64 or 80 better for the limit", ["64 running requests would hold", "80 running requests would hold", "72"]),
    ("ratio 2 or hicache-size 50, what is better", ["179.0 gb", "400.0 gb", "neither is what is recommended"]),
    ("what if I only have 4 GPUs", ["on 4 they take up to 144.7 of 95.6", "do not fit"]),
    ("was wenn ich nur 4 GPUs habe", ["do not fit"]),
    ("what does it cost in quality", ["nothing that was read says that answers change"]),
    ("why 72 and not 100", ["0.9 of 159,209 tokens", "100 would hold 1.25 of the pool", "72 hold 0.90"]),
    ("which of these first", ["there is one change: set --max-running-requests to 72"]),
    ("what breaks if I apply this", ["more requests decode at once", "a restart ends them"]),
    ("where are the other 9 GB?", ["kv pool: 10.42 gib", "weights: 72.35 gib", "target graphs: 1.48 gib", "free: "]),
    ("where does the memory of a gpu go?", ["draft weights", "draft pool"]),
    ("what if fp8?", ["fp8 kv cache: 318,", "2.00x", "quality"]),
    ("what if we use dp attention?", ["dp 2", "1.77x", "dp 4", "2.59x", "dp 8", "1.44x"]),
    ("what if we raise the mem-fraction?", ["--mem-fraction-static 0.885 (so far 0.88)"]),
    ("what if I drop speculation?", ["speculative decoding off"]),
    ("what if we run 96 requests?", ["1.20 of the pool", "past what the pool carries"]),
    ("what about max-running-requests 60", ["0.75 of the pool", "leaves room"]),
    ("what other levers are there?", ["fp8", "dp attention"]),
    ("what if I cannot restart today", ["read at start only", "next restart"]),
    ("how long does a restart take?", ["319 s"]),
    ("which log line says so?", ["reset to 48 for speculative decoding", "journal_boot, line 159"]),
    ("show me the proof", ["journal"]),
    ("what did the researcher look at?", ["srt/server_args.py:", "[s"]),
    ("why 48?", ["48 requests", "max_running_requests = 48"]),
    ("why not the kv pool?", ["against", "kv_pool_too_small", "the pool has room"]),
    ("why is it spec default cap?", ["for h1", "reset the limit"]),
    ("how sure are you?", ["certainty 0.9"]),
    ("what is not checked?", ["missing"]),
    ("what should I change?", ["--max-running-requests", "72"]),
    ("give me the command", ["--max-running-requests"]),
    ("how do I roll back?", ["rm /etc/systemd/system/sglang-kimi.service.d/", "systemctl restart"]),
    ("how do I verify it?", ["max_running_requests=72", "15 minutes"]),
    ("what binds next?", ["80 requests", "admission reserve"]),
    ("what must I not do?", ["--mem-fraction-static"]),
    ("can the 396 GB of RAM run more requests?", ["1.00x"]),
    ("will hicache help?", ["running requests at 1.00x"]),
    ("what about lmcache?", ["lmcache"]),
    ("and cpu-offload-gb?", ["weights"]),
    ("what about ktransformers?", ["experts"]),
    ("which storage backends?", ["storage"]),
    ("which options do I have?", ["hicache, ratio 4", "1.00x"]),
    ("does --hicache-write-policy exist?", ["write_through", "srt/server_args.py:4272"]),
    ("does --dcp-size exist?", ["dcp-size"]),
    ("which version is it?", ["0.5.9"]),
    ("how much ram is free?", ["396.0 gib"]),
    ("which gpus?", ["rtx pro 6000"]),
    ("how long is the context?", ["262,144"]),
    ("what is the accept length?", ["accept len"]),
    ("are there retractions?", ["retract"]),
    ("what is the hit rate?", ["cached share"]),
    ("how long is the queue?", ["17 requests"]),
    ("what is the token usage?", ["0.6"]),
    ("how many run?", ["48 requests"]),
    ("how many tokens per request?", ["1,9"]),
    ("how large is the kv pool?", ["159,209 tokens"]),
    ("summarise please", ["speculative decoding set a default limit"]),
    ("was I right?", ["contradicted"]),
    # about acting on it
    ("how long will I be down", ["about 319 s", "638 s"]),
    ("downtime?", ["about 319 s"]),
    ("restrat how long takes it", ["about 319 s"]),
    ("for how long down i will be", ["about 319 s"]),
    ("will I lose requests", ["48 requests ran and 17 waited", "send it again"]),
    ("what happens to the running requests", ["48 requests ran", "stop timeout of 1min 30s"]),
    ("requests will be lost?", ["48 requests ran"]),
    ("is it safe to restart now", ["not without loss", "48 ran and 17 waited", "look again"]),
    ("restart now possible?", ["not without loss", "about 319 s"]),
    ("do I need to restart", ["read at start only"]),
    ("can I do it without downtime", ["read at start only"]),
    ("will requests get slower", ["each one gets slower", "2,485.58", "not promised"]),
    ("will ttft be worse", ["not promised"]),
    ("after change requests slower are?", ["each one gets slower"]),
    ("what is the biggest risk", ["retracted"]),
    ("will it oom", ["4.68 gib are free", "0.14 to 1.77 gib", "at least 2.88 gib"]),
    ("what flag do I change", ["--max-running-requests to 72", "systemctl restart sglang-kimi.service"]),
    ("which parameter", ["--max-running-requests to 72"]),
    ("give me the exact cmd to copy paste", ["systemctl daemon-reload", "--max-running-requests 72"]),
    ("how do I undo this", ["retractions per hour: any", "systemctl restart sglang-kimi.service"]),
    ("rolback?", ["zz-sglscout.conf"]),
    ("the change undo how?", ["zz-sglscout.conf"]),
    ("it does not come up after the change, what now", ["zz-sglscout.conf"]),
    ("verfiy how?", ["max_running_requests=72", "sglscout verify"]),
    ("does it survive a reboot", ["holds after a reboot", "zz-sglscout.conf"]),
    ("did you change anything?", ["nothing was changed", "only reads"]),
    # about what was chosen
    ("96 instead of 72", ["96 running requests would hold 1.20"]),
    ("what about 64", ["64 running requests would hold 0.80"]),
    ("can i go to 80", ["80 running requests would hold 1.00", "hardly any room"]),
    ("why 72?", ["0.9 of 159,209 tokens", "pool_wall"]),
    ("what if i set 0.9", ["--mem-fraction-static 0.9 does not fit", "4.68 gib now, 2.69 then", "allows is 0.885"]),
    ("why not hicache?", ["since it keeps prefixes in host ram", "358 gb"]),
    ("why not fp8", ["runs into the limit again"]),
    ("why not just lower the fraction", ["the limit binds, not memory"]),
    ("can i use both hicache and more slots", ["hicache, ratio 4", "runs 72"]),
    ("fp8 and dp attention together?", ["3.53x"]),
    # about what was seen
    ("is sglang running here?", ["yes: a server process is there, pid 41272", "active running"]),
    ("is the server up", ["pid 41272"]),
    ("is it the network?", ["nothing that was looked at points at network"]),
    ("should i upgrade", ["nothing that is recommended needs a newer version", "sglscout upgrade 0.5.9"]),
    ("since when is this", ["requests begin to wait", "03:07:21"]),
    ("who is affected", ["requests waiting", "which users"]),
    ("show E20:159", ["reset to 48 for speculative decoding"]),
    ("what is token usage", ["share of that pool in use", "0.6"]),
    ("which tasks can I resume", ["sglscout resume ses_"]),
    ("how sure r u", ["certainty 0.9"]),
    ("says who", ["reset to 48"]),
    ("whats wrong", ["speculative decoding set a default limit"]),
    ("what would you do", ["--max-running-requests to 72"]),
    ("what next", ["80 requests"]),
    # about what it does beside helping
    ("will latency get worse", ["each one gets slower", "not promised"]),
    ("how much faster", ["no gain in speed is promised", "runs 72"]),
    ("does hicache slow things down", ["accept length can fall", "takes minutes"]),
    ("how long does pinning take", ["358 gb", "was not seen here"]),
    ("does speculative decoding even help us", ["2.41", "was not measured"]),
    ("will the answers get worse", ["nothing that was read says that answers change"]),
    ("is it safe", ["srt/server_args.py:3145", "4.68 gib", "48 requests ran", "how do i undo this"]),
    ("can i wait until morning", ["nothing of it is lost", "17 waited", "not promised"]),
    ("waht happens if it ooms", ["on-failure", "4.68 gib"]),
    ("what if host ram runs out", ["396.0 gib", "the kernel kills a process"]),
    (
        "will 72 need more gpu memory for cuda graphs?",
        ["batches of 49 to 72", "1.48 gib now, up to 2.22", "at least 2.88"],
    ),
    ("does fp8 work on rtx pro 6000", ["backend in force is triton", "rtx pro 6000", "not known"]),
    # lengths, users, several at once
    ("what if users send 8k prompts", ["carries about 19", "admission reserve"]),
    ("what if max_tokens is 8000 for everybody", ["66.87", "lets in 32", "carries about 26"]),
    ("what if prompts are twice as long", ["3,959", "carries about 40"]),
    ("how many more users can I take", ["24 more than run", "17 wait", "nothing that was looked at counts"]),
    ("both fp8 and 96", ["--kv-cache-dtype fp8_e4m3", "318,418 tokens", "96 running requests would hold 0.60"]),
    ("can i get it without fp8", ["fp8 is no part", "dp attention, dp 4"]),
    ("is 72 too aggressive", ["0.9 of 159,209"]),
    ("is 72 really safe or should i play it safe with 60?", ["60 running requests would hold 0.75", "49 to 60"]),
    ("can we go to 96 without touching memory", ["96 running requests would hold 1.20"]),
    ("was passiert bei 150 gleichzeitigen anfragen", ["150 running requests would hold 1.88"]),
    ("how sure are you and what would prove you wrong", ["certainty 0.97", "against it would speak", "retraction"]),
    ("which sglang am i on", ["0.5.9"]),
    ("can 72 requests of 4k tokens run", ["requests of 4,000 tokens", "39 at once"]),
    ("is 4 gib headroom enough", ["4.68 gib are free", "must stay"]),
    ("use 200 GB for hicache", ["within 200 gb", "ratio is 2.2"]),
    ("what does new_token_ratio mean", ["keeps room for", "0.7 after idle"]),
    ("was bedeutet admission reserve", ["room in the pool"]),
    ("max-runing-requests?", ["--max-running-requests is meant", "is 48"]),
    ("what do I tell my manager", ["sglscout writeup", "--max-running-requests"]),
    ("ist 0.9 als mem fraction noch sicher?", ["0.9 does not fit", "2.69 then"]),
    # how it stands now
    ("is hicache on now?", ["--enable-hierarchical-cache is off"]),
    ("what is the page size", ["--page-size is 1"]),
    ("which port?", ["30,000"]),
    ("how many tokens per second", ["2,485.58"]),
    ("which gpu is the worst", ["gpu1 is the fullest", "4,795"]),
    ("what does mem-fraction-static do", ["fraction of the memory", "srt/server_args.py"]),
    ("with write_back?", ["--hicache-write-policy", "at eviction"]),
    ("which unit is it", ["sglang-kimi.service starts it", "zz-sglscout.conf"]),
    ("is it the model or the server", ["capacity.spec_default_cap", "not in the model"]),
    ("what else could it be", ["spec_v2_tool_serialisation", "ruled out"]),
    ("is something else broken?", ["spec_v2_tool_serialisation"]),
    ("show evidence", ["e1 complaint", "30 looks"]),
    # on the restart
    ("can I set it at runtime", ["read at start only"]),
    ("is a restart really needed", ["read at start only"]),
    ("do i need to drain first", ["48 requests ran", "look again"]),
    ("what will I see in the log after restart", ["max_running_requests=72"]),
    ("how can I see that it works", ["max_running_requests=72"]),
    ("how do I restart it", ["systemctl restart sglang-kimi.service"]),
    ("is the change reversible", ["zz-sglscout.conf"]),
    ("will it break anything", ["its rules kept", "48 requests ran"]),
    ("when should I restart", ["not without loss"]),
    ("do clients have to reconnect", ["its client has to send it again"]),
    ("will the setting stay", ["holds after a reboot"]),
    ("so what now", ["--max-running-requests to 72"]),
    ("does this work on 0.5.16?", ["checked against 0.5.9", "sglscout upgrade 0.5.9 0.5.16"]),
    ("8k prompts with 2k answers", ["carries about 17", "tokens_per_request=9,000", "admission reserve"]),
    ("8k in, 2k out: how many fit?", ["carries about 17"]),
    ("prompts of 8k and answers of 500 tokens?", ["carries about 19", "tokens_per_request=8,250"]),
    ("users get 2k tokens back for 8k tokens in", ["carries about 17"]),
    ("how many with 8k/1k", ["carries about 18"]),
    ("what if the host needs 200 GB for other things", ["198.2 gb are left", "largest ratio is 2.2", "196.9 gb"]),
    ("what if I only have 200 GB of ram for it", ["within 200 gb", "largest ratio is 2.2"]),
    ("what if i can only give hicache 40 GB", ["nothing is gained", "89.5 gb"]),
    ("is it worth it?", ["no gain in speed is promised"]),
    ("is it safe to put --schedule-conservativeness 0.3", ["--schedule-conservativeness", "default 1.0"]),
    ("does it lose me any tokens per second per user?", ["known of this change", "not promised"]),
    ("we have prompts of 30k tokens at night, still 72?", ["carries about 5"]),
    ("what is kv_cache_dtype now", ["--kv-cache-dtype is auto, as the server runs"]),
    ("how sure are you and what would prove you wrong?", ["certainty 0.97"]),
    ("how many requests will then run at once?", ["24 more than run"]),
    ("should I worry about NUMA?", ["numa nodes is 2"]),
    ("did you check the other 7 GPUs?", ["is the fullest"]),
    ("which commit / version are we on", ["version is 0.5.9"]),
    ("e5m2 or e4m3?", ["fp8_e4m3", "2.00x"]),
    ("we also run a postgres with 60GB on the box", ["338.2 gb are left", "largest ratio is 3.7"]),
    ("should i restart the server", ["not without loss", "48 ran"]),
    # what an operator would do first, and asks before it
    (
        "can I just kill the longest requests?",
        ["about 1,980 tokens", "17 waited", "what causes it stays", "only reads"],
    ),
    (
        "what if I halve the context length?",
        ["does not change the size of the kv pool", "262,144", "makes none shorter"],
    ),
    ("which card is dead?", ["8 gpus answered", "no xid error stands", "gpu1 is the fullest"]),
    ("are all gpus healthy", ["8 gpus answered", "--tp-size 8"]),
    ("which ratio fits into 190 GB?", ["within 190 gb of host ram the largest ratio is 2.1", "188.0 gb"]),
    ("why ratio and not hicache-size?", ["above the ratio when set", "follows the kv pool", "8 ranks x 44.75 gb"]),
    ("which write policy?", ["--hicache-write-policy is write_through, as the server runs"]),
    ("can I limit the queue", ["--max-queued-requests is not set", "sglscout rules max-queued-requests"]),
    ("should I turn off cuda graphs", ["graphs for half the batches", "much slower"]),
    ("what if traffic doubles", ["130 running requests would hold 1.62", "past what the pool carries"]),
    ("can I raise it to 64 first and then 72?", ["64 running requests would hold 0.80"]),
    ("what if I lower max_new_tokens for clients", ["the admission reserve: 33 to 80 requests"]),
    ("how high can I go", ["24 more than run", "all of it 80"]),
    ("what should I tell my users", ["what is wrong", "--max-running-requests", "about 319 s", "sglscout writeup"]),
    ("how do I see the logs", ["journalctl -u sglang-kimi.service -f", "3,002 lines"]),
    ("how many retractions per hour", ["no retraction stands in the log", "707 decode lines"]),
    ("what happens if I do nothing?", ["17 waited", "not promised"]),
    ("do I have enough ram", ["396.0 gib", "358 gb of host ram, which fits"]),
    ("when did it start", ["server ready"]),
    ("what if the restart fails", ["zz-sglscout.conf"]),
    ("will the model be reloaded", ["about 319 s"]),
    ("what is the launch command now", ["sglang.launch_server --model-path /models/kimi-k2.5"]),
    ("is the disk full", ["disk free (/models)"]),
    # in German
    ("kann ich einfach die längsten Anfragen abbrechen?", ["what causes it stays", "only reads"]),
    ("was wenn ich die Kontextlänge halbiere?", ["does not change the size of the kv pool"]),
    ("welche Karte ist tot?", ["8 gpus answered"]),
    ("welche Ratio passt in 190 GB?", ["largest ratio is 2.1"]),
    ("warum ratio und nicht hicache-size?", ["follows the kv pool"]),
    ("welche write policy?", ["write_through"]),
    ("was kostet mich das?", ["about 319 s"]),
    ("soll ich den Server neu starten?", ["not without loss"]),
    ("wie lange ist der Server weg", ["about 319 s"]),
    ("sag mir was ich machen soll", ["--max-running-requests to 72"]),
    ("lohnt sich das?", ["no gain in speed is promised"]),
    ("wie lange dauert der Neustart", ["about 319 s"]),
    ("warum 48", ["48 requests", "max_running_requests = 48"]),
    ("was soll ich tun", ["--max-running-requests to 72"]),
    ("ist das sicher", ["srt/server_args.py:3145", "48 requests ran"]),
    ("wie mache ich das rückgängig", ["zz-sglscout.conf"]),
    ("kann das bis morgen warten", ["nothing of it is lost"]),
    ("was passiert mit laufenden Anfragen", ["48 requests ran"]),
    ("wie viele Nutzer gehen noch", ["24 more than run"]),
]
LINES = 10  # of an answer, beside commands and the steps of a GPU's memory
LONG = ("where are the other 9 GB?", "where does the memory of a gpu go?")


Talk = tuple[Settings, Session]


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Talk]:
    """The case of `slots`, diagnosed once and kept open."""
    yield from _diagnosed(tmp_path_factory, HOSTS[0])


@pytest.fixture(scope="module", params=["kv", "prefix"])
def other(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Talk]]:
    """The cases whose cause, and so whose change, is another."""
    for talk in _diagnosed(tmp_path_factory, request.param):
        yield request.param, talk


def _diagnosed(tmp_path_factory: pytest.TempPathFactory, name: str) -> Iterator[Talk]:
    settings = Settings(tmp_path_factory.mktemp("home"), load_settings("playbook").cache, "", "", "")
    session = start(settings, {"kind": "recorded", "recording": name, "host": f"recorded:{name}"}, COMPLAINT)
    # The write-up is made anew after each answer and has tests of its own; hundreds of them would only take time.
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setattr(Run, "_written_up", lambda _run, **_how: {})

    async def work() -> None:
        run = Run.on(settings, session, lambda *_: None)
        async with run.bench:
            await run.answer()

    with session:
        asyncio.run(work())
        yield settings, session
    monkeypatch.undo()


def _ask(talk: tuple[Settings, Session], question: str) -> tuple[str, Case]:
    settings, session = talk

    async def work() -> None:
        run = Run.on(settings, session, lambda *_: None)
        async with run.bench:
            await run.answer(question)

    asyncio.run(work())
    assert session.case.concluded is not None
    return session.case.concluded.text, session.case


def test_there_are_at_least_thirty() -> None:
    assert len(QUESTIONS) >= 30


@pytest.mark.parametrize(("question", "words"), QUESTIONS)
def test_it_is_answered_from_the_case(talk: tuple[Settings, Session], question: str, words: list[str]) -> None:
    from agent.grounding import UNSUPPORTED

    text, case = _ask(talk, question)
    for word in words:
        assert word in text.lower(), text
    assert UNSUPPORTED not in text
    told = [line for line in text.splitlines() if line not in commands_of(case)]
    assert len(told) <= LINES or question in LONG, text
    assert case.concluded is not None
    assert case.concluded.exit == 0


OF_OTHERS = {
    "kv": [
        ("can i get it without fp8", ["without it: dp attention, dp 4: 2.59x"]),
        ("which first?", ["first set --kv-cache-dtype to fp8_e4m3", "then raise --mem-fraction-static", "one restart"]),
        ("fp8 or a higher fraction, which is better?", ["318,418 tokens", "166,392 tokens", "of the two, recommended"]),
        ("how many more requests would fit with fp8?", ["2.00x the pool, runs 41"]),
        ("will quality suffer", ["compare answers on your own prompts"]),
        ("does fp8 work on rtx pro 6000", ["triton", "not known", "srt/server_args.py:3080"]),
        ("how many more users can I take", ["no more than run", "14 wait"]),
        ("is fp8 on", ["--kv-cache-dtype is set: auto", "what is recommended: set --kv-cache-dtype to fp8_e4m3"]),
        ("both fp8 and 96", ["would hold 2.33", "past it"]),
        ("am i about to oom if i raise mem fraction to 0.93?", ["0.93 does not fit", "4.68 gib now, -0.29 then"]),
        ("kv: raise mem fraction to .93", ["0.93 does not fit", "takes 4.98 gib more"]),
        ("what if mem fraction goes down to 0.85 with ratio 2", ["--mem-fraction-static 0.85", "--hicache-ratio 2"]),
        ("would 0.86 be safer", ["--mem-fraction-static 0.86 fits", "6.67 then", "0.82x"]),
        ("can i combine fp8 with hicache ratio 2", ["--hicache-ratio 2, --kv-cache-dtype fp8_e4m3 fits", "179.01 gb"]),
        ("dp attention 4 - how many requests then", ["--dp-size 4 fits", "48 requests of the length seen", "2.59x"]),
        ("fp8_e5m2 instead of e4m3?", ["--kv-cache-dtype fp8_e5m2 fits", "2.00x", "quality"]),
        ("can i run hicache with eagle3?", ["--speculative-algorithm is on as the server runs", "358.0 gb"]),
        (
            "there's 8 GB free on each card, why not just raise the fraction instead of fp8",
            ["4.68 gib were free on the fullest gpu, not 8", "1.05x the pool", "2.00x the pool"],
        ),
        ("cut context to 65536, does that help", ["65,536 tokens would refuse what is longer", "0.41 of the pool"]),
        ("how often are requests thrown back", ["21 requests"]),
        ("welche karte hat am wenigsten speicher frei", ["gpu1 is the fullest"]),
        ("what if i cap at 16 running", ["16 running requests would hold 0.80", "leaves room", "332,785"]),
        ("wieviel gib bleiben frei bei 0.89", ["4.68 gib now, 3.69 then"]),
        ("can I set it at runtime", ["--kv-cache-dtype, --mem-fraction-static are read at start only"]),
    ],
    "prefix": [
        ("which of these first", ["they belong together, in one restart"]),
        ("does hicache slow things down", ["accept length can fall", "takes minutes"]),
        ("is hicache on now?", ["--enable-hierarchical-cache is off", "switch --enable-hierarchical-cache on"]),
        ("can i get it without hicache", ["without it: "]),
        ("what will I see in the log after restart", ["host memory about 44.75 gb", "each of 8 ranks"]),
        ("how long does pinning take", ["358 gb", "was not seen here"]),
    ],
}


def test_another_case_is_another_answer(other: tuple[str, Talk]) -> None:
    name, talk = other
    for question, words in OF_OTHERS[name]:
        text, case = _ask(talk, question)
        assert [word for word in words if word not in text.lower()] == [], f"{question}: {text}"
        assert case.concluded is not None
        assert case.concluded.exit == 0


def test_commands_of_an_answer_stand_alone_on_their_lines(talk: tuple[Settings, Session]) -> None:
    for question, wanted in (("how do I undo this", "rollback"), ("what flag do I change", "stages")):
        text, case = _ask(talk, question)
        made = document(case)
        held = made["rollback"]["commands"] if wanted == "rollback" else made["stages"][0]["commands"]
        lines = [line for command in held for line in command.splitlines()]
        assert [line for line in lines if line not in text.splitlines()] == []
        printed = [line.text for line in terminal.spoken(text, commands_of(case)).lines(40)]
        assert [line for line in lines if line not in printed] == []


UNANSWERABLE = [
    "what is the weather in Oslo?", "who won the cup", "asdf", "write me a poem", "how much does an h100 cost",
    "delete all logs", "thanks", "how hot are the gpus", "is my model too big", "can we serve a second model on it",
    "when was the last crash", "is my api key safe", "what is the queue time", "did it oom before",
    "does it affect other services", "what about tensor parallel 4", "how long do requests wait",
    "what is the difference between running and queued", "is there a risk of data loss",
    "wie wird das Wetter",
    "how long until the queue drains", "would fp8 weights help", "can I apply it on only one node",
]  # fmt: skip


@pytest.mark.parametrize("question", UNANSWERABLE)
def test_what_it_cannot_answer_it_says(talk: tuple[Settings, Session], question: str) -> None:
    text, case = _ask(talk, question)
    assert "There is no answer to that from this case" in text
    assert "[E" not in text
    offered = re.findall(r"“([^”]*)”", text)
    assert len(offered) == 3
    assert [each for each in offered if not answered(talk[1].case, each)] == []
    concluded = case.concluded
    assert concluded is not None
    assert concluded.exit == 3


def test_no_host_was_asked_for_any_of_it(talk: tuple[Settings, Session]) -> None:
    _, session = talk
    probes = [record.probe for record in session.records if record.type == "evidence"]  # type: ignore[attr-defined]
    assert len(probes) == len(set(probes))


def test_what_the_operator_tells_is_a_claim_and_is_weighed(talk: tuple[Settings, Session]) -> None:
    before = talk[1].case.facts.get("usage_p95")
    text, case = _ask(talk, "yes, others wait in the queue at times, and token usage is 0.99 then")
    told = [item for item in case.evidence.values() if item.probe == COMPLAINT_PROBE]
    assert [item.host for item in told] == ["operator", "operator"]
    claimed = [fact for fact in case.facts.all("usage_p95") if fact.source == f"{told[-1].id}:1"]
    assert [(fact.value, fact.grade) for fact in claimed] == [(0.99, "claimed")]
    assert case.facts.get("usage_p95") == before  # a claim never stands over what was seen
    assert case.weighed is not None
    reasons = [reason for row in case.weighed.hypotheses for reason in (*row.supporting, *row.against)]
    assert f"{told[-1].id}:1" in {source for reason in reasons for source in reason.source}
    assert case.weighed.label == "capacity.spec_default_cap"
    assert case.decisions[-1].whole, text
    (shown,) = document(case)["told"]
    assert shown["evidence"] == told[-1].id
    assert [(fact["name"], fact["from"]) for fact in shown["measured"]] == [
        (name, fact.source) for name in ("usage_p95", "usage_max") if (fact := case.facts.get(name))
    ]
    screen = " ".join(line.text.strip() for line in first_screen(document(case), 80))
    assert f"[{told[-1].id}]: your word, weighed as such; usage p95 was measured and counts: " in " ".join(
        screen.split()
    )


def test_a_setting_that_the_operator_tuned_is_left_as_it_is(talk: tuple[Settings, Session]) -> None:
    before = talk[1].case.advised
    assert before is not None
    assert [change["flag"] for change in before.changes] == ["--max-running-requests"]
    _, case = _ask(talk, "we tuned max_running_requests for weeks, do not touch it")
    assert case.advised is not None
    assert case.advised.changes == ()
    source = f"{list(case.evidence)[-1]}:1"
    assert [row["reason"] for row in case.advised.refused] == [f"{TUNED} [{source}]"]


def test_numbers_that_an_answer_does_not_take_up_leave_the_question_open(tmp_path: Path) -> None:
    made = sglscout(tmp_path, "demo", "story", "--json").document
    pasted = tmp_path / "paste.log"
    refused = "ValueError: Not enough host memory available. Requesting 40.00 GB but only have 44.87 GB free."
    pasted.write_text(f"python -m sglang.launch_server --enable-hierarchical-cache --hicache-size 40\n{refused}\n")
    told = sglscout(tmp_path, "diagnose", "it dies", "--bundle", str(pasted), "--sglang-version", "0.4.9", "--json")
    open_ = sglscout(tmp_path, "resume", told.document["id"], "ratio 2 instead of size")
    assert (open_.exit, "That cannot be worked out yet" in open_.out) == (3, True)
    for question in ("35 requests timed out, why", "would 64 be better than 48", "what is the p99 TTFT right now"):
        assert sglscout(tmp_path, "resume", made["id"], question).exit == 3
    assert sglscout(tmp_path, "resume", made["id"].removeprefix("ses_")[:12], "how sure are you").exit == 0


def test_what_is_ruled_out_is_dropped_and_the_next_best_is_offered(tmp_path: Path) -> None:
    made = sglscout(tmp_path, "demo", "kv", "--json").document
    assert [change["flag"] for change in made["changes"]] == ["--kv-cache-dtype", "--mem-fraction-static"]
    told = sglscout(tmp_path, "resume", made["id"], "we cannot accept fp8, quality matters")
    assert told.exit == 0
    assert "fp8_e4m3 (not set so far)" not in told.out
    assert "Instead   DP attention, dp 2: 1.77x the pool, 36 requests run" in told.out
    assert "by the sums 166,392" in told.out  # of the fraction alone: what the next start will print
    assert "Asked, and not answered" not in sglscout(tmp_path, "writeup", made["id"]).out
    later = " ".join(sglscout(tmp_path, "resume", made["id"], "no restart before 6am").out.split())
    assert "“we cannot accept fp8, quality matters” [E41], “no restart before 6am” [E42]: your word" in later
    assert "1 restart, not before 6am. Not reachable" in later


@pytest.mark.parametrize(
    ("words", "stated"),
    [
        ("yes, 48 run and others wait in the queue", True),
        ("we see retractions under load", True),
        ("no, the cache is full at noon", True),
        ("48 running, 20 waiting", True),
        ("only 16 run and 300 are queued", True),
        ("no oom", False),  # nothing that could be read as having happened
        ("8k prompts with 2k answers", False),
        ("requests waiting", False),
        ("dp attention, dp 4", False),
        ("we see retractions, what now", False),
        ("our requests wait?", False),
        ("we like it here", False),
        ("we cannot accept fp8, quality matters", True),
        ("kein fp8 bitte, qualität geht vor", True),
        ("we can't pin host memory, compliance", True),
        ("no restart before 6am", True),
        ("no fp8, how many then", False),
        ("geht es ohne fp8", False),
        ("our clients send max_tokens 8192, does 72 still hold", False),
        ("it does not come up after the change, what now", False),
    ],
)
def test_a_statement_is_told_from_a_question(words: str, stated: bool) -> None:
    assert states(words) is stated


def test_another_look_is_weighed_anew(tmp_path: Path, talk: tuple[Settings, Session]) -> None:
    text, case = _ask(talk, "it is busy now, look again")
    assert "Speculative decoding set a default limit" in text
    assert len(case.evidence) > 50


def test_a_question_to_a_task_is_answered_from_its_findings(tmp_path: Path) -> None:
    made = sglscout(tmp_path, "demo", "slots", "--json").document
    task = next(each["id"] for each in made["tasks"] if "Limits" in each["description"])
    asked = sglscout(tmp_path, "resume", task, "which line sets the default?")
    assert asked.exit == 0
    assert "srt/server_args.py:2363" in asked.out
    assert "self.max_running_requests = 48" in asked.out
    assert "task_id" not in asked.out
    flag = sglscout(tmp_path, "resume", task, "what about --page-size")
    assert "number of tokens in a page" in flag.out
    about_ram = next(each["id"] for each in made["tasks"] if "RAM" in each["description"])
    assert sglscout(tmp_path, "resume", about_ram, "default of max running requests").exit == 3
    nothing = sglscout(tmp_path, "resume", task, "who won the cup")
    assert nothing.exit == 3
    assert "Its findings are about --max-running-requests" in " ".join(nothing.out.split())
    again = sglscout(tmp_path, "resume", task)
    assert again.exit == 0
    assert again.out.startswith(f"{task} (Limits on running requests")
    assert sglscout(tmp_path, "resume", made["id"], "who won the cup").exit == 3
    assert sglscout(tmp_path, "resume", made["id"], "downtime?").exit == 0


@pytest.mark.parametrize(
    ("recording", "question", "code", "status"),
    [("slots", "who won the cup", 3, "done"), ("story", "downtime?", 0, "inconclusive")],
)
def test_a_list_says_how_the_case_stands_whatever_came_of_the_last_question(
    tmp_path: Path, recording: str, question: str, code: int, status: str
) -> None:
    made = sglscout(tmp_path, "demo", recording, "--json").document
    assert sglscout(tmp_path, "resume", made["id"], question).exit == code
    (row,) = sglscout(tmp_path, "sessions", "--json").document["sessions"]
    assert row["status"] == status


def test_a_start_that_two_looks_read_is_one_start(talk: tuple[Settings, Session]) -> None:
    case = talk[1].case
    starts = (("E20:155", 300), ("E20:311", 319), ("E40:155", 300), ("E40:311", 319))
    again = replace(case, _facts=[Fact("load_seconds", each, "s", "derived", source) for source, each in starts])
    assert "the longest of 2 took 319 s" in restart_cost(again, re.match("", ""))  # type: ignore[arg-type]
