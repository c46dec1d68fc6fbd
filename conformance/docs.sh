#!/usr/bin/env bash
# The commands of docs/quick-start.md against a server without flags, then the files of docs/configuration.md with the flags
# of that page: conformance/docs.sh [path to kube-apiserver]
# Each `sh` block but the one that starts the server is run as it stands. Says SKIPPED and ends well without kubectl.
set -euo pipefail

here=$(realpath "$(dirname "$0")")
server=$(realpath "${1:-target/debug/kube-apiserver}")
. "$here/skip.sh"
command -v kubectl >/dev/null || skip kubectl "$0"
. "$here/server.sh"
start_server "$server"
cd "$dir"
ln -s data kevel-data

commands=$(awk '/^```sh$/ { block++; inside = 1; next } /^```$/ { inside = 0 } inside && block > 1' "$here/../docs/quick-start.md")
[ "$(grep -c kubectl <<<"$commands")" -ge 12 ] || fail "docs/quick-start.md has lost its commands"
KUBECONFIG=/dev/null bash -euo pipefail -c "$commands" >out 2>&1 || fail "docs/quick-start.md: $(cat out)"
for text in 'deployment.apps/web created' yes 'FIELDS:' margherita; do
  grep -qF -- "$text" out || fail "docs/quick-start.md: no '$text' in: $(cat out)"
done
# The rule of the page's custom resource holds.
kubectl --kubeconfig kevel-data/admin.kubeconfig -n shop patch pizza margherita --type=merge \
  -p '{"spec":{"toppings":["pineapple"]}}' >out 2>&1 && fail "the rule of docs/quick-start.md does not hold"
grep -qF 'no pineapple' out || fail "$(cat out)"
echo "docs/quick-start.md: its commands work"

stop_server
rm -rf "$dir/data"
# Blocks whose first line is the name of a file become that file; a CSV has no such line.
awk '/^```(yaml|text)$/ { first = 1; next } /^```$/ { file = "" }
  first && /^# / { file = $2; first = 0; if (file ~ /csv$/) next } file { print > file }' "$here/../docs/configuration.md"
sed -i "s,/etc/kubernetes/,$dir/," authorization.yaml
flags=$(awk '/^```sh$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$here/../docs/configuration.md" | grep -oE -- '--[a-z-]+=[^ ]+')
[ "$(wc -l <<<"$flags")" -ge 9 ] || fail "docs/configuration.md has lost its flags"
# shellcheck disable=SC2086 # Flags without spaces.
start_server "$server" $flags
admin() { kubectl --kubeconfig data/admin.kubeconfig "$@"; }
url=$(admin config view --minify -o jsonpath='{.clusters[0].cluster.server}')
code() { curl -sk -o /dev/null -w '%{http_code}' "$@"; }
[ "$(code "$url/livez")" = 200 ] || fail "authentication.yaml: anonymous /livez"
[ "$(code "$url/version")" = 401 ] || fail "authentication.yaml: anonymous /version"
[ "$(code -H 'Authorization: Bearer viewer-token' "$url/version")" = 200 ] || fail "tokens.csv: the viewer"
[ "$(code -H 'Authorization: Bearer viewer-token' "$url/api/v1/nodes")" = 403 ] || fail "authorization.yaml: the viewer"
admin create secret generic secret --from-literal=password=correct-horse >out
grep -aqF 'k8s:enc:secretbox:v1:key1' data/db/kevel.db* || fail "encryption.yaml: the secret is not encrypted"
printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {hostNetwork: true, containers: [{name: c, image: i}]}\n' |
  admin create -f - >out 2>&1 && fail "admission.yaml: the pod is admitted"
grep -qF 'violates PodSecurity "baseline:latest"' out || fail "$(cat out)"
grep -qF '"requestURI":"/api/v1/namespaces/default/secrets' audit.log || fail "audit.yaml: the secret is not in the log"
echo "docs/configuration.md: its files work"
