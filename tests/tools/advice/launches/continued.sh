#!/bin/bash
# python -m sglang.launch_server --tp 1  (old)
export CUDA_VISIBLE_DEVICES=0,1
nohup numactl --interleave=all python -m sglang.launch_server \
    --model-path /m \
    --tp 2 \
    --enable-metrics \
    > /var/log/sglang.log 2>&1 &
echo $! > /run/sglang.pid
