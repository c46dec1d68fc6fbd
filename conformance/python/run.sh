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

. "$here/../server.sh"
start_server "$server"
timeout 120 "$venv/bin/python" "$here/client.py" "$dir/data/admin.kubeconfig" || fail "python client"

kill -TERM "$pid"
wait "$pid" || fail "exit code $?"
echo "python: 1 passed, 0 failed"
