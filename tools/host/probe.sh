# Reads, never writes. Everything it asks stands at the end, one line a probe.
exec 2>/dev/null # a probe's own errors are part of its answer; anything else would break into frames
LC_ALL=C; export LC_ALL
PATH=/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin:/opt/rocm/bin; export PATH
SYSTEMD_PAGER=cat; SYSTEMD_PAGERSECURE=1; export SYSTEMD_PAGER SYSTEMD_PAGERSECURE
umask 077
M=@MARKER@
PID= UNIT= PORT= CGROUP= MODEL= DRAFT= PACKAGE= DIST= GIT=

emit() { # name, text: one frame, whole, while nobody else prints
  ( exec 9</bin/sh; flock 9 2>/dev/null; printf '%s %s %d\n%s\n' "$M" "$1" "${#2}" "$2" )
}

ask() { # name, bytes, need, command...: run it and print its frame
  name=$1 bytes=$2 need=$3; shift 3
  if [ -z "$need" ]; then emit "$name" "$M skip"; return; fi
  emit "$name" "$( { "$@" </dev/null 2>&1; code=$?; echo; echo "$M $code"; } | head -c "$bytes" | tr '\000' '\n')"
}

if command -v flock >/dev/null 2>&1; then go() { ask "$@" & }; else go() { ask "$@"; }; fi

safe() { # a value that is only what a path, a unit or a number is made of, else nothing
  case $1 in ''|-*|*[!A-Za-z0-9@._:/+=,-]*|*..*) ;; *) printf '%s' "$1" ;; esac
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

# The server: the oldest process that was started as sglang's launcher.
found=
for entry in /proc/[0-9]*; do
  words=$(tr '\000' '\n' 2>/dev/null <"$entry/cmdline" | head -n 400) || continue
  case $words in
    *sglang.launch_server*|*sglang/launch_server.py*|*"sglang
serve"*) ;;
    *) continue ;;
  esac
  case $words in sh"
"*|bash"
"*|/bin/sh"
"*|/bin/bash"
"*|timeout"
"*|grep"
"*) continue ;; esac
  found="$found ${entry#/proc/}"
  if [ -z "$PID" ]; then PID=${entry#/proc/}; args=$words; fi
done
case $PID in *[!0-9]*) PID= ;; esac

if [ -n "$PID" ]; then
  group=$(sed -n 's/^0:://p' "/proc/$PID/cgroup" 2>/dev/null | head -n 1)
  CGROUP=$(safe "$group")
  last=${group##*/}
  case $last in *.service) UNIT=$(safe "$last") ;; esac
fi
if [ -z "$UNIT" ] && command -v systemctl >/dev/null 2>&1; then
  UNIT=$(safe "$(timeout -k 2 5 systemctl list-units --all --plain --no-legend --no-pager '*sglang*' 2>/dev/null |
    awk '$1 ~ /\.service$/ { print $1; exit }')")
fi
if [ -z "$PID" ] && [ -n "$UNIT" ]; then
  args=$(timeout -k 2 5 systemctl show -p ExecStart --value --no-pager "$UNIT" 2>/dev/null |
    sed -n 's/.*argv\[\]=\([^;]*\) ;.*/\1/p' | head -n 1 | tr ' ' '\n')
fi
if [ -n "$args" ]; then
  PORT=$(after --port "$args"); [ -n "$PORT" ] || PORT=30000
  case $PORT in *[!0-9]*|??????*) PORT= ;; esac
  MODEL=$(safe "$(after '--model-path --model' "$args")")
  DRAFT=$(safe "$(after '--speculative-draft-model-path --speculative-draft-model' "$args")")
  case $MODEL in /*) ;; *) MODEL= ;; esac
  case $DRAFT in /*) ;; *) DRAFT= ;; esac
  python=$(printf '%s\n' "$args" | sed -n '/python/{p;q;}')
  for base in "${python%/bin/*}" /usr /usr/local /opt/conda; do
    for dist in "$base"/lib/python3*/site-packages/sglang-*.dist-info "$base"/lib/python3*/dist-packages/sglang-*.dist-info; do
      [ -z "$DIST" ] && [ -r "$dist/METADATA" ] && DIST=$(safe "$dist")
    done
  done
  if [ -n "$DIST" ]; then
    site=${DIST%/*}
    if [ -r "$site/sglang/version.py" ] || [ -r "$site/sglang/launch_server.py" ]; then PACKAGE=$(safe "$site/sglang")
    else
      origin=$(sed -n 's|.*"url": *"file://\([^"]*\)".*|\1|p' "$DIST/direct_url.json" 2>/dev/null | head -n 1)
      for folder in "$origin/sglang" "$origin/python/sglang"; do
        [ -z "$PACKAGE" ] && [ -r "$folder/launch_server.py" ] && PACKAGE=$(safe "$folder")
      done
    fi
  fi
  if [ -n "$PACKAGE" ]; then
    for top in "$PACKAGE/.." "$PACKAGE/../.."; do
      if [ -z "$GIT" ] && [ -r "$top/.git/HEAD" ]; then
        root=$(cd "$top" && pwd -P)
        ref=$(sed -n 's/^ref: //p' "$root/.git/HEAD" | head -n 1)
        case $ref in '') GIT=$(safe "$root/.git/HEAD") ;; *) GIT=$(safe "$root/.git/$ref") ;; esac
      fi
    done
  fi
fi

emit discovery "$(printf 'pid=%s\nall_pids=%s\nunit=%s\nport=%s\ncgroup=%s\nmodel=%s\ndraft=%s\npackage=%s\ndist=%s\ngit=%s\nuser=%s\n%s 0' \
  "$PID" "$found" "$UNIT" "$PORT" "$CGROUP" "$MODEL" "$DRAFT" "$PACKAGE" "$DIST" "$GIT" "$(id -un)" "$M")"

@PROBES@
wait
emit end "$M 0"
