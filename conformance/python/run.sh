#!/usr/bin/env bash
# The Python client against a server started without flags:
# conformance/python/run.sh [path to kube-apiserver]
# Says SKIPPED and ends well where there is no Python, or no package of the client to be had.
set -euo pipefail

server=${1:-target/debug/kube-apiserver}
here=$(cd "$(dirname "$0")" && pwd)
# The client is kept between runs.
venv=${KEVEL_PYTHON_VENV:-target/conformance/python}

. "$here/../skip.sh"
command -v python3 >/dev/null || skip python3 "$0"
if ! "$venv/bin/python" -c 'import kubernetes' 2>/dev/null; then
  python3 -m venv "$venv" >/dev/null 2>&1 || skip "virtual environments of Python" "$0"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/requirements.txt" \
    >/dev/null 2>&1 || skip "the Python package kubernetes" "$0"
fi

. "$here/../server.sh"
start_server "$server"
timeout 120 "$venv/bin/python" "$here/client.py" "$dir/data/admin.kubeconfig" || fail "python client"

kill -TERM "$pid"
wait "$pid" || fail "exit code $?"
echo "python: 1 passed, 0 failed"
