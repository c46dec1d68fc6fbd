#!/usr/bin/env bash
# The Python client against a server started without flags:
# conformance/python/run.sh [path to kube-apiserver]
# Says SKIPPED and ends well where there is no Python, or no package of the client to be had.
set -euo pipefail

server=${1:-target/debug/kube-apiserver}
here=$(cd "$(dirname "$0")" && pwd)
# The client is kept between runs.
venv=${KEVEL_PYTHON_VENV:-target/conformance/python}

skip() { echo "SKIPPED: $*"; exit 0; }
command -v python3 >/dev/null || skip "no python3 on the PATH"
if ! "$venv/bin/python" -c 'import kubernetes' 2>/dev/null; then
  python3 -m venv "$venv" >/dev/null 2>&1 || skip "this Python makes no virtual environments"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt" \
    >/dev/null 2>&1 || skip "the kubernetes package cannot be installed"
fi

dir=$(mktemp -d)
port=$((20000 + RANDOM % 20000))
"$server" --data-dir "$dir/data" --secure-port "$port" >"$dir/log" 2>&1 &
pid=$!
trap 'kill "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; rm -rf "$dir"' EXIT
fail() { echo "FAILED: $*"; tail -n 20 "$dir/log"; exit 1; }

for _ in $(seq 100); do
  kill -0 "$pid" 2>/dev/null || fail "the server ended"
  grep -q "Ready. Use it with" "$dir/log" && break
  sleep 0.1
done
timeout 120 "$venv/bin/python" "$here/client.py" "$dir/data/admin.kubeconfig" || fail "python client"

kill -TERM "$pid"
wait "$pid" || fail "exit code $?"
echo "python: 1 passed, 0 failed"
