# Tests of the official Python client's dynamic client, synchronous and asynchronous (package kubernetes). The package
# leaves out the module that finds the cluster: `base.py` takes its place.
version=37.0.2
hash=6967599ef976d0bb9c663c3621e690db0e26fbab7cf5c5e3ccf7e11b790d2de9
home=$cache/suites/python
venv=$home/venv-$version
if [ ! -e "$venv/complete" ]; then
  python3 -m venv --clear "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --requirement "$here/python/requirements.txt" >&2
  "$venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary kubernetes --dest "$home" \
    "kubernetes==$version" >&2
  echo "$hash  $home/kubernetes-$version.tar.gz" | sha256sum --check --quiet
  tar xzf "$home/kubernetes-$version.tar.gz" -C "$home"
  touch "$venv/complete"
fi
sources=$home/kubernetes-$version
for folder in "$sources/kubernetes/e2e_test" "$sources/kubernetes/aio/e2e_test"; do
  mkdir -p "$folder"
  touch "$folder/__init__.py"
  cp "$here/python/base.py" "$folder/base.py"
done
control_plane >&2
export KEVEL_PKI=${KUBECONFIG%/*}
for tests in dynamic.test_client dynamic.test_discovery aio.dynamic.client_test aio.dynamic.discovery_test; do
  (cd "$sources" && timeout 300 "$venv/bin/python" -m unittest -v "kubernetes.$tests") >"$out/$tests.txt" 2>&1 || true
  awk -v tests="$tests" '
    /^test_[a-z_0-9]+ \(/ { name = $1 }
    name != "" && /(ok|ERROR|FAIL)$/ { print $NF == "ok" ? "pass" : "fail", tests "/" name; name = "" }
    name != "" && /skipped/ { print "skip", tests "/" name; name = "" }
  ' "$out/$tests.txt"
  grep -qE '^(OK|FAILED)' "$out/$tests.txt" || echo "fail $tests/end"
done
end_control_plane >&2
