#!/usr/bin/env bash
# kubectl against a server started without flags: conformance/kubectl.sh [path to kube-apiserver]
# Says SKIPPED and ends well where there is no kubectl.
set -euo pipefail

server=${1:-target/debug/kube-apiserver}
. "$(dirname "$0")/skip.sh"
command -v kubectl >/dev/null || skip kubectl "$0"

. "$(dirname "$0")/server.sh"
start_server "$server"

k() { kubectl --kubeconfig "$dir/data/admin.kubeconfig" --cache-dir "$dir/cache" --request-timeout 20s "$@"; }
# expect TEXT COMMAND...: the command works and its output holds the text
expect() {
  local text=$1 out; shift
  out=$("$@" 2>&1) || fail "$*: $out"
  grep -qF -- "$text" <<<"$out" || fail "$*: no '$text' in: $out"
}

expect ok k get --raw /readyz
until k get namespace default >/dev/null 2>&1; do kill -0 "$pid" || fail "the server ended"; done

expect v1.36 k version
expect "deployments" k api-resources
expect "apps/v1" k api-versions
expect "kube-system" k get namespaces
expect "created" k create namespace shop
expect "created" k create -n shop configmap settings --from-literal=a=1
expect "a: \"1\"" k get -n shop configmap settings -o yaml
expect "settings" k get -n shop configmap settings -o jsonpath='{.metadata.name}'
expect "settings" k get -n shop cm -o custom-columns=NAME:.metadata.name
expect "labeled" k label -n shop configmap settings tier=web
expect "settings" k get -n shop cm -l tier=web
expect "annotated" k annotate -n shop configmap settings note=x
expect "patched" k patch -n shop configmap settings -p '{"data":{"b":"2"}}'
expect "created" k create -n shop deployment web --image=nginx --replicas=3
expect "web" k get -n shop deployments -o wide
expect "3 desired" k describe -n shop deployment web
expect "configured" k apply -n shop -f - <<'YAML'
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
data:
  c: "3"
YAML
expect "serverside-applied" k apply -n shop --server-side --field-manager=me -f - <<'YAML'
apiVersion: v1
kind: ConfigMap
metadata:
  name: applied
data:
  d: "4"
YAML
expect "replaced" k replace -n shop -f - <<'YAML'
apiVersion: v1
kind: ConfigMap
metadata:
  name: applied
data:
  d: "5"
YAML
for i in $(seq 7); do k create -n shop secret generic "s$i" --from-literal=x=y >/dev/null || fail "secret $i"; done
expect "s7" k get -n shop secrets --chunk-size=3
expect "created" k create role reader --verb=get --resource=pods -n shop
expect "created" k create job once --image=busybox -n shop
expect "created" k create cronjob often --image=busybox --schedule='* * * * *' -n shop
expect "created" k create poddisruptionbudget web --selector=app=web --min-available=1 -n shop
expect "created" k create priorityclass high --value=10
expect "created" k create ingress web --rule='a.example/*=web:80' -n shop
expect "NotFound" bash -c "kubectl --kubeconfig '$dir/data/admin.kubeconfig' get -n shop configmap none 2>&1 || true"
timeout 10 kubectl --kubeconfig "$dir/data/admin.kubeconfig" get -n shop configmaps --watch >"$dir/watch" &
watch=$!
until grep -q settings "$dir/watch"; do kill -0 "$watch" 2>/dev/null || fail "the watch ended"; sleep 0.1; done
expect "deleted" k delete -n shop configmap settings
until grep -c settings "$dir/watch" | grep -qv '^1$'; do kill -0 "$watch" 2>/dev/null || fail "no event"; sleep 0.1; done
kill "$watch" 2>/dev/null || true
expect "deleted" k delete -n shop deployment,secret --all
# Controllers in the server end these deletions, which kubectl waits for.
expect "deleted" k delete -n shop job once --cascade=foreground
expect "deleted" k delete -n shop cronjob often --cascade=orphan
expect "deleted" k delete namespace shop

kill -TERM "$pid"
wait "$pid" || fail "exit code $?"
echo "kubectl: 1 passed, 0 failed"
