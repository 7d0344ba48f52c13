#!/bin/sh
cat > /tmp/x <<'EOF'
python -m sglang.launch_server --tp 1
EOF
TP=4
python -m sglang.launch_server --model-path /m --tp "$TP" 2>>err.log | tee -a out.log
