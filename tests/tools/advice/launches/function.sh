start() {
  local port=$1; shift
  ( cd /opt && env -u LD_PRELOAD python3 -m sglang.launch_server --model-path /m --tp 8 --port "$port" "$@" )
}
start 30000
