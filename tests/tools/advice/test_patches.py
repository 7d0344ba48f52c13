"""Patches as the programs that read them see them, stages, and the second look."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.needs import needs
from tests.tools.advice import box
from tests.tools.advice.test_launches import NAMES, file_text
from tools.advice import Change, Launch, Patch, launch_from, parse_launch, patch, plan_after, restart_cost, verify
from tools.advice.forms import systemd
from tools.host.parsers import parse
from transcripts.facts import Evidence, Fact, Facts

FOLDER = Path(__file__).with_name("launches")
UNITS = sorted(path.name for path in FOLDER.glob("*.service"))
SLOTS = box.flag("raise", "--max-running-requests", 72)


def _written(folder: Path, name: str, launch: Launch, text: str) -> Path:
    """The unit on disk with the drop-in beside it, programs that this machine lacks replaced by one it has."""
    unit = folder / name
    parts: list[tuple[str, list[str]]] = [(name, [])]
    for line in launch.text.splitlines():
        if line.startswith("# /"):
            parts.append((line.rpartition("/")[2].strip(), []))
        parts[-1][1].append(line)
    drop_ins = folder / f"{name}.d"
    drop_ins.mkdir()
    for file, lines in parts:
        (unit if file.endswith(".service") else drop_ins / file).write_text(_runnable("\n".join(lines)) + "\n")
    (drop_ins / "zz-sglscout.conf").write_text(_runnable(text))
    return unit


def _runnable(text: str) -> str:
    for program in (
        "/usr/bin/python3",
        "/usr/bin/numactl",
        "/root/.local/bin/uv",
        "/opt/conda/bin/conda",
        "/opt/venv/bin/sglang",
        "/usr/bin/docker",
    ):
        text = text.replace(program, "/bin/true")
    return text.replace("WorkingDirectory=/opt/sglang", "WorkingDirectory=/")


@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_the_drop_in(name: str, tmp_path: Path) -> None:
    program = needs("systemd-analyze", apt="systemd")
    launch = parse_launch("systemd", (FOLDER / name).read_bytes().decode())
    made = patch(launch, [SLOTS, Change("env", "set", "SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION", None, 2048)])
    unit = _written(tmp_path, name.replace("@", "@x"), launch, made.text)
    done = subprocess.run(
        [program, "verify", "--man=no", "--recursive-errors=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    about = [line for line in done.stderr.splitlines() if "zz-sglscout" in line or name.partition(".")[0] in line]
    assert not about, done.stderr
    assert done.returncode == 0, done.stderr


def test_systemd_would_have_said_so(tmp_path: Path) -> None:
    """The check above is one that fails: without the reset the unit has two commands."""
    program = needs("systemd-analyze", apt="systemd")
    launch = parse_launch("systemd", (FOLDER / "plain.service").read_text())
    text = patch(launch, [SLOTS]).text.replace("ExecStart=\n", "", 1)
    unit = _written(tmp_path, "plain.service", launch, text)
    done = subprocess.run([program, "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    assert "more than one ExecStart" in done.stderr


@pytest.mark.parametrize("name", UNITS)
def test_the_merged_unit_runs_the_command_shown(name: str) -> None:
    launch = parse_launch("systemd", (FOLDER / name).read_bytes().decode())
    made = patch(launch, [SLOTS])
    merged = f"{launch.text.rstrip()}\n\n# {made.path}\n{made.text}"
    again = parse_launch("systemd", merged)
    assert again.argv == made.argv_after
    assert len(systemd.read(merged).exec_start) == len(systemd.read(launch.text).exec_start)
    assert made.text.count("ExecStart=\n") == 1
    there = [path.rpartition("/")[2] for path in systemd.read(launch.text).paths if path.endswith(".conf")]
    assert all(made.path.rpartition("/")[2] > one for one in there)


def test_words_are_escaped_for_a_unit() -> None:
    words = ["a b", "50%", "$HOME", 'say "x"', "back\\slash", "", "it's", "a;b", ";", "%i", "${X}"]
    line = " ".join(systemd.quote(word) for word in words)
    read = systemd.read(f"[Service]\nExecStart=/bin/true {line}\n")
    (command,) = systemd.command_words(read.exec_start[0])
    assert [word.text for word in command[1:]] == words
    with pytest.raises(ValueError, match="control"):
        systemd.quote("a\nExecStartPre=/bin/x")


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".yaml")])
def test_yaml_stays_yaml_and_only_the_command_changes(name: str) -> None:
    form = {"compose": "compose", "k8s": "kubernetes", "config": "config"}[name.split(".")[1]]
    text = file_text(name)
    made = patch(parse_launch(form, text), [SLOTS])  # type: ignore[arg-type]
    before, after = list(yaml.safe_load_all(text)), list(yaml.safe_load_all(made.text))
    assert len(before) == len(after)
    assert _leaves(after) - _leaves(before)
    kept = [line for line in text.splitlines() if "--" not in line and "max-running" not in line]
    assert [line for line in made.text.splitlines() if line in kept] == kept


def _leaves(node: object) -> set[str]:
    if isinstance(node, dict):
        return {leaf for value in node.values() for leaf in _leaves(value)} | {str(key) for key in node}
    if isinstance(node, list):
        return {leaf for value in node for leaf in _leaves(value)}
    return {str(node)}


def test_variables_and_container_settings_go_where_the_form_has_them() -> None:
    env = Change("env", "set", "NCCL_DEBUG", None, "WARN")
    shm = Change("container", "set", "--shm-size", None, "32g")
    compose = parse_launch("compose", (FOLDER / "folded.compose.yaml").read_text())
    service = yaml.safe_load(patch(compose, [env, shm]).text)["services"]["sglang"]
    assert service["environment"] == {"NCCL_DEBUG": "WARN"}
    assert service["shm_size"] == "32g"
    pod = parse_launch("kubernetes", (FOLDER / "shell.k8s.yaml").read_text())
    container = yaml.safe_load(patch(pod, [env]).text)["spec"]["template"]["spec"]["containers"][0]
    assert container["env"] == [{"name": "NCCL_DEBUG", "value": "WARN"}]
    run = parse_launch("docker", (FOLDER / "run.docker").read_text())
    assert "docker run -e NCCL_DEBUG=WARN --gpus all --shm-size 32g " in patch(run, [env, shm]).text


def test_a_redacted_value_is_left_for_the_operator() -> None:
    launch = parse_launch("shell", "sglang serve --api-key '[redacted]' --tp 8")
    assert patch(launch, [SLOTS]).fill_in == ("--api-key",)


def test_the_form_is_what_the_host_showed() -> None:
    def seen(name: str, probe: str, text: str) -> Evidence:
        return Evidence(name, probe, "", "h", "", 0, text)

    process = seen("E1", "process", "python3\0-m\0sglang.launch_server\0--tp\08\0")
    unit = seen("E2", "unit_files", box.UNIT)
    both, alone = launch_from([process, unit]), launch_from([process])
    assert both is not None
    assert alone is not None
    assert (both.form, both.sources) == ("systemd", ("E2",))
    assert (alone.form, alone.sources) == ("shell", ("E1",))
    compose = launch_from([seen("E1", "pasted", (FOLDER / "list.compose.yaml").read_text())])
    assert compose is not None
    assert compose.form == "compose"
    assert launch_from([seen("E1", "pasted", "it is slow")]) is None


def test_stages_put_what_needs_no_restart_first() -> None:
    sure = {"confirmed": True}
    changes = [
        Change("upgrade", "upgrade", "sglang", "0.5.9", None, **sure),  # type: ignore[arg-type]
        Change("flag", "set", "--max-running-requests", None, 72, **sure),  # type: ignore[arg-type]
        Change("host", "set", "vm.swappiness", 60, 1, **sure),  # type: ignore[arg-type]
        Change("flag", "set", "--page-size", None, 64, confirm_by="look"),
    ]
    expected = [
        {"what": "running above 48", "where": "decode lines"},
        {"what": "max_running_requests=72", "where": "boot log"},
    ]
    stages = plan_after(changes, box.facts(), patch=patch(box.launch(), [SLOTS]), expected=expected)
    assert [stage.restart for stage in stages] == [False, False, True, True]
    assert stages[1].rollback == ("sysctl -w vm.swappiness=60",)
    assert stages[2].expected[0]["where"] == "boot log"
    assert "412 s" in stages[2].cost
    assert "48 run and 17 wait; unfinished ones are lost" in stages[2].cost
    assert restart_cost(box.facts(load_seconds=None)).seconds is None


def _after(**figures: float | str) -> Facts:
    return Facts(Fact(name, value, "", "observed", f"E9:{n}") for n, (name, value) in enumerate(figures.items(), 1))


EXPECTED = [
    {"what": "max_running_requests=72", "where": "boot log"},
    {"what": "KV pool tokens about 159,209", "where": "boot log"},
]
WATCH = [{"metric": "running, p95", "window_s": 900, "better": ">= 55", "worse": "any retraction in 10 min"}]


def test_the_second_look_meets_what_was_expected() -> None:
    after = _after(pid=9, running_limit=72, kv_pool=158000, running_p95=66, retractions=0, load_window_s=1200)
    rows = verify(EXPECTED, WATCH, box.facts(), after)
    assert [row.outcome for row in rows] == ["met", "met", "met"]
    assert (rows[0].before, rows[0].after) == ("48", "72")
    assert rows[0].sources == ("E5:5", "E9:2")


def test_the_second_look_says_what_is_not_met_and_what_is_not_seen_yet() -> None:
    worse = _after(pid=9, running_limit=48, running_p95=66, retractions=3, load_window_s=120)
    assert [row.outcome for row in verify(EXPECTED, WATCH, box.facts(), worse)] == [
        "not met",
        "not yet visible",
        "not met",
    ]
    early = _after(pid=9, running_limit=72, running_p95=66, retractions=0, load_window_s=120)
    assert verify(EXPECTED, WATCH, box.facts(), early)[2].outcome == "not yet visible"
    same = _after(pid=41272, running_limit=48, running_p95=48, load_window_s=1200)
    assert {row.outcome for row in verify(EXPECTED, WATCH, box.facts(), same)} == {"not yet visible"}
    assert verify([{"what": "it feels better"}], [], box.facts(), worse)[0].outcome == "not yet visible"


LOAD = {"pid": 9, "load_window_s": 1200}


@pytest.mark.parametrize(
    ("better", "worse", "was", "now", "outcome"),
    [
        ("as before", "a lasting fall after evictions", 2.47, 2.45, "met"),
        ("as before", "a lasting fall after evictions", 2.47, 2.10, "not met"),
        ("higher", "lower", 2.0, 2.4, "met"),
        ("higher", "lower", 2.0, 1.5, "not met"),
        ("between 2 and 3", "below 1.5", 2.4, 3.2, "not met"),
        ("above 2", "3 or more", 2.4, 3.0, "not met"),
    ],
)
def test_what_is_held_against_before_is_decided(better: str, worse: str, was: float, now: float, outcome: str) -> None:
    watch = {"metric": "accept length", "window_s": 900, "better": better, "worse": worse}
    rows = verify([], [watch], _after(pid=8, accept_len_p50=was), _after(**LOAD, accept_len_p50=now))
    assert [row.outcome for row in rows] == [outcome]
    unseen = verify([], [watch | {"worse": ""}], _after(pid=8), _after(**LOAD))
    assert unseen[0].outcome == "not yet visible"
    assert unseen[0].why == "the second look holds no accept_len_p50"


@pytest.mark.parametrize(
    ("loaded", "from_host", "outcome"), [(0, None, "not met"), (9000, None, "met"), (9000, 4000, "met")]
)
def test_counters_of_a_host_cache_rise_or_stay_at_zero(loaded: int, from_host: int | None, outcome: str) -> None:
    """Counters begin anew with the server; one with a label is not printed before its first event."""
    watch = {
        "metric": "cached tokens by source host, and load_back_tokens_total",
        "window_s": 900,
        "better": "both rise",
        "worse": "both stay at zero",
    }
    scopes = {"load_back_tokens_total": loaded, "cached_tokens_total{cache_source=host}": from_host}
    seen = [Fact("metric", n, "", "observed", "E9:8", name) for name, n in scopes.items() if n is not None]
    rows = verify([], [watch], _after(pid=8), Facts([*_after(**LOAD), *seen]))
    assert [row.outcome for row in rows] == [outcome]
    assert rows[0].after
    without = verify([], [watch], _after(pid=8), _after(**LOAD))[0]
    assert (without.outcome, without.why) == ("not yet visible", "the second look holds no load_back_tokens_total")


def test_retractions_are_counted_by_the_hour_and_none_printed_is_none() -> None:
    watch = {"metric": "retractions per hour", "window_s": 1000, "better": "none", "worse": "any"}
    before = _after(pid=8, retractions=21, load_window_s=1435)
    quiet = verify([], [watch], before, _after(**LOAD))[0]
    assert (quiet.outcome, quiet.before, quiet.after) == ("met", "53 an hour", "none")
    assert verify([], [watch], before, _after(**LOAD, retractions=1))[0].outcome == "not met"
    other = {"metric": "token usage, p95", "window_s": 900, "better": "below 0.92", "worse": "retractions as before"}
    fewer, same = _after(**LOAD, usage_p95=0.9, retractions=3), _after(**LOAD, usage_p95=0.9, retractions=22)
    assert [verify([], [other], before, after)[0].outcome for after in (fewer, same)] == ["met", "not met"]


def test_a_pool_far_below_the_sums_is_not_the_one_that_was_expected() -> None:
    expected = [{"what": "max_total_num_tokens above 159,209, by the sums 332,785", "where": "ready line"}]
    before = _after(pid=8, kv_pool=159_209)
    partly, whole = (verify(expected, [], before, _after(pid=9, kv_pool=n))[0] for n in (166_392, 332_790))
    assert partly.outcome == "not met"
    assert "the sums say 332785" in partly.why
    assert (whole.outcome, whole.before, whole.after) == ("met", "159,209", "332,790")


def test_figures_of_the_start_before_and_a_server_that_is_gone_decide_nothing() -> None:
    log = [
        "[2026-02-11 10:00:00 TP0] Decode batch, #running-req: 20, #token: 155721, token usage: 0.98, #queue-req: 14",
        "[2026-02-11 10:40:00 TP0] Decode batch, #running-req: 20, #token: 155721, token usage: 0.98, #queue-req: 14",
        "[2026-02-11 10:41:00] server_args=ServerArgs(model_path='/m', tp_size=8)",
        "[2026-02-11 10:45:00] The server is fired up and ready to roll!",
    ]
    watch = {"metric": "token usage, p95", "window_s": 900, "better": "below 0.92", "worse": "0.97 or more"}
    after = Facts([*_after(pid=9), *parse(Evidence("E9", "journal_recent", "", "h", "", 0, "\n".join(log)))])
    fresh = verify([], [watch], _after(pid=8, usage_p95=0.98), after)[0]
    assert (fresh.outcome, fresh.why) == ("not yet visible", "no load was seen since the last start")
    gone = verify(EXPECTED, [], _after(pid=8, running_limit=48), _after(gpu_free_mib=1))[0]
    assert (gone.outcome, gone.why) == ("not yet visible", "no SGLang server was found running")


def _with_env(name: str, form: str) -> Patch:
    variable = Change("env", "set", "SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION", None, 2048)
    launch = parse_launch(form, file_text(name))  # type: ignore[arg-type]
    return patch(launch, [variable, Change("container", "set", "--shm-size", None, "32g")])


@pytest.mark.parametrize("engine", ["docker", "/usr/bin/podman"])
def test_a_variable_reaches_the_container_that_a_unit_runs(engine: str) -> None:
    text = f"[Service]\nExecStart={engine} run --shm-size 8g -e A=1 image:1 --model-path /m --tp 8\n"
    changes = [Change("env", "set", "A", "1", 2), Change("env", "set", "NCCL_DEBUG", None, "INFO")]
    made = patch(parse_launch("systemd", text), [*changes, Change("container", "set", "shm_size", None, "32g")])
    command = f"{engine} run -e NCCL_DEBUG=INFO --shm-size 32g -e A=2 image:1 --model-path /m --tp 8"
    assert made.text == f"[Service]\nExecStart=\nExecStart={command}\n"


def test_podman_is_told_as_podman() -> None:
    made = _with_env("podman-run.docker", "docker")
    assert made.text.startswith("podman run --shm-size 32g -e SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION=2048 -d ")
    assert not any("docker" in one.replace("docker.io", "") for one in (*made.commands, *made.rollback))


def test_a_quadlet_gets_lines_of_its_own() -> None:
    made = _with_env("entry-point.container", "quadlet")
    assert made.path == "/etc/containers/systemd/sglang.container"
    assert made.text.endswith("PodmanArgs=--shm-size=32g\nEnvironment=SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION=2048\n")
    assert made.commands[-2:] == ("systemctl daemon-reload", "systemctl restart sglang.service")


@pytest.mark.parametrize("name", ["values.k8s.yaml", "kustomization.k8s.yaml", "json-patch.k8s.yaml"])
def test_a_file_that_is_no_object_is_rolled_out_by_what_renders_it(name: str) -> None:
    made = _with_env(name, "kubernetes")
    assert not any(one.startswith("kubectl") for one in (*made.commands, *made.rollback))
    assert any("SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION" in note for note in made.notes) or "env:" in made.text


def test_a_script_of_a_config_map_is_applied_and_read_by_pods_that_start_anew() -> None:
    script = "python3 -m sglang.launch_server --model-path /m --tp 8"
    text = (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: launch\ndata:\n  start.sh: |\n    set -e\n    {script}\n"
    )
    made = patch(parse_launch("kubernetes", text), [box.flag("set", "--page-size", 64)])
    assert made.commands[-2] == "kubectl apply -f manifest.yaml"
    assert "pods keep the script they started with: kubectl rollout restart" in made.commands[-1]
    assert made.rollback[-1] == made.commands[-1]


def test_only_what_can_be_watched_is_watched_as_a_rollout() -> None:
    commands = _with_env("role-group.k8s.yaml", "kubernetes").commands
    assert commands[-1] == "kubectl get rolebasedgroup/sglang-pd -w"


def test_a_start_that_two_looks_read_counts_once_and_pinning_is_said_to_be_unmeasured() -> None:
    starts = [("E20:155", 319.0), ("E20:311", 300.0), ("E40:155", 319.0), ("E40:311", 300.0)]
    facts = Facts(Fact("load_seconds", seconds, "s", "derived", source) for source, seconds in starts)
    assert restart_cost(facts).starts == 2
    assert "(longest of 2: 319 s)" in restart_cost(facts).text()
    assert "pinn" not in restart_cost(facts, [SLOTS]).text()
    hicache = Change("flag", "set", "--enable-hierarchical-cache", None, True)
    assert "319 s) plus HiCache's pinning, unmeasured; with a rollback" in restart_cost(facts, [hicache]).text()


POD = """# the server
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: sglang}
spec:
  template:
    spec:
      containers:
        - name: server  # eight ranks
          args: [--model-path, /m, --tp, "8"]
          resources:
            limits:
              nvidia.com/gpu: 8
"""
MOUNTED = """          volumeMounts:
          - mountPath: /dev/shm
            name: mem
      volumes:
        - name: mem
          emptyDir: {medium: Memory, sizeLimit: 1Gi}  # small
"""
FULL = Change("container", "set", "--shm-size", None, "32g")
ROOM = Change("container", "raise", "--memory", None, "700g")
SHORT = POD[: POD.index("          resources")]


@pytest.mark.parametrize(
    "text", [POD, POD + MOUNTED, SHORT, POD.replace("gpu: 8\n", "gpu: 8\n              memory: '8Gi'\n")]
)
def test_a_pod_gets_its_limit_and_its_shared_memory_where_a_manifest_has_them(text: str) -> None:
    made = patch(parse_launch("kubernetes", text), [FULL, ROOM])
    assert not made.notes
    spec = yaml.safe_load(made.text)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["resources"]["limits"]["memory"] == "700Gi"
    (mount,), (volume,) = container["volumeMounts"], spec["volumes"]
    assert mount == {"name": volume["name"], "mountPath": "/dev/shm"}
    assert volume["emptyDir"] == {"medium": "Memory", "sizeLimit": "32Gi"}
    assert container["args"] == ["--model-path", "/m", "--tp", "8"]
    gone = [line for line in made.unified.splitlines() if line.startswith("-") and not line.startswith("---")]
    assert all("8Gi" in line or "1Gi" in line for line in gone)


def test_a_limit_that_several_pods_share_by_an_alias_is_left_to_the_operator() -> None:
    shared = POD.replace(
        "          resources:\n            limits:\n              nvidia.com/gpu: 8\n", "          resources: *r\n"
    )
    text = f"x: &r {{limits: {{memory: 1Gi}}}}\n---\n{shared}".replace("---\n# the server\n", "")
    made = patch(parse_launch("kubernetes", text), [ROOM])
    assert made.notes == ("Set --memory to 700g yourself: this form has no place for it.",)
    assert made.text == text


def test_a_service_gets_its_memory_limit_where_it_has_one() -> None:
    service = "services:\n  a:\n    image: i\n    command: [--model-path, /m]\n"
    deploy = "    deploy:\n      resources:\n        limits:\n          memory: 8g\n"
    assert patch(parse_launch("compose", service), [ROOM]).text == service + "    mem_limit: 700g\n"
    assert patch(parse_launch("compose", service + deploy), [ROOM]).text == service + deploy.replace("8g", "700g")


def test_more_ranks_than_one_machine_holds_are_told_for_every_node() -> None:
    changes = [Change("flag", "set", "--tp", 8, 16), Change("flag", "set", "--nnodes", None, 2)]
    made = patch(parse_launch("shell", "sglang serve --model-path /m --tp 8"), changes)
    (note,) = made.notes
    assert "make the same change on the other node, and restart all of them together" in note
    assert "--node-rank (0 on the first" in note
    assert "--dist-init-addr (" in note
    ranked = "sglang serve --model-path /m --tp 16 --nnodes=3 --node-rank 1 --dist-init-addr a:5000"
    (note,) = patch(parse_launch("shell", ranked), [Change("flag", "set", "--page-size", None, 64)]).notes
    assert note.endswith("make the same change on each of the 2 other nodes, and restart all of them together.")
    assert not patch(parse_launch("shell", "sglang serve --model-path /m --tp 8"), changes[:1]).notes
