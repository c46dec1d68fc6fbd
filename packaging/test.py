"""The wheel, installed: servers are started, asked and stopped."""

import os
import subprocess
import tempfile

import kevel_apiserver


def kubectl(server, *arguments):
    command = ["kubectl", "--kubeconfig", server.kubeconfig, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


with kevel_apiserver.start() as one, kevel_apiserver.start("--v=1") as two:
    assert one.port != two.port
    kubectl(one, "create", "configmap", "a")
    assert "configmap/a" in kubectl(one, "get", "configmaps", "-o", "name")
    assert "configmap/a" not in kubectl(two, "get", "configmaps", "-o", "name")
    assert "FLAG: --v" in two.log, two.log
assert not os.path.exists(one.data_dir)

with tempfile.TemporaryDirectory() as folder:
    with kevel_apiserver.start(data_dir=folder) as server:
        kubectl(server, "create", "configmap", "kept")
    with kevel_apiserver.start(data_dir=folder) as server:
        assert "configmap/kept" in kubectl(server, "get", "configmaps", "-o", "name")

try:
    kevel_apiserver.start("--foo")
except kevel_apiserver.StartError as error:
    assert "unknown flag: --foo" in str(error), error
else:
    raise AssertionError("a wrong flag was taken")
