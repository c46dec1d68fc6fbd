#!/usr/bin/env bash
# The commands of docs/quick-start.md against a server without flags: conformance/docs.sh [path to kube-apiserver]
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
