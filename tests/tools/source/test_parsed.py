from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tools.source.trees import VERSIONS, tree
from tools.source.check import check
from tools.source.launch import parse_launch, values_of

ORACLE = Path(__file__).with_name("true_parser.py")
# As people type them, right and wrong; what lies outside every sense (a port of 99999) is not in here.
TYPED = r"""
--tp 8
--tp=8
--tp-size=
--tp-size 8 8
--tp-size 8.0
--tp-size ' 8 '
--tp-size 1_000
--tp-size +8
--tp-size 0x10
--tp-size --dp-size 2
--tp-size 2 --tp-size 4 --tp 8
--t 2
-tp 8
--mem-fraction-static .9
--mem-fraction-static 0,9
--mem-fraction-static 90%
--mem-fraction-static 1e-1
--mem-fraction-statik 0.9
--mem-frac 0.9
--trust-remote-code true
--trust-remote-code=true
--trust-remote-code=
--no-trust-remote-code
--trust_remote_code
-trust-remote-code
--trust
--disable-radix
--disable-cuda-graph=False
--kv-cache-dtype fp8
--kv-cache-dtype FP8_E5M2
--kv-cache-dtype=fp8_e5m2
--kv-cache-dtype 'fp8_e5m2 '
--attention-backend Flashinfer
--quantization int4
--schedule-policy fcfs,lpm
--cuda-graph-bs 1 2 4 8
--cuda-graph-bs 1,2,4
--cuda-graph-bs=1 2
--cuda-graph-bs=1
--cuda-graph-bs
--page-size 16 32
--lora-paths a=b c=d
--lora-paths
--json-model-override-args '{"a": -1}'
--json-model-override-args -1
--random-seed -5
--random-seed=-5
--random-seed - 5
--chunked-prefill-size -1
--port 30000.
--host
--host -1
--served-model-name my model
--served-model-name 'my model'
--served-model-name '--my model'
--served-model-name '-my model'
--served-model-name -- x
-- --tp 8
--max-running-request 8
--max-running-requests 8k
--max-total-tokens 1e6
--context-length 32k
--log-level INFO
--log-requests-level two
--speculative-algorithm eagle
--load-balance-method foo
--dtype fp16
--max-num-seqs 8
--model x
-m x
--enable-dp-attention --dp 2
stray
8
-8
-
--
--=5
--hicache-ratio two
--enable-hierarchical-cache --hicache-write-policy write-through
--bucket-time-to-first-token 0.1 0.5
--bucket-time-to-first-token
--deepep-mode on
--enable-p2p-check --port=30000 --host=::
"""
COMMANDS = [shlex.split(f"--model-path m {line}") for line in TYPED.strip().splitlines()]


@pytest.mark.parametrize("version", VERSIONS)
def test_commands_are_taken_refused_and_read_as_by_the_real_parser(version: str) -> None:
    source = tree(version)
    catalogue = source.catalogue()
    done = subprocess.run(
        [sys.executable, str(ORACLE), str(source.root.parent), "parse"],
        input=json.dumps(COMMANDS),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for words, real in zip(COMMANDS, json.loads(done.stdout.splitlines()[-1]), strict=True):
        launch = parse_launch(words, catalogue)
        refused = [each.message for each in check(launch, catalogue, ()) if each.severity == "error"]
        assert bool(refused) is (real is None), (shlex.join(words), refused)
        values, _ = values_of(launch, catalogue)
        for each in launch.given if real is not None else ():
            read = values[catalogue.field(each.flag)]
            assert read == real[each.flag.dest] or "lora" in each.typed, (shlex.join(words), read)
