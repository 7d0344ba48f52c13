#!/bin/bash
tmux new-session -d -s sgl 'source ~/.bashrc; conda activate sgl; python -m sglang.launch_server --model-path /m --tp 8'
