EXTRA="--tp 8 --page-size 64"
python -m sglang.launch_server --model-path /m $EXTRA
