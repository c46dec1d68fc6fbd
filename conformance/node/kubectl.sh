#!/usr/bin/env bash
# What people do all day with kubectl, on a real container: logs, exec, attach, cp, port-forward, proxy, debug, and what
# comes of them when the pod, the kubelet or the client goes away in the middle.
#   conformance/node/kubectl.sh [reference|kevel]      starts the server with a real node, and ends them
#   KEEP=1 conformance/node/kubectl.sh ...             on what is up already, and leaves it
# Says SKIPPED and ends well where a node cannot be had.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
server=${1:-kevel}
cache=${KEVEL_CACHE:-$HOME/.cache/kevel}

if [ -z "${KEVEL_INSIDE:-}" ]; then
  . "$here/../skip.sh"
  [ "$(id -u)" = 0 ] || skip root "$0"
  for program in containerd runc conntrack iptables jq nsenter python3; do
    command -v $program >/dev/null || skip "$program (conformance/node/packages)" "$0"
  done
  for file in bin/kubelet bin/kube-proxy bin/kube-controller-manager bin/kube-scheduler bin/kubectl images.tar; do
    [ -e "$cache/$file" ] || skip "$file (conformance/build, conformance/build node, conformance/node/images)" "$0"
  done
  conformance=${CONFORMANCE:-$here/../../target/debug/conformance}
  [ -x "$conformance" ] || skip "conformance (cargo build -p kevel-conformance)" "$0"
  if [ -z "${KEEP:-}" ]; then
    trap '"$conformance" down "$server"' EXIT
    "$conformance" up "$server" --with controllers,scheduler,node
  fi
  "$conformance" in "$server" "$here/kubectl.sh" "$server"
  exit
fi

box=registry.k8s.io/e2e-test-images/busybox:1.37.0-1
dir=$(mktemp -d)
passed=0 failed=0 background=()
k() { timeout 60 "$cache/bin/kubectl" --cache-dir "$dir/cache" -n streams "$@"; }
# For the background: the job is the program itself, and ends when it is told to.
job() { exec timeout 300 "$cache/bin/kubectl" --cache-dir "$dir/cache" -n streams "$@"; }
clean_up() {
  for job in "${background[@]}"; do kill "$job" 2>/dev/null || true; done
  "$cache/bin/kubectl" delete namespace streams --wait=false >/dev/null 2>&1 || true
  rm -rf "$dir"
}
trap clean_up EXIT
pass() { passed=$((passed + 1)); echo "ok      $1"; }
fail() { failed=$((failed + 1)); echo "FAILED  $1: $(head -c 300 <<<"${2:-}" | tr '\n' ' ')"; }
# same NAME WANTED GOT
same() { if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "wanted '$2', got '$3'"; fi; }
# holds NAME TEXT COMMAND...: the output of a command has the text
holds() {
  local name=$1 text=$2 out; shift 2
  out=$("$@" 2>&1) || true
  if grep -qF -- "$text" <<<"$out"; then pass "$name"; else fail "$name" "$out"; fi
}
# soon NAME COMMAND...: the command succeeds within half a minute
soon() {
  local name=$1 limit=$((SECONDS + 30)); shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $limit ] || { fail "$name" "not after 30 s: $*"; return; }
    sleep 0.2
  done
  pass "$name"
}
ended() { ! kill -0 "$1" 2>/dev/null; }
hash() { sha256sum | cut -d' ' -f1; }
pid=$(jq -r ".processes[] | select(.name == \"$server\") | .pid" "$cache/run/$server/state.json")
descriptors() { ls "/proc/$pid/fd" | wc -l; }
few_descriptors() { [ "$(descriptors)" -le $((before + 5)) ]; }
pod() {
  k apply -f - >/dev/null <<YAML
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: reader
    image: $box
    stdin: true
    command: [sh, -c, "echo started; while read line; do echo got \$line; done; sleep 3600"]
    volumeMounts: [{name: data, mountPath: /data}]
  - {name: web, image: $box, command: [httpd, -f, -p, "80", -h, /data], volumeMounts: [{name: data, mountPath: /data}]}
  volumes: [{name: data, emptyDir: {}}]
YAML
  k wait --for=condition=Ready "pod/$1" --timeout=60s >/dev/null
}

k create namespace streams >/dev/null
until k get serviceaccount default >/dev/null 2>&1; do sleep 0.2; done
pod main
head -c 100M /dev/urandom >"$dir/file"
sum=$(hash <"$dir/file")

echo "== logs"
holds "logs" started k logs main -c reader
holds "logs --timestamps" Z k logs main -c reader --timestamps
same "logs --limit-bytes" "start" "$(k logs main -c reader --limit-bytes=5)"
holds "logs of no container" "container nothing is not valid" k logs main -c nothing

echo "== exec"
holds "exec" "uid=0" k exec main -c reader -- id
code=0; k exec main -c reader -- sh -c 'exit 7' >/dev/null 2>&1 || code=$?
same "exec: exit code" 7 $code
code=0; k exec main -c reader -- sh -c 'kill -9 $$' >/dev/null 2>&1 || code=$?
same "exec: exit code of one that was killed" 137 $code
holds "exec of no program" "executable file not found" k exec main -c reader -- nothing
same "exec: both outputs" "out err" "$(k exec main -c reader -- sh -c 'echo out; echo err >&2' 2>"$dir/err" | tr '\n' ' ')$(cat "$dir/err")"
same "exec: the end of stdin arrives" 2 "$(printf 'a\nb\n' | k exec -i main -c reader -- wc -l)"
same "exec: output after the end of stdin" late "$(k exec -i main -c reader -- sh -c 'cat >/dev/null; sleep 1; echo late' </dev/null)"
# The shell stays for its output: containerd closes the input of a program that has closed an output.
k exec -i main -c reader -- sh -c 'cat >/data/in; true' <"$dir/file" || true
same "exec: 100 MB in" "$sum" "$(k exec main -c reader -- sha256sum /data/in | cut -d' ' -f1)"
same "exec: 100 MB out" "$sum" "$(k exec main -c reader -- cat /data/in | hash)"
holds "exec: a terminal is resized" resized timeout 60 python3 "$here/terminal.py" "$cache/bin/kubectl" -n streams exec -it main -c reader -- \
  sh -c 'echo ready; until [ "$(stty size)" = "50 132" ]; do sleep 0.1; done; echo resized'

echo "== attach, cp, debug"
(sleep 2; echo hey; sleep 2) | timeout 15 "$cache/bin/kubectl" -n streams attach -i main -c reader >"$dir/attached" 2>&1 || true
holds "attach" "got hey" cat "$dir/attached"
k cp "$dir/file" main:/data/copied -c reader || true
same "cp to: 100 MB" "$sum" "$(k exec main -c reader -- sha256sum /data/copied | cut -d' ' -f1)"
k cp main:/data/copied "$dir/back" -c reader >/dev/null || true
same "cp from: 100 MB" "$sum" "$(hash <"$dir/back")"
k debug main --image=$box --image-pull-policy=IfNotPresent -c debugger --target=web -- sh -c 'echo debugging; ps' >/dev/null 2>&1 || true
soon "debug" bash -c "'$cache/bin/kubectl' -n streams logs main -c debugger | grep -q httpd"

echo "== port-forward, proxy"
job port-forward pod/main 18080:80 19000:9000 >"$dir/forward" 2>&1 & forward=$!
background+=($forward)
soon "port-forward listens" grep -q 19000 "$dir/forward"
same "port-forward: 100 MB out" "$sum" "$(curl -s -m 60 http://127.0.0.1:18080/in | hash)"
# What it sends stays open: containerd gives up a connection soon after one side has ended.
job exec main -c reader -- sh -c 'sleep 600 | nc -l -p 9000 >/data/up' & receiver=$!
background+=($receiver)
soon "somebody listens in the pod" k exec main -c reader -- sh -c 'grep -q :2328 /proc/net/tcp /proc/net/tcp6'
(cat "$dir/file"; sleep 60) | nc 127.0.0.1 19000 & sender=$!
soon "port-forward: 100 MB have gone in" k exec main -c reader -- sh -c '[ $(wc -c </data/up) = 104857600 ]'
kill $sender $receiver 2>/dev/null || true
same "port-forward: 100 MB in" "$sum" "$(k exec main -c reader -- sha256sum /data/up | cut -d' ' -f1)"
curl -s -m 20 http://127.0.0.1:19000/ >/dev/null 2>&1 || true
soon "port-forward: says that nobody listens" grep -qi "connection refused" "$dir/forward"
job proxy --port=18001 >"$dir/proxy" 2>&1 & background+=($!)
soon "proxy listens" grep -q 18001 "$dir/proxy"
same "pods/proxy: 100 MB" "$sum" "$(curl -s -m 60 http://127.0.0.1:18001/api/v1/namespaces/streams/pods/main:80/proxy/in | hash)"
k label pod main app=main >/dev/null
k expose pod main --port=80 >/dev/null
soon "services/proxy" k get --raw /api/v1/namespaces/streams/services/main:80/proxy/in
holds "nodes/proxy" ok k get --raw /api/v1/nodes/node1/proxy/healthz

echo "== somebody goes away in the middle"
before=$(descriptors)
for i in $(seq 10); do "$cache/bin/kubectl" -n streams exec -i main -c reader -- cat <"$dir/file" >/dev/null 2>&1 & gone[i]=$!; done
soon "ten streams are open" bash -c "[ \$(ls /proc/$pid/fd | wc -l) -ge $((before + 10)) ]"
kill -KILL "${gone[@]}"; wait "${gone[@]}" 2>/dev/null || true
soon "the client is killed: no file descriptor stays" few_descriptors

# open POD: an exec, a log and a port-forward that would go on
open() {
  job exec "$1" -c reader -- sleep 3601 >/dev/null 2>&1 & streams=($!)
  job logs -f "$1" -c reader >"$dir/followed" 2>&1 & streams+=($!)
  : >"$dir/forwarded"
  job port-forward "pod/$1" 18081:80 >"$dir/forwarded" 2>&1 & streams+=($!)
  background+=("${streams[@]}")
  soon "streams of pod $1 are open" bash -c "grep -q started $dir/followed && grep -q 18081 $dir/forwarded &&
    '$cache/bin/kubectl' -n streams exec $1 -c reader -- ps | grep -q 'sleep 3601'"
}
# A port-forward finds out when somebody uses it.
forward_ended() { curl -s -m 5 http://127.0.0.1:18081/ >/dev/null 2>&1; ended "$1"; }
pod second
open second
k delete pod second --wait=false >/dev/null
soon "the pod is deleted: exec ends" ended "${streams[0]}"
soon "the pod is deleted: logs -f ends" ended "${streams[1]}"
soon "the pod is deleted: port-forward ends" forward_ended "${streams[2]}"

pod third
open third
kubelet=$(pidof kubelet)
mapfile -d '' command <"/proc/$kubelet/cmdline"
kill -KILL "$kubelet"
soon "the kubelet is killed: exec ends" ended "${streams[0]}"
soon "the kubelet is killed: logs -f ends" ended "${streams[1]}"
soon "the kubelet is killed: port-forward ends" forward_ended "${streams[2]}"
holds "without a kubelet exec says why" "refused" k exec third -c reader -- true
soon "the kubelet is killed: no file descriptor stays" few_descriptors
setsid "${command[@]}" >>"$cache/run/$server/kubelet.log" 2>&1 </dev/null &
soon "the kubelet is back: exec works" k exec third -c reader -- true

echo "kubectl on a real node: $passed passed, $failed failed"
[ "$failed" = 0 ]
