"""Puts all policies of a library into effect, and tries the objects of its tests in dry runs: a line each."""

import base64
import hashlib
import http.client
import json
import pathlib
import re
import ssl
import sys
import tempfile
import time

import yaml

REGISTRATION = "/apis/admissionregistration.k8s.io/v1"
LABEL = "admission-policy-test"
# Where the objects of tests are.
NAMESPACES = ["default", "test-namespace"]
VERDICTS = {"pass": "201", "warn": "201", "fail": "422"}


class Server:
    """A server, as its administrator."""

    def __init__(self, kubeconfig):
        config = yaml.safe_load(open(kubeconfig))
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        folder = pathlib.Path(kubeconfig).parent

        def file(entry, name):
            if name in entry:
                return str(folder / entry[name])
            data = tempfile.NamedTemporaryFile(delete=False)
            data.write(base64.b64decode(entry[name + "-data"]))
            data.close()
            return data.name

        self.tls = ssl.create_default_context(cafile=file(cluster, "certificate-authority"))
        self.headers = {"content-type": "application/json"}
        if "token" in user:
            self.headers["authorization"] = "Bearer " + user["token"]
        else:
            self.tls.load_cert_chain(file(user, "client-certificate"), file(user, "client-key"))
        self.host = cluster["server"].removeprefix("https://")
        self.resources = {}

    def send(self, method, path, body=None):
        connection = http.client.HTTPSConnection(self.host, context=self.tls)
        connection.request(method, path, body and json.dumps(body), self.headers)
        answer = connection.getresponse()
        text = answer.read()
        said = json.loads(text) if answer.headers["content-type"] == "application/json" else {}
        return answer.status, answer.headers.get_all("warning") or [], said

    def path(self, document):
        """Where objects of a document's kind are created."""
        version, kind = document["apiVersion"], document["kind"]
        base = "/api/" + version if "/" not in version else "/apis/" + version
        if base not in self.resources:
            listed = self.send("GET", base)[2]["resources"]
            self.resources[base] = {r["kind"]: r for r in listed if "/" not in r["name"]}
        resource = self.resources[base][kind]
        namespace = document["metadata"].get("namespace", "default")
        scope = f"/namespaces/{namespace}" if resource["namespaced"] else ""
        return f"{base}{scope}/{resource['name']}"

    def create(self, document, path=None):
        code, _, said = self.send("POST", path or self.path(document), document)
        assert code == 201, (code, said)


def read(path):
    return yaml.safe_load(open(path))


def change(document, field, value):
    """Sets a field such as `spec.containers.[0].image`; what is not there on the way is made."""
    try:
        value = json.loads(value)
    except ValueError:
        pass
    steps = [int(step[1:-1]) if re.fullmatch(r"\[\d+\]", step) else step for step in field.split(".")]
    here = document
    for step, following in zip(steps, steps[1:] + [None]):
        if isinstance(step, int):
            here += [None] * (step + 1 - len(here))
        if following is None:
            here[step] = value
            return
        there = here[step] if isinstance(step, int) else here.get(step)
        if there is None:
            there = here[step] = [] if isinstance(following, int) else {}
        here = there


def put_into_effect(server, library, controls):
    for namespace in NAMESPACES:
        server.send("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        # Pods want theirs, and no controller makes it here.
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
        server.send("POST", path, {"metadata": {"name": "default"}})
    server.create(read(library / "configuration/policy-configuration-definition.yaml"))
    for attempt in range(100):
        if server.send("GET", "/apis/kubescape.io/v1")[0] == 200:
            break
        time.sleep(0.1)
    params = set()
    for control, tests in controls.items():
        policy = read(library / "controls" / control / "policy.yaml")
        server.create(policy)
        templates = {(test.get("param_template"), test.get("binding_template")) for test in tests}
        for configuration, template in templates:
            name = label(control, configuration, template)
            binding = read(library / "test-resources" / (template or "policy-binding.yaml"))
            binding["metadata"]["name"] = name
            binding["spec"]["policyName"] = policy["metadata"]["name"]
            binding["spec"]["matchResources"]["objectSelector"]["matchLabels"] = {LABEL: name}
            binding["spec"].pop("paramRef", None)
            if "paramKind" in policy["spec"]:
                configuration = configuration or "default-control-configuration.yaml"
                param = configuration.removesuffix(".yaml")
                binding["spec"]["paramRef"] = {"name": param, "parameterNotFoundAction": "Deny"}
                if param not in params:
                    params.add(param)
                    document = read(library / "test-resources" / configuration)
                    document["metadata"]["name"] = param
                    server.create(document)
            server.create(binding)


def label(control, configuration, template):
    parts = [control, configuration, template]
    return "-".join(part.removesuffix(".yaml").lower() for part in parts if part)


def main(kubeconfig, library):
    server, library = Server(kubeconfig), pathlib.Path(library)
    folders = sorted(path.parent for path in library.glob("controls/*/tests.json"))
    controls = {folder.name: json.load(open(folder / "tests.json")) for folder in folders}
    put_into_effect(server, library, controls)
    time.sleep(3)
    wrong = 0
    for control, tests in controls.items():
        for number, test in enumerate(tests):
            document = read(library / "test-resources" / test["template"])
            for field in test.get("field_change_list", []):
                change(document, *field.split("=", 1))
            labels = document["metadata"].setdefault("labels", {})
            labels[LABEL] = label(control, test.get("param_template"), test.get("binding_template"))
            path = server.path(document) + "?dryRun=All"
            code, warnings, said = server.send("POST", path, document)
            message = said.get("message", "") if code != 201 else " ".join(warnings)
            hashed = hashlib.sha256(message.encode()).hexdigest()[:12] if message else "-"
            print(control, number, code, hashed)
            wrong += str(code) != VERDICTS[test["expected"]]
            if "-v" in sys.argv:
                print(f"  {test['name']}: {message}", file=sys.stderr)
    print("not as the library says:", wrong)


main(sys.argv[1], sys.argv[2])
