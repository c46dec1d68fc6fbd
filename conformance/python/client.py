"""What a program with the Python client does: client.py KUBECONFIG

Every step says what it expects; the first one that finds something else ends the program.
"""

import sys
import threading

from kubernetes import client, config, dynamic, watch
from kubernetes.client.exceptions import ApiException

NAMESPACE = "python"


def config_map(name, data):
    return client.V1ConfigMap(
        metadata=client.V1ObjectMeta(name=name, labels={"app": "test"}), data=data
    )


def expect(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def expect_failure(code, reason, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except ApiException as error:
        expect(error.status, code)
        assert reason in error.body, error.body
    else:
        raise AssertionError(f"{call.__name__} did not fail")


def create_read_replace_delete(core):
    made = core.create_namespaced_config_map(NAMESPACE, config_map("one", {"key": "1"}))
    assert made.metadata.uid and made.metadata.resource_version
    expect(core.read_namespaced_config_map("one", NAMESPACE).data, {"key": "1"})
    expect_failure(
        409, "AlreadyExists", core.create_namespaced_config_map, NAMESPACE, config_map("one", {})
    )
    stale = made.metadata.resource_version
    made.data = {"key": "2"}
    replaced = core.replace_namespaced_config_map("one", NAMESPACE, made)
    assert replaced.metadata.resource_version != stale
    made.metadata.resource_version = stale
    expect_failure(409, "Conflict", core.replace_namespaced_config_map, "one", NAMESPACE, made)
    expect(core.delete_namespaced_config_map("one", NAMESPACE)["status"], "Success")
    expect_failure(404, "NotFound", core.read_namespaced_config_map, "one", NAMESPACE)


def list_in_pages(core):
    for number in range(7):
        core.create_namespaced_config_map(NAMESPACE, config_map(f"page-{number}", {}))
    names, token = [], None
    while token != "":
        page = core.list_namespaced_config_map(
            NAMESPACE, limit=3, _continue=token, label_selector="app=test"
        )
        names += [item.metadata.name for item in page.items]
        token = page.metadata._continue or ""
    expect(names, [f"page-{number}" for number in range(7)])
    one = core.list_namespaced_config_map(NAMESPACE, field_selector="metadata.name=page-3")
    expect([item.metadata.name for item in one.items], ["page-3"])
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="app=test")
    expect(core.list_namespaced_config_map(NAMESPACE, label_selector="app=test").items, [])


def watch_what_happens(core):
    since = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version

    def act():
        core.create_namespaced_config_map(NAMESPACE, config_map("seen", {"key": "1"}))
        core.patch_namespaced_config_map("seen", NAMESPACE, {"data": {"key": "2"}})
        core.delete_namespaced_config_map("seen", NAMESPACE)

    actor = threading.Thread(target=act)
    actor.start()
    events = []
    stream = watch.Watch().stream(
        core.list_namespaced_config_map, NAMESPACE, resource_version=since, timeout_seconds=30
    )
    for event in stream:
        events.append((event["type"], event["object"].data))
        if event["type"] == "DELETED":
            break
    actor.join()
    expect(
        events,
        [("ADDED", {"key": "1"}), ("MODIFIED", {"key": "2"}), ("DELETED", {"key": "2"})],
    )
    # One that is not interrupted ends by itself.
    ended = watch.Watch().stream(core.list_namespaced_config_map, "none", timeout_seconds=1)
    expect(list(ended), [])


def patch_in_all_ways(core, apps):
    core.create_namespaced_config_map(NAMESPACE, config_map("patched", {"a": "1", "b": "2"}))

    def patch(body, **kwargs):
        return core.patch_namespaced_config_map("patched", NAMESPACE, body, **kwargs).data

    expect(patch({"data": {"c": "3", "a": None}}), {"b": "2", "c": "3"})
    expect(patch([{"op": "remove", "path": "/data/b"}]), {"c": "3"})
    container = {"name": "web", "image": "nginx"}
    apps.create_namespaced_deployment(
        NAMESPACE,
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [container, {"name": "log", "image": "busybox"}]},
                },
            },
        },
    )
    body = {"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "nginx:2"}]}}}}
    patched = apps.patch_namespaced_deployment("web", NAMESPACE, body)
    containers = patched.spec.template.spec.containers
    expect({each.name: each.image for each in containers}, {"web": "nginx:2", "log": "busybox"})
    scale = apps.patch_namespaced_deployment_scale("web", NAMESPACE, {"spec": {"replicas": 3}})
    expect(scale.spec.replicas, 3)


def apply_on_the_server(api):
    resources = dynamic.DynamicClient(api).resources
    maps = resources.get(api_version="v1", kind="ConfigMap")

    def apply(manager, value, **kwargs):
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "applied", "namespace": NAMESPACE},
            "data": {"key": value},
        }
        return maps.server_side_apply(
            body=body, name="applied", namespace=NAMESPACE, field_manager=manager, **kwargs
        )

    expect(apply("one", "1").data.key, "1")
    try:
        apply("two", "2")
    except dynamic.exceptions.ConflictError as error:
        assert 'conflict with \\"one\\"' in str(error.body), error.body
    else:
        raise AssertionError("no conflict")
    expect(apply("two", "2", force_conflicts=True).data.key, "2")


def main(kubeconfig):
    api = config.new_client_from_config(kubeconfig)
    core, apps = client.CoreV1Api(api), client.AppsV1Api(api)
    expect(client.VersionApi(api).get_code().major, "1")
    core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
    create_read_replace_delete(core)
    list_in_pages(core)
    watch_what_happens(core)
    patch_in_all_ways(core, apps)
    apply_on_the_server(api)


if __name__ == "__main__":
    main(sys.argv[1])
