#!/usr/bin/env bash
set -euo pipefail
MODEL=/models/a
ARGS=(
  --model-path "$MODEL"   # weights
  --tp 8
  --mem-fraction-static 0.88
)
if [[ ${1:-} == debug ]]; then ARGS+=(--log-level debug); fi
exec python3 -m sglang.launch_server "${ARGS[@]}" "$@"
