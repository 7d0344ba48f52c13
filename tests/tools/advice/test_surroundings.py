"""What stands around a command and does not fit it: GPUs, ports, probes, shared memory; and where all fits, nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.program import sglscout
from tools.advice import parse_launch, surroundings
from transcripts.facts import Fact, Facts

POD = """apiVersion: apps/v1
kind: Deployment
metadata: {name: sgl}
spec:
  template:
    spec:
      volumes:
      - {name: dshm, emptyDir: {medium: Memory}}
      containers:
      - name: sglang
        command: [python3, -m, sglang.launch_server]
        args: [--model-path, /m, --tp, "8"]
        ports:
        - {name: http, containerPort: 30000}
        livenessProbe:
          httpGet: {path: /health, port: http}
          initialDelaySeconds: 600
        volumeMounts:
        - {name: dshm, mountPath: /dev/shm}
        resources: {limits: {nvidia.com/gpu: "8"}}
"""
SERVICE = """services:
  sglang:
    image: lmsysorg/sglang
    command: python3 -m sglang.launch_server --model-path /m --tp 4 --port 30000
    ports: ["8000:30000"]
    ipc: host
    deploy:
      resources:
        reservations:
          devices: [{driver: nvidia, count: 4, capabilities: [gpu]}]
"""
RUN = "docker run --gpus 4 --shm-size 32g -p 8000:30000 img python3 -m sglang.launch_server --model-path /m --tp 4"
LOADS = Facts([Fact("load_seconds", 319.0, "s", "derived", "E1:1")])


def _told(form: Any, text: str) -> list[str]:
    return [each.text for each in surroundings(parse_launch(form, text), LOADS)]


@pytest.mark.parametrize(("form", "text"), [("kubernetes", POD), ("compose", SERVICE), ("docker", RUN)])
def test_what_fits_is_not_told(form: str, text: str) -> None:
    assert _told(form, text) == []


@pytest.mark.parametrize(
    ("form", "text", "was", "now", "said"),
    [
        ("kubernetes", POD, 'gpu: "8"', 'gpu: "4"', "8 ranks want a GPU each, the container's limits give 4"),
        ("kubernetes", POD, '"8"]', '"8", --dp, "2"]', "16 ranks want a GPU each"),
        (
            "kubernetes",
            POD,
            "containerPort: 30000",
            "containerPort: 8000",
            "listens on 30000, containerPort opens 8000",
        ),
        ("kubernetes", POD, "port: http", "port: 8000", "livenessProbe asks port 8000, the server listens on 30000"),
        ("kubernetes", POD, "Seconds: 600", "Seconds: 60", "gives up after 90 s, the longest load seen took 319 s"),
        ("kubernetes", POD, "mountPath: /dev/shm", "mountPath: /cache", "64 MB: a volume in memory at /dev/shm"),
        ("compose", SERVICE, "count: 4", 'device_ids: ["0", "1"]', "4 ranks want a GPU each, the service reserves 2"),
        ("compose", SERVICE, "8000:30000", "8000:8000", "listens on 30000, ports opens 8000"),
        ("compose", SERVICE, "    ipc: host\n", "", "64 MB: shm_size: 32g"),
        ("docker", RUN, "--gpus 4", "--gpus '\"device=0,1\"'", "--gpus gives 2"),
        ("docker", RUN, "--shm-size 32g ", "", "64 MB: --shm-size 32g"),
        ("docker", RUN, "8000:30000", "8000:8000", "listens on 30000, -p opens 8000"),
        ("docker", RUN, "--gpus 4", "--gpus 2", "4 ranks want a GPU each, --gpus gives 2"),
    ],
)
def test_what_does_not_fit_is_told_with_both_sides(form: str, text: str, was: str, now: str, said: str) -> None:
    assert was in text
    told = _told(form, text.replace(was, now))
    assert any(said in each for each in told), told


def test_check_tells_it_of_a_manifest(tmp_path: Any) -> None:
    done = sglscout(tmp_path, "check", "-", "--version", "0.5.9", stdin=POD.replace('gpu: "8"', 'gpu: "4"'))
    assert "warning --tp-size: 8 ranks want a GPU each, the container's limits give 4" in " ".join(done.out.split())
    assert done.exit == 0
