"""Seconds to redact 10 MB of a serving log and 1 MB of hostile text. Run: python -m tests.benchmarks.redaction_speed"""

from __future__ import annotations

import time

from transcripts.redaction import Redactor

HEAD = "Jan 10 03:00:01 gpu7 sglang[912]: [2026-01-10 03:00:01 TP0] "
LINES = (
    f"{HEAD}Decode batch, #running-req: 31, #token: 118422, token usage: 0.93, gen throughput (token/s): 1204.11\n"
    f"{HEAD}Prefill batch, #new-seq: 3, #new-token: 8192, #cached-token: 51200, token usage: 0.93, #queue-req: 7\n"
    f'{HEAD}INFO:     127.0.0.1:3344 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
)
ARGUMENTS = f"{HEAD}server_args=ServerArgs(model_path='m', api_key='sk-FAKE-prod-7f3a9c21e8', tp_size=4)\n"
UNIT = LINES * 50 + ARGUMENTS
TEXTS = {
    "10 MB of log": UNIT * (10_000_000 // len(UNIT)),
    "1 MB of 'a'": "a" * 1_000_000,
    "1 MB of server_args": ARGUMENTS * (1_000_000 // len(ARGUMENTS)),
    "1 MB of open quotes": "text='x " * 125_000,
}


def main() -> None:
    for name, text in TEXTS.items():
        redactor = Redactor()
        for number in range(5):
            redactor.learn(f"s3cr3t-value-{number}-abcdef", "api_key")
        wall, cpu = time.perf_counter(), time.process_time()
        redactor.redact(text)
        print(f"{name}: {time.perf_counter() - wall:.2f} s wall, {time.process_time() - cpu:.2f} s processor")


if __name__ == "__main__":
    main()
