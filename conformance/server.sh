# For the scripts beside it: a server started without flags, ended with the script.
#   . server.sh; start_server PATH [FLAG...]   sets `dir` (data, log) and `pid`
# and `fail TEXT`, which shows the end of the server's log.

dir=$(mktemp -d)
pid=
trap 'stop_server; rm -rf "$dir"' EXIT

fail() { echo "FAILED: $*"; tail -n 20 "$dir/log"; exit 1; }

stop_server() {
  [ -z "$pid" ] || kill "$pid" 2>/dev/null || true
  [ -z "$pid" ] || wait "$pid" 2>/dev/null || true
}

# A port below those that outgoing connections are given may still be somebody's: then another one.
start_server() {
  local attempt program=$1
  shift
  for attempt in $(seq 20); do
    rm -rf "$dir/data" && : >"$dir/log"
    "$program" --data-dir "$dir/data" "$@" --secure-port $((20000 + RANDOM % 12000)) >"$dir/log" 2>&1 &
    pid=$!
    until grep -q '"Ready"' "$dir/log"; do
      kill -0 "$pid" 2>/dev/null || break
      [ "$SECONDS" -lt 300 ] || fail "the server is not ready"
      sleep 0.05
    done
    kill -0 "$pid" 2>/dev/null && return
    grep -q "Address already in use" "$dir/log" || fail "the server ended"
  done
  fail "no port is free"
}
