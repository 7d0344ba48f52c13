#!/bin/bash
python -m sglang.launch_server \
  --model-path /m \
  --tp 8
