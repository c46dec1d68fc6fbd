use super::*;
use crate::constant::{json, parse};

fn converted(kind: &str, from: &str, to: &str, object: &str) -> Result<Value, String> {
    let from: GroupVersion = from.parse().unwrap();
    convert(json(object), &from.with_kind(kind), &to.parse().unwrap(), &parse)
}

#[test]
fn versions_without_a_form_of_their_own() {
    assert_eq!(
        converted(
            "ServiceCIDR",
            "networking.k8s.io/v1beta1",
            "networking.k8s.io/v1",
            r#"{"apiVersion": "networking.k8s.io/v1beta1", "kind": "ServiceCIDR", "spec": {"cidrs": ["10.0.0.0/8"]}}"#
        ),
        Ok(json(
            r#"{"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "spec": {"cidrs": ["10.0.0.0/8"]}}"#
        ))
    );
    assert_eq!(
        converted("Pod", "v1", "apps/v1", "{}"),
        Err(r#"no kind "Pod" is registered for version "apps/v1""#.to_owned())
    );
}

#[test]
fn events() {
    let core = r#"{"count": 2, "involvedObject": {"name": "a"}, "message": "m", "reason": "r",
        "reportingComponent": "c", "source": {"host": "h"}}"#;
    let events = r#"{"deprecatedCount": 2, "regarding": {"name": "a"}, "note": "m", "reason": "r",
        "reportingController": "c", "deprecatedSource": {"host": "h"}}"#;
    assert_eq!(converted("Event", "v1", "events.k8s.io/v1", core), Ok(json(events)));
    assert_eq!(converted("Event", "events.k8s.io/v1", "v1", events), Ok(json(core)));
    let list = |item| format!(r#"{{"items": [{item}]}}"#);
    let listed = converted("EventList", "v1", "events.k8s.io/v1", &list(core));
    assert_eq!(listed, Ok(json(&list(events))));
}

#[test]
fn autoscalers() {
    let v2 = json(
        r#"{"metadata": {"annotations": {"a": "b"}},
            "spec": {
                "maxReplicas": 3,
                "metrics": [
                    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"averageValue": "1", "type": "AverageValue"}}},
                    {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 50, "type": "Utilization"}}}
                ],
                "behavior": {"scaleUp": {"policies": [{"periodSeconds": 15, "type": "Pods", "value": 4}], "selectPolicy": "Max"}}
            },
            "status": {
                "conditions": [{"status": "True", "type": "AbleToScale"}],
                "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 40, "averageValue": "20m"}}}]
            }}"#,
    );
    let (old, new) =
        (GroupVersion::new("autoscaling", "v1"), GroupVersion::new("autoscaling", "v2"));
    let kind = "HorizontalPodAutoscaler";
    let v1 = convert(v2.clone(), &new.with_kind(kind), &old, &parse).unwrap();
    assert_eq!(
        v1.at(&["spec"]),
        Some(&json(r#"{"maxReplicas": 3, "targetCPUUtilizationPercentage": 50}"#))
    );
    assert_eq!(v1.at(&["status"]), Some(&json(r#"{"currentCPUUtilizationPercentage": 40}"#)));
    for (name, expected) in [
        ("metrics", r#"[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"1"}}]"#),
        (
            "current-metrics",
            r#"[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":40,"currentAverageValue":"20m"}}]"#,
        ),
        ("conditions", r#"[{"type":"AbleToScale","status":"True","lastTransitionTime":null}]"#),
        (
            "behavior",
            r#"{"ScaleUp":{"StabilizationWindowSeconds":null,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":null},"ScaleDown":null}"#,
        ),
    ] {
        let annotation = format!("autoscaling.alpha.kubernetes.io/{name}");
        assert_eq!(v1.str_at(&["metadata", "annotations", &annotation]), expected);
    }
    assert_eq!(convert(v1, &old.with_kind(kind), &new, &parse), Ok(v2));
}

#[test]
fn an_autoscaler_of_v1_aims_at_cpu_utilization() {
    let metric = |target| {
        let target = format!(r#"{{"averageUtilization": {target}, "type": "Utilization"}}"#);
        let resource = format!(r#"{{"name": "cpu", "target": {target}}}"#);
        json(&format!(r#"[{{"resource": {resource}, "type": "Resource"}}]"#))
    };
    for (spec, target) in [("{}", 80), (r#"{"targetCPUUtilizationPercentage": 30}"#, 30)] {
        let object = format!(r#"{{"spec": {spec}}}"#);
        let v2 = converted("HorizontalPodAutoscaler", "autoscaling/v1", "autoscaling/v2", &object);
        assert_eq!(v2.unwrap().at(&["spec", "metrics"]), Some(&metric(target)));
    }
}

#[test]
fn device_requests() {
    let v1beta1 = r#"{"spec": {"devices": {"requests": [
        {"name": "a", "deviceClassName": "gpu", "count": 2}, {"name": "b", "firstAvailable": []}]}}}"#;
    let v1 = r#"{"spec": {"devices": {"requests": [
        {"name": "a", "exactly": {"deviceClassName": "gpu", "count": 2}}, {"name": "b", "firstAvailable": []}]}}}"#;
    let (old, new) = ("resource.k8s.io/v1beta1", "resource.k8s.io/v1");
    assert_eq!(converted("ResourceClaim", old, new, v1beta1), Ok(json(v1)));
    assert_eq!(converted("ResourceClaim", new, old, v1), Ok(json(v1beta1)));
    let v1beta1 = r#"{"spec": {"devices": [{"name": "a", "basic": {"allNodes": true}}]}}"#;
    let v1 = r#"{"spec": {"allNodes": false, "devices": [{"name": "a", "allNodes": true}]}}"#;
    assert_eq!(converted("ResourceSlice", new, old, v1), Ok(json(v1beta1)));
}

#[test]
fn fields_that_say_one_thing_are_settled() {
    for (version, kind, object, expected) in [
        (
            "v1",
            "Pod",
            r#"{"spec": {"serviceAccount": "a"}, "status": {"podIPs": [{"ip": "192.0.2.1"}]}}"#,
            r#"{"spec": {"serviceAccount": "a", "serviceAccountName": "a"},
                "status": {"podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}]}}"#,
        ),
        (
            "v1",
            "Pod",
            r#"{"spec": {"serviceAccount": "a", "serviceAccountName": "b", "terminationGracePeriodSeconds": -1},
                "status": {"podIP": "192.0.2.2", "podIPs": [{"ip": "192.0.2.1"}]}}"#,
            r#"{"spec": {"serviceAccount": "b", "serviceAccountName": "b", "terminationGracePeriodSeconds": 1},
                "status": {"podIP": "192.0.2.2", "podIPs": [{"ip": "192.0.2.2"}]}}"#,
        ),
        (
            "v1",
            "Node",
            r#"{"spec": {"podCIDR": "10.0.0.0/24"}}"#,
            r#"{"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}}"#,
        ),
        (
            "v1",
            "Secret",
            r#"{"data": {"a": "YQ==", "b": "Yg=="}, "stringData": {"a": "new"}}"#,
            r#"{"data": {"a": "bmV3", "b": "Yg=="}}"#,
        ),
        (
            "batch/v1",
            "CronJob",
            r#"{"spec": {"jobTemplate": {"spec": {"template": {"spec": {"serviceAccountName": "a"}}}}}}"#,
            r#"{"spec": {"jobTemplate": {"spec": {"template": {"spec": {"serviceAccount": "a", "serviceAccountName": "a"}}}}}}"#,
        ),
        (
            "apps/v1",
            "DaemonSet",
            "{}",
            r#"{"metadata": {"annotations": {"deprecated.daemonset.template.generation": "0"}}}"#,
        ),
        (
            "apps/v1",
            "StatefulSet",
            r#"{"spec": {"volumeClaimTemplates": [{"metadata": {"name": "a"}}]}}"#,
            r#"{"spec": {"volumeClaimTemplates": [{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}}]}}"#,
        ),
        (
            "apps/v1",
            "Deployment",
            r#"{"spec": {"strategy": {"type": "Recreate", "rollingUpdate": {}}}}"#,
            r#"{"spec": {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}}}"#,
        ),
    ] {
        assert_eq!(converted(kind, version, version, object), Ok(json(expected)), "{object}");
    }
    let bad = r#"{"metadata": {"annotations": {"deprecated.deployment.rollback.to": "x"}}}"#;
    assert_eq!(
        converted("Deployment", "apps/v1", "apps/v1", bad),
        Err("failed to parse annotation[deprecated.deployment.rollback.to]=x as int64: \
             strconv.ParseInt: parsing \"x\": invalid syntax"
            .to_owned())
    );
}
