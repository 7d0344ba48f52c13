# Reads, never writes. Everything it asks stands at the end, one line a probe.
exec 2>/dev/null # a probe's own errors are part of its answer; anything else would break into frames
LC_ALL=C; export LC_ALL
PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin:/opt/rocm/bin; export PATH
SYSTEMD_PAGER=cat; SYSTEMD_PAGERSECURE=1; export SYSTEMD_PAGER SYSTEMD_PAGERSECURE
umask 077
M=@MARKER@
PID= UNIT= PORT= CGROUP= MODEL= DRAFT= PACKAGE= DIST= GIT= VERSION= CONTAINER= PODMAN= LOG= BOOTLOG= SINCE= UNTIL= MEMGROUP=
found= routers= args= started= above= output=

# Told to end, end everything of this session at once: what ran under `timeout` has a process group of its own.
read -r stat <"/proc/$$/stat"; set -- ${stat##*) }; sid=$4
case $sid in "$$") trap 'pkill -KILL -s "$sid"; kill -KILL 0' TERM HUP ;; *) sid= ;; esac

emit() { # name, text: one frame, whole, while nobody else prints
  ( exec 9</bin/sh; flock 9; printf '%s %s %d\n%s\n' "$M" "$1" "${#2}" "$2" )
}

ask() { # name, bytes, need, command...: run it and print its frame
  name=$1 bytes=$2 need=$3; shift 3
  if [ -z "$need" ]; then emit "$name" "$M skip"; return; fi
  read -r begun _ </proc/uptime
  emit "$name" "$( {
    "$@" </dev/null 2>&1; code=$?
    read -r ended _ </proc/uptime
    echo; echo "$M $code $begun $ended"
  } | head -c "$bytes" | tr '\000' '\n')"
}

if command -v flock >/dev/null; then go() { ask "$@" & }; else go() { ask "$@"; }; fi

safe() { # a value that is only what a path, a unit or a number is made of, else nothing
  case $1 in ''|-*|*[!A-Za-z0-9@._:/+=,-]*|*..*) ;; *) printf '%s' "$1" ;; esac
}

digits() {
  case $1 in ''|*[!0-9]*|??????????????*) ;; *) printf '%s' "$1" ;; esac
}

after() { # the word after (or joined by = to) one of the options $1 in the lines $2
  printf '%s\n' "$2" | awk -v names="$1" '
    BEGIN { n = split(names, want, " ") }
    take { print; exit }
    { for (i = 1; i <= n; i++) {
        if ($0 == want[i]) take = 1
        else if (index($0, want[i] "=") == 1) { print substr($0, length(want[i]) + 2); exit }
    } }'
}

variable() { # one variable of the server's environment; names that hold no secret only
  tr '\n\000' ' \n' <"/proc/$PID/environ" | sed -n "s/^$1=//p" | head -n 1
}

# The servers: Python processes started as sglang's launcher, children of another one left out. Routers are only named.
parents=
for entry in $(grep -las sglang /proc/[0-9]*/cmdline); do
  entry=${entry%/cmdline}
  words=$(head -c 40000 "$entry/cmdline" | tr '\n\000' ' \n')
  first=${words%%"
"*}
  case ${first##*/} in python*|pypy*|sglang*) ;; *) continue ;; esac
  case $words in
    *sglang_router*|*sglang-router*) routers="$routers ${entry#/proc/}"; continue ;;
    *"
sglang.launch_server"*|*/sglang/launch_server.py*|*sglang"
serve"*) ;;
    *) continue ;;
  esac
  parent=$(sed -n 's/^PPid:[[:space:]]*//p' "$entry/status")
  case " $found " in *" $parent "*) continue ;; esac
  found="$found ${entry#/proc/}"; parents="$parents $parent"
done
for each in $found; do # a parent may have a higher number than its child
  case " $parents " in *" $each "*) PID=$each ;; esac
done
[ -n "$PID" ] || for each in $found; do PID=$each; break; done
PID=$(digits "$PID")

if [ -n "$PID" ]; then
  args=$(head -c 100000 "/proc/$PID/cmdline" | tr '\n\000' ' \n')
  # Of the groups it is in, the one with the smallest limit counts; without any limit its own.
  CGROUP=$(safe "$(sed -n 's/^0:://p' "/proc/$PID/cgroup" | head -n 1)")
  group=$CGROUP least=
  while [ "${group%/*}" != "$group" ]; do
    limit=$(digits "$(cat "/sys/fs/cgroup$group/memory.max")")
    if [ -n "$limit" ] && [ "$limit" -lt "${least:-9999999999999}" ]; then least=$limit CGROUP=$group; fi
    group=${group%/*}
  done
  MEMGROUP=$(safe "$(sed -n 's/^[0-9]*:memory://p' "/proc/$PID/cgroup" | head -n 1)")
  UNIT=$(safe "$(tr '/' '\n' <"/proc/$PID/cgroup" | grep '\.service$' |
    grep -v -e '^user@' -e '^docker\.' -e '^containerd\.' -e '^podman' -e '^ssh' -e '^cron' | tail -n 1)")
  id=$(grep -oE '[0-9a-f]{64}' "/proc/$PID/cgroup" | tail -n 1)
  if [ -n "$id" ]; then
    above="/proc/$PID/root"
    case $(cat "/proc/$PID/cgroup") in
      *kubepods*)
        pod=$(grep -oE 'pod[0-9a-f]{8}[-_0-9a-f]{28}' "/proc/$PID/cgroup" | tail -n 1 | tr '_' '-')
        for file in /var/log/pods/*"${pod#pod}"/*/*.log; do [ -r "$file" ] && LOG=$(safe "$file"); done
        output=pod ;;
      *libpod*) PODMAN=$id output=podman ;;
      *) CONTAINER=$id output=docker ;;
    esac
  fi
  set -- $(sed 's/.*) //' "/proc/$PID/stat")
  born=$(sed -n 's/^btime //p' /proc/stat)
  SINCE=$(digits "$((born + ${20} / 100 - 60))"); UNTIL=$(digits "$((SINCE + 1860))")
  if [ -z "$output" ]; then
    target=$(readlink "/proc/$PID/fd/1")
    case $target in
      /dev/*) output=terminal ;;
      /*.ssh/*|/etc/*|/proc/*|/sys/*) output=other ;;
      /*) [ -f "$target" ] && LOG=$(safe "$target"); output=file ;;
      socket:*) output=journal ;;
      pipe:*) output=pipe ;;
      *) output=unreadable ;;
    esac
  fi
  if [ -n "$LOG" ]; then # the start is looked for in logs that are quickly read through
    size=$(digits "$(stat -L -c %s "$LOG")")
    [ "${size:-9999999999}" -lt 2000000000 ] && BOOTLOG=$LOG
  fi
elif command -v systemctl >/dev/null; then # it is not running: the unit that should run it
  UNIT=$(safe "$(timeout -k 2 5 systemctl list-units --all --plain --no-legend --no-pager '*sglang*' |
    awk '$1 ~ /\.service$/ { print $1; exit }')")
  if [ -z "$UNIT" ]; then
    file=$(grep -lsE '^Exec(Start|StartPre)?=.*(sglang\.launch_server|sglang/launch_server|sglang serve|/sglang:)' \
      /etc/systemd/system/*.service /run/systemd/system/*.service /usr/lib/systemd/system/*.service | head -n 1)
    UNIT=$(safe "${file##*/}")
  fi
  if [ -n "$UNIT" ]; then
    args=$(timeout -k 2 5 systemctl show -p ExecStart --value --no-pager "$UNIT" |
      sed -n 's/.*argv\[\]=\([^;]*\) ;.*/\1/p' | head -n 1 | tr ' ' '\n')
  fi
fi
if [ -z "$PID$UNIT" ]; then # a container that ended
  for engine in docker podman; do
    command -v "$engine" >/dev/null || continue
    id=$(timeout -k 2 5 "$engine" ps -a --no-trunc --format '{{.ID}} {{.Image}} {{.Names}}' </dev/null |
      grep -i sglang | head -n 1 | grep -oE '^[0-9a-f]{64}')
    case $engine in docker) CONTAINER=$id ;; podman) [ -n "$CONTAINER" ] || PODMAN=$id ;; esac
  done
fi

model() { # the folder of a model given as a path or as ORG/NAME, below $above where the server is in a container
  case $1 in
    '') return ;;
    /*) [ -n "$(safe "$1")" ] && safe "$above$1"; return ;;
  esac
  here=$(readlink "/proc/$PID/cwd")
  if [ -r "$above$here/$1/config.json" ]; then safe "$above$here/$1"; return; fi
  case $1 in */*/*|*..*) return ;; esac
  folder=models--$(safe "$1" | sed 's|/|--|')
  for hub in "$(variable HF_HUB_CACHE)" "$(variable HF_HOME)/hub" "$(variable HOME)/.cache/huggingface/hub" \
    /root/.cache/huggingface/hub; do
    for snapshot in "$above$hub/$folder"/snapshots/*; do
      if [ -r "$snapshot/config.json" ]; then safe "$snapshot"; return; fi
    done
  done
}

if [ -n "$args" ]; then
  PORT=$(digits "$(after --port "$args")"); [ -n "$PORT" ] || PORT=30000
  case $PORT in ??????*) PORT= ;; esac
  MODEL=$(model "$(after '--model-path --model' "$args")")
  DRAFT=$(model "$(after '--speculative-draft-model-path --speculative-draft-model' "$args")")
  python=$(printf '%s\n' "$args" | sed -n '/python/{p;q;}')
  case $python in /*) ;; *) python=$(readlink "/proc/$PID/exe") ;; esac
  mapped=$(grep -oE '/[^ ]*/(site|dist)-packages' "/proc/$PID/maps" | head -n 1)
  for base in "$above${python%/bin/*}" "$above$(variable VIRTUAL_ENV)" "${mapped:+$above${mapped%/lib/python*}}" \
    "$above/usr" "$above/usr/local" "$above/opt/conda"; do
    for dist in "$base"/lib/python3*/site-packages/sglang-*.dist-info "$base"/lib/python3*/dist-packages/sglang-*.dist-info; do
      [ -z "$DIST" ] && [ -r "$dist/METADATA" ] && DIST=$(safe "$dist")
    done
  done
  # Python looks in the working folder (for -m) and in PYTHONPATH before what is installed.
  here=$(readlink "/proc/$PID/cwd"); [ "$here" = / ] && here=
  for folder in "$here" $(variable PYTHONPATH | tr ':' ' '); do
    [ -n "$folder" ] && [ -z "$PACKAGE" ] && [ -r "$above$folder/sglang/launch_server.py" ] &&
      PACKAGE=$(safe "$above$folder/sglang")
  done
  if [ -n "$DIST" ]; then
    site=${DIST%/*}
    if [ -n "$PACKAGE" ] && [ "$PACKAGE" != "$site/sglang" ]; then DIST= # another tree runs than is installed
    elif [ -r "$site/sglang/launch_server.py" ]; then PACKAGE=$(safe "$site/sglang")
    else
      origin=$above$(sed -n 's|.*"url": *"file://\([^"]*\)".*|\1|p' "$DIST/direct_url.json" | head -n 1)
      for folder in "$origin/sglang" "$origin/python/sglang"; do
        [ -z "$PACKAGE" ] && [ -r "$folder/launch_server.py" ] && PACKAGE=$(safe "$folder")
      done
    fi
  fi
  if [ -n "$PACKAGE" ]; then
    if [ -r "$PACKAGE/_version.py" ]; then VERSION=$PACKAGE/_version.py
    elif [ -z "$DIST" ] && grep -q '^__version__ = "[0-9]' "$PACKAGE/version.py"; then VERSION=$PACKAGE/version.py # up to 0.5.6
    fi
    for top in "$PACKAGE/.." "$PACKAGE/../.."; do
      if [ -z "$GIT" ] && [ -r "$top/.git/HEAD" ]; then
        root=$(cd "$top" && pwd -P)
        ref=$(sed -n 's/^ref: //p' "$root/.git/HEAD" | head -n 1)
        case $ref in '') GIT=$(safe "$root/.git/HEAD") ;; *) GIT=$(safe "$root/.git/$ref") ;; esac
      fi
    done
  fi
fi

emit discovery "$(
  printf '%s\n' "pid=$PID" "all_pids=$found" "unit=$UNIT" "port=$PORT" "cgroup=$CGROUP" "model=$MODEL" "draft=$DRAFT" \
    "package=$PACKAGE" "dist=$DIST" "git=$GIT" "version=$VERSION" "container=$CONTAINER" "podman=$PODMAN" \
    "log=$LOG" "bootlog=$BOOTLOG" "memgroup=$MEMGROUP" "since=$SINCE" "until=$UNTIL" "output=$output" "routers=$routers" \
    "role=$(safe "$(after --disaggregation-mode "$args")")" "nodes=$(digits "$(after --nnodes "$args")")" \
    "node_rank=$(digits "$(after --node-rank "$args")")" "user=$(id -un)" "sid=$sid" "shell=$(safe "$SHELL")"
  for each in $found; do
    [ "$each" = "$PID" ] || printf 'also=%s %s\n' "$each" \
      "$(digits "$(after --port "$(head -c 40000 "/proc/$each/cmdline" | tr '\n\000' ' \n')")")"
  done
  printf '%s 0\n' "$M"
)"

@PROBES@
wait
read -r stat <"/proc/$$/stat"; set -- ${stat##*) }
emit end "cpu_ticks=$((${12} + ${13} + ${14} + ${15}))
$M 0"
