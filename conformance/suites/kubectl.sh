# kubectl's own tests with a server: `test-cmd` of Kubernetes, 90 groups of commands whose output is looked at. Their script
# starts etcd, the server under test (token file, RBAC and AlwaysAllow) and the real controller manager.
need kubectl-convert kube-controller-manager
version=$(cd "$here/.." && go list -m -f '{{.Version}}' k8s.io/kubernetes)
sources=$cache/suites/kubectl/$version
if [ ! -e "$sources/complete" ]; then
  mkdir -p "$sources"
  module=$(cd "$here/.." && go list -m -f '{{.Dir}}' k8s.io/kubernetes)
  for folder in api cluster hack test third_party; do
    cp -r "$module/$folder" "$sources"
  done
  # Archives of modules keep no modes; some of these files are plug-ins.
  chmod -R u+rwx "$sources"
  touch "$sources/complete"
fi
# What the script would build with make.
programs=$sources/_output/bin
mkdir -p "$programs" "$dir/path"
ln -sf "$server" "$programs/kube-apiserver"
ln -sf "$cache/bin/kubectl" "$cache/bin/kubectl-convert" "$programs/"
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
ETCD_PORT=$(free_port) SECURE_API_PORT=$(free_port) SECURE_CTLRMGR_PORT=$(free_port)
export ETCD_PORT SECURE_API_PORT SECURE_CTLRMGR_PORT
printf '#!/bin/sh\nexec "%s" --bind-address=127.0.0.1 --secure-port="%s" "$@"\n' \
  "$cache/bin/kube-controller-manager" "$SECURE_CTLRMGR_PORT" >"$programs/kube-controller-manager"
printf '#!/bin/sh\n' >"$dir/path/make"
ln -sf "$cache/bin/etcd" "$dir/path/etcd"
chmod +x "$programs/kube-controller-manager" "$dir/path/make"
# Kevel's version has a suffix: kubectl is not told to insist on its own.
export ALLOW_SKEW=true ETCD_VERSION=3.5.0 KUBEADM_PATH=/bin/true KUBE_JUNIT_REPORT_DIR=$out/junit TMPDIR=$dir/tmp
export SERVICE_ACCOUNT_KEY=$dir/service-account.key
mkdir -p "$TMPDIR"
(cd "$sources" && env -u KUBECONFIG PATH="$dir/path:$PATH" timeout "${limit:-2400}" bash hack/make-rules/test-cmd.sh) \
  >"$out/output.txt" 2>&1 </dev/null || true
# The first is to fail, which the script looks at itself.
awk '
  /^Recording: / { name = $2 }
  /^\+\+\+ exit code: / && name != "" { if (name != "record_command_canary") print $4 == 0 ? "pass" : "fail", name; name = "" }
' "$out/output.txt"
# Commands between the groups end the script if they fail.
grep -qE '^(.*TESTS PASSED|FAILED TESTS)' "$out/output.txt" && echo "pass end" || echo "fail end"
