//! Tests of defaulting: objects before and after.

use crate::builtin;
use crate::constant::json;
use crate::default::{apply, drop_nulls};
use crate::schema::Schema;
use crate::value::Value;

/// Defaults an object and compares the value at a path (`spec.containers.0`).
fn check(kind: &str, object: &str, path: &str, expected: &str) {
    let (group_version, kind) = kind.rsplit_once(' ').unwrap();
    let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
    let schema = builtin::schema(group, version, kind).unwrap();
    let mut value = json(object);
    apply(&mut value, schema);
    let found = path.split('.').filter(|step| !step.is_empty()).fold(&value, |value, step| {
        match step.parse::<usize>() {
            Ok(index) => &value.as_list().unwrap()[index],
            Err(_) => value.at(&[step]).unwrap_or(&Value::Null),
        }
    });
    assert_eq!(found, &json(expected), "{kind} {object} {path}");
    let once = value.clone();
    apply(&mut value, schema);
    assert_eq!(value, once, "defaulting {kind} {object} again changes nothing");
}

#[test]
fn absent_structs_with_defaults_are_created() {
    check(
        "apps/v1 ReplicaSet",
        "{}",
        "",
        r#"{"spec": {
            "replicas": 1,
            "template": {"spec": {
                "dnsPolicy": "ClusterFirst",
                "restartPolicy": "Always",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "terminationGracePeriodSeconds": 30
            }}
        }}"#,
    );
    check("v1 ReplicationController", "{}", "", r#"{"spec": {"replicas": 1}}"#);
    check("v1 ConfigMap", "{}", "", r#"{"data": {}}"#);
    check("v1 ServiceAccount", "{}", "", "{}");
}

#[test]
fn only_a_pointer_tells_zero_from_nothing() {
    check("apps/v1 ReplicaSet", r#"{"spec": {"replicas": 0}}"#, "spec.replicas", "0");
    check("v1 PersistentVolumeClaim", "{}", "spec", r#"{"volumeMode": "Filesystem"}"#);
    check(
        "storage.k8s.io/v1 CSIDriver",
        r#"{"spec": {"volumeLifecycleModes": [], "attachRequired": false, "fsGroupPolicy": ""}}"#,
        "spec",
        r#"{"attachRequired": false, "fsGroupPolicy": "", "podInfoOnMount": false,
            "requiresRepublish": false, "seLinuxMount": false, "storageCapacity": false,
            "volumeLifecycleModes": ["Persistent"]}"#,
    );
}

#[test]
fn a_default_may_depend_on_a_sibling() {
    for (object, expected) in [
        (
            "{}",
            r#"{"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}"#,
        ),
        (
            r#"{"rollingUpdate": {"maxSurge": 2}}"#,
            r#"{"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2, "maxUnavailable": "25%"}}"#,
        ),
        (
            r#"{"type": "Recreate", "rollingUpdate": {}}"#,
            r#"{"type": "Recreate", "rollingUpdate": {}}"#,
        ),
    ] {
        let object = format!(r#"{{"spec": {{"strategy": {object}}}}}"#);
        check("apps/v1 Deployment", &object, "spec.strategy", expected);
    }
    for (object, expected) in [
        ("{}", r#"{"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}"#),
        (r#"{"type": "RollingUpdate"}"#, r#"{"type": "RollingUpdate"}"#),
        (
            r#"{"type": "RollingUpdate", "rollingUpdate": {}}"#,
            r#"{"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}"#,
        ),
        (
            r#"{"type": "OnDelete", "rollingUpdate": {}}"#,
            r#"{"type": "OnDelete", "rollingUpdate": {}}"#,
        ),
    ] {
        let object = format!(r#"{{"spec": {{"updateStrategy": {object}}}}}"#);
        check("apps/v1 StatefulSet", &object, "spec.updateStrategy", expected);
    }
}

#[test]
fn containers() {
    check(
        "v1 Pod",
        r#"{"spec": {"containers": [{
            "name": "a",
            "image": "nginx:1.27",
            "ports": [{"containerPort": 80}],
            "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "livenessProbe": {"httpGet": {"port": 80}},
            "readinessProbe": {"grpc": {"port": 81}, "periodSeconds": 5}
        }]}}"#,
        "spec.containers.0",
        r#"{
            "name": "a",
            "image": "nginx:1.27",
            "imagePullPolicy": "IfNotPresent",
            "ports": [{"containerPort": 80, "protocol": "TCP"}],
            "env": [{"name": "N", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
            "livenessProbe": {
                "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
                "failureThreshold": 3, "periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1
            },
            "readinessProbe": {
                "grpc": {"port": 81, "service": ""},
                "failureThreshold": 3, "periodSeconds": 5, "successThreshold": 1, "timeoutSeconds": 1
            },
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File"
        }"#,
    );
    let pull = "spec.containers.0.imagePullPolicy";
    for (image, expected) in [("nginx", "Always"), ("nginx:latest", "Always"), ("", "IfNotPresent")]
    {
        let object = format!(r#"{{"spec": {{"containers": [{{"image": "{image}"}}]}}}}"#);
        check("v1 Pod", &object, pull, &format!("\"{expected}\""));
    }
}

#[test]
fn volumes() {
    for (volume, expected) in [
        (r#"{"name": "a"}"#, r#"{"name": "a", "emptyDir": {}}"#),
        (r#"{"hostPath": {"path": "/"}}"#, r#"{"hostPath": {"path": "/", "type": ""}}"#),
        (r#"{"secret": {}}"#, r#"{"secret": {"defaultMode": 420}}"#),
        (
            r#"{"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}"#,
            r#"{"projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"expirationSeconds": 3600, "path": "t"}}]}}"#,
        ),
        (
            r#"{"image": {"reference": "a:latest"}}"#,
            r#"{"image": {"pullPolicy": "Always", "reference": "a:latest"}}"#,
        ),
        (
            r#"{"ephemeral": {"volumeClaimTemplate": {}}}"#,
            r#"{"ephemeral": {"volumeClaimTemplate": {"spec": {"volumeMode": "Filesystem"}}}}"#,
        ),
    ] {
        let object = format!(r#"{{"spec": {{"volumes": [{volume}]}}}}"#);
        check("v1 Pod", &object, "spec.volumes.0", expected);
    }
}

#[test]
fn a_pod_has_more_defaults_than_a_pod_template() {
    let container = r#"[{"resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
        "ports": [{"containerPort": 80}]}]"#;
    let spec = format!(r#"{{"hostNetwork": true, "containers": {container}}}"#);
    let pod = format!(r#"{{"spec": {spec}}}"#);
    check(
        "v1 Pod",
        &pod,
        "spec.containers.0.resources.requests",
        r#"{"cpu": "500m", "memory": "1Gi"}"#,
    );
    check("v1 Pod", &pod, "spec.containers.0.ports.0.hostPort", "80");
    check("v1 Pod", &pod, "spec.enableServiceLinks", "true");
    let template = format!(r#"{{"template": {{"spec": {spec}}}}}"#);
    let resources = "template.spec.containers.0.resources.requests";
    check("v1 PodTemplate", &template, resources, r#"{"cpu": "500m"}"#);
    check("v1 PodTemplate", &template, "template.spec.containers.0.ports.0.hostPort", "null");
    check("v1 PodTemplate", &template, "template.spec.enableServiceLinks", "null");
}

#[test]
fn amounts_are_rounded_up_to_thousandths() {
    check(
        "v1 ResourceQuota",
        r#"{"spec": {"hard": {"cpu": "0.0001", "memory": "1.5Gi"}}}"#,
        "spec.hard",
        r#"{"cpu": "1m", "memory": "1536Mi"}"#,
    );
    check(
        "v1 Node",
        r#"{"status": {"capacity": {"cpu": "1.0001"}}}"#,
        "status.allocatable",
        r#"{"cpu": "1001m"}"#,
    );
}

#[test]
fn a_pods_own_resources_follow_from_its_containers() {
    let object = r#"{"spec": {
        "resources": {"limits": {"cpu": "4", "memory": "8Gi"}},
        "initContainers": [
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
            {"resources": {"requests": {"cpu": "2"}, "limits": {"hugepages-2Mi": "4Mi"}}}
        ],
        "containers": [
            {"resources": {"requests": {"cpu": "500m"}}},
            {"resources": {"requests": {"cpu": "250m"}}}
        ]
    }}"#;
    // Starting needs 1 + 2, running only 1 + 0.5 + 0.25. No container requests memory.
    let requests = r#"{"cpu": "3", "hugepages-2Mi": "4Mi", "memory": "8Gi"}"#;
    check("v1 Pod", object, "spec.resources.requests", requests);
    let limits = r#"{"cpu": "4", "hugepages-2Mi": "4Mi", "memory": "8Gi"}"#;
    check("v1 Pod", object, "spec.resources.limits", limits);
}

#[test]
fn services() {
    for (spec, expected) in [
        (
            r#"{"ports": [{"port": 80}, {"port": 81, "targetPort": "http"}]}"#,
            r#"{"internalTrafficPolicy": "Cluster", "sessionAffinity": "None", "type": "ClusterIP", "ports": [
                {"port": 80, "protocol": "TCP", "targetPort": 80},
                {"port": 81, "protocol": "TCP", "targetPort": "http"}]}"#,
        ),
        (
            r#"{"type": "LoadBalancer", "sessionAffinity": "ClientIP"}"#,
            r#"{"allocateLoadBalancerNodePorts": true, "externalTrafficPolicy": "Cluster",
                "internalTrafficPolicy": "Cluster", "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}, "type": "LoadBalancer"}"#,
        ),
        (
            r#"{"type": "ExternalName", "sessionAffinityConfig": {}}"#,
            r#"{"sessionAffinity": "None", "type": "ExternalName"}"#,
        ),
    ] {
        check("v1 Service", &format!(r#"{{"spec": {spec}}}"#), "spec", expected);
    }
    check(
        "v1 Service",
        r#"{"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "a"}]}}}"#,
        "status.loadBalancer.ingress",
        r#"[{"ip": "192.0.2.1", "ipMode": "VIP"}, {"hostname": "a"}]"#,
    );
}

#[test]
fn jobs() {
    let job = r#"{"spec": {"backoffLimitPerIndex": 1, "template": {"metadata": {"labels": {"a": "b"}}}}}"#;
    check("batch/v1 Job", job, "metadata", r#"{"labels": {"a": "b"}}"#);
    check("batch/v1 Job", job, "spec.backoffLimit", "2147483647");
    check("batch/v1 Job", job, "spec.completions", "1");
    check("batch/v1 Job", r#"{"spec": {"parallelism": 0}}"#, "spec.completions", "null");
    let cron = format!(r#"{{"spec": {{"jobTemplate": {job}}}}}"#);
    check("batch/v1 CronJob", &cron, "spec.jobTemplate.spec.backoffLimit", "null");
    check("batch/v1 CronJob", &cron, "spec.suspend", "false");
}

#[test]
fn other_kinds() {
    for (kind, object, path, expected) in [
        (
            "v1 Namespace",
            r#"{"metadata": {"name": "a"}}"#,
            "",
            r#"{"metadata": {"labels": {"kubernetes.io/metadata.name": "a"}, "name": "a"}, "status": {"phase": "Active"}}"#,
        ),
        (
            "v1 Namespace",
            r#"{"metadata": {"generateName": "a"}}"#,
            "metadata",
            r#"{"generateName": "a"}"#,
        ),
        (
            "v1 LimitRange",
            r#"{"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Mi"}}]}}"#,
            "spec.limits.0",
            r#"{"default": {"cpu": "2"}, "defaultRequest": {"cpu": "2", "memory": "1Mi"},
                "max": {"cpu": "2"}, "min": {"cpu": "1", "memory": "1Mi"}, "type": "Container"}"#,
        ),
        (
            "v1 ReplicationController",
            r#"{"spec": {"template": {"metadata": {"labels": {"a": "b"}}}}}"#,
            "spec.selector",
            r#"{"a": "b"}"#,
        ),
        (
            "networking.k8s.io/v1 NetworkPolicy",
            r#"{"spec": {"egress": [{"ports": [{"port": 53}]}]}}"#,
            "spec",
            r#"{"egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}], "policyTypes": ["Ingress", "Egress"]}"#,
        ),
        (
            "rbac.authorization.k8s.io/v1 RoleBinding",
            r#"{"subjects": [{"kind": "User"}, {"kind": "ServiceAccount"}]}"#,
            "",
            r#"{"roleRef": {"apiGroup": "rbac.authorization.k8s.io"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User"}, {"kind": "ServiceAccount"}]}"#,
        ),
        (
            "autoscaling/v2 HorizontalPodAutoscaler",
            r#"{"spec": {"behavior": {"scaleDown": {"policies": []}}}}"#,
            "spec.behavior.scaleDown",
            r#"{"policies": [], "selectPolicy": "Max"}"#,
        ),
        (
            "resource.k8s.io/v1beta1 ResourceClaim",
            r#"{"spec": {"devices": {"requests": [{"name": "a"}, {"deviceClassName": "gpu"}]}}}"#,
            "spec.devices.requests",
            r#"[{"name": "a"}, {"allocationMode": "ExactCount", "count": 1, "deviceClassName": "gpu"}]"#,
        ),
        (
            "apiextensions.k8s.io/v1 CustomResourceDefinition",
            r#"{"spec": {"names": {"kind": "Foo"}, "versions": [{"name": "v1", "storage": true}]}}"#,
            "",
            r#"{"spec": {"conversion": {"strategy": "None"},
                    "names": {"kind": "Foo", "listKind": "FooList", "singular": "foo"},
                    "versions": [{"name": "v1", "storage": true}]},
                "status": {"storedVersions": ["v1"]}}"#,
        ),
    ] {
        check(kind, object, path, expected);
    }
}

#[test]
fn lists_have_their_items_defaulted() {
    check("v1 SecretList", r#"{"items": [{}]}"#, "items.0.type", "\"Opaque\"");
}

#[test]
fn custom_kinds() {
    let schema = json(
        r#"{"type": "object", "properties": {
            "replicas": {"type": "integer", "default": 1},
            "note": {"type": "string", "nullable": true, "default": "x"},
            "rules": {"type": "array", "items": {"type": "object", "properties": {"mode": {"type": "string", "default": "a"}}}},
            "limits": {"type": "object", "additionalProperties": {"type": "integer", "default": 5}},
            "nested": {"type": "object", "default": {}, "properties": {"deep": {"type": "boolean", "default": true}}},
            "absent": {"type": "object", "properties": {"deep": {"type": "boolean", "default": true}}},
            "plain": {"type": "string"}
        }}"#,
    );
    let (table, id) = crate::crd_schema::table(&schema, &|_| None).unwrap();
    for (object, expected) in [
        ("{}", r#"{"nested": {"deep": true}, "note": "x", "replicas": 1}"#),
        (
            r#"{"replicas": null, "note": null, "plain": null, "nested": {"deep": false}}"#,
            r#"{"nested": {"deep": false}, "note": null, "replicas": 1}"#,
        ),
        (
            r#"{"replicas": 0, "note": "", "rules": [{}, {"mode": "b"}], "limits": {"a": null, "b": 1}}"#,
            r#"{"limits": {"a": 5, "b": 1}, "nested": {"deep": true}, "note": "", "replicas": 0,
                "rules": [{"mode": "a"}, {"mode": "b"}]}"#,
        ),
    ] {
        let mut value = json(object);
        drop_nulls(&mut value, Schema::new(&table, id));
        apply(&mut value, Schema::new(&table, id));
        assert_eq!(value, json(expected), "{object}");
    }
}

#[test]
fn a_large_object_is_defaulted_in_good_time() {
    let property = |i: usize| (format!("field{i}"), json(r#"{"type": "integer", "default": 1}"#));
    let mut schema = json(r#"{"type": "object", "x-kubernetes-preserve-unknown-fields": true}"#);
    let properties = Value::Map((0..10_000).map(property).collect());
    schema.as_map_mut().unwrap().insert("properties", properties);
    let (table, id) = crate::crd_schema::table(&schema, &|_| None).unwrap();
    let unknown = |i: usize| (format!("unknown{i}"), Value::Null);
    let mut value = Value::Map((0..100_000).map(unknown).collect());
    apply(&mut value, Schema::new(&table, id));
    // Inserting one by one would move 50 GB.
    assert_eq!(value.as_map().unwrap().len(), 110_000);
}
