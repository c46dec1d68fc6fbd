#!/usr/bin/env bash
# What streams cost the server: CPU time for 1 GiB through exec and port-forward, memory for an idle exec.
#   conformance in reference|kevel conformance/node/measure.sh reference|kevel [STREAMS]
# Memory is what a server that has hardly done anything holds more when the streams are open.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
server=$1 streams=${2:-400}
cache=${KEVEL_CACHE:-$HOME/.cache/kevel}
run=$cache/run/$server
pid=$(jq -r ".processes[] | select(.name == \"$server\") | .pid" "$run/state.json")
port=$(jq .port "$run/state.json")
dir=$(mktemp -d)
k() { "$cache/bin/kubectl" --cache-dir "$dir/cache" -n measure "$@"; }
trap '"$cache/bin/kubectl" delete namespace measure --wait=false >/dev/null; rm -rf "$dir"' EXIT

# In hundredths of a second: utime and stime, the 12th and 13th field after the name in parentheses.
cpu() { sed 's/.*) //' "/proc/$pid/stat" | awk '{ print $12 + $13 }'; }
resident() { awk '/^VmRSS/ { print $2 }' "/proc/$pid/status"; }
# cost NAME COMMAND...
cost() {
  local name=$1 before begun; shift
  before=$(cpu) begun=$EPOCHREALTIME
  "$@"
  awk -v name="$name" -v cpu=$(($(cpu) - before)) -v begun="$begun" -v ended="$EPOCHREALTIME" \
    'BEGIN { printf "%-28s %5.2f CPU-s, %5.1f s\n", name, cpu / 100, ended - begun }'
}
exec_out() { k exec box -- dd if=/dev/zero bs=64k count=16384 2>/dev/null >/dev/null; }
exec_in() { head -c 1G /dev/zero | k exec -i box -- sh -c 'cat >/dev/null; true'; }
forward_out() { curl -sf http://127.0.0.1:18090/file -o /dev/null; }
open_streams() {
  coproc idle { python3 "$here/idle.py" "$run/pki" "$port" "$streams" /api/v1/namespaces/measure/pods/box/exec; }
  read -r said <&"${idle[0]}"
  [ "$said" = open ]
  # A stream is there before its program: a runtime starts one after the other.
  until [ "$(pidof sleep | wc -w)" -gt "$streams" ]; do sleep 0.5; done
}
close_streams() { eval "exec ${idle[1]}>&-"; wait "$idle_PID" || true; }

k create namespace measure >/dev/null
until k get serviceaccount default >/dev/null 2>&1; do sleep 0.2; done
k apply -f - >/dev/null <<YAML
apiVersion: v1
kind: Pod
metadata: {name: box}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: box
    image: registry.k8s.io/e2e-test-images/busybox:1.37.0-1
    command: [sh, -c, "truncate -s 1G /tmp/file; exec httpd -f -p 80 -h /tmp"]
YAML
k wait --for=condition=Ready pod/box --timeout=60s >/dev/null

k exec box -- true
# A server gives back what it took to start.
sleep 30
before=$(resident)
open_streams
sleep 5
echo "$streams idle execs: $before KiB before, $(resident) KiB with them, $((($(resident) - before) / streams)) KiB each"
close_streams

cost "nothing, for 10 s" sleep 10
cost "exec: 1 GiB out" exec_out
cost "exec: 1 GiB in" exec_in
"$cache/bin/kubectl" -n measure port-forward pod/box 18090:80 >"$dir/forward" 2>&1 & forwarder=$!
until grep -qs 18090 "$dir/forward"; do sleep 0.1; done
cost "port-forward: 1 GiB out" forward_out
kill $forwarder
