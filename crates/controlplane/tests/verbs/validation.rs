//! Validation errors in the reference's words.

use kevel_registry::storage::Format;
use kevel_test_support::InMemory;

/// A path, a body, and what is wrong with it: field and message of each cause.
type Case = (&'static str, &'static str, &'static [&'static str]);

const POD: &str = "/api/v1/namespaces/ns/pods";
const JOB: &str = "/apis/batch/v1/namespaces/ns/jobs";
const CRON_JOB: &str = "/apis/batch/v1/namespaces/ns/cronjobs";
const DEPLOYMENT: &str = "/apis/apps/v1/namespaces/ns/deployments";

const CREATES: &[Case] = &[
    (POD, r#"{"metadata":{"name":"p"},"spec":{}}"#, &["spec.containers: Required value"]),
    (
        POD,
        r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"C","image":"i","volumeMounts":[{"name":"v","mountPath":"/v"}]}],"restartPolicy":"Sometimes"}}"#,
        &[
            r#"spec.containers[0].name: Invalid value: "C""#,
            r#"spec.containers[0].volumeMounts[0].name: Not found: "v""#,
            r#"spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never""#,
        ],
    ),
    (
        POD,
        r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}}]}}"#,
        &[
            r#"spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1"#,
        ],
    ),
    (
        JOB,
        r#"{"metadata":{"name":"j"},"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
        &[
            r#"spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never""#,
        ],
    ),
    (
        JOB,
        r#"{"metadata":{"name":"j"},"spec":{"completionMode":"Indexed","parallelism":1,"backoffLimit":-1,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}"#,
        &[
            "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
            "spec.completions: Required value: when completion mode is Indexed",
        ],
    ),
    (
        CRON_JOB,
        r#"{"metadata":{"name":"c"},"spec":{"schedule":"often","timeZone":"Mars/Base","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}"#,
        &[
            r#"spec.schedule: Invalid value: "often": expected exactly 5 fields, found 1: [often]"#,
            r#"spec.timeZone: Invalid value: "Mars/Base": unknown time zone Mars/Base"#,
        ],
    ),
    (
        DEPLOYMENT,
        r#"{"metadata":{"name":"d"},"spec":{"replicas":-1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"c"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#,
        &[
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            r#"spec.template.metadata.labels: Invalid value: {"a":"c"}: `selector` does not match template `labels`"#,
        ],
    ),
    (
        "/api/v1/namespaces/ns/configmaps",
        r#"{"metadata":{"name":"c"},"data":{"a b":"c"}}"#,
        &[r#"data[a b]: Invalid value: "a b": a valid config key"#],
    ),
    (
        "/api/v1/namespaces/ns/secrets",
        r#"{"metadata":{"name":"s"},"type":"kubernetes.io/tls"}"#,
        &["data[tls.crt]: Required value", "data[tls.key]: Required value"],
    ),
    (
        "/api/v1/namespaces/ns/persistentvolumeclaims",
        r#"{"metadata":{"name":"c"},"spec":{}}"#,
        &[
            "spec.accessModes: Required value: at least 1 access mode is required",
            "spec.resources[storage]: Required value",
        ],
    ),
    (
        "/apis/networking.k8s.io/v1/namespaces/ns/ingresses",
        r#"{"metadata":{"name":"i"},"spec":{}}"#,
        &["spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"],
    ),
];

#[tokio::test]
async fn invalid_objects_are_refused_with_all_errors() {
    let server = InMemory::start(Format::Json).await;
    for (path, body, causes) in CREATES {
        let answer = server.ok(&format!("POST {path}"), body, 422).await;
        let answer = answer.replace(r#"\""#, "\"");
        let mut rest = answer.as_str();
        for cause in *causes {
            let at = rest.find(cause);
            assert!(at.is_some(), "{cause} after others in {answer}");
            rest = &rest[at.unwrap_or(0) + cause.len()..];
        }
        let found = answer.matches(r#""reason":"FieldValue"#).count();
        assert_eq!(found, causes.len(), "{answer}");
    }
}

#[tokio::test]
async fn job_selector_and_labels_are_generated() {
    let server = InMemory::start(Format::Json).await;
    let body = r#"{"metadata":{"name":"j"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}"#;
    let job = server.ok(&format!("POST {JOB}"), body, 201).await;
    let uid = crate::field(&job, "uid");
    let selector =
        format!(r#""selector":{{"matchLabels":{{"batch.kubernetes.io/controller-uid":"{uid}"}}}}"#);
    assert!(job.contains(&selector), "{job}");
    assert!(job.contains(r#""batch.kubernetes.io/job-name":"j""#), "{job}");
    // What selects the pods stays; how many run at a time may change.
    let more = job.replace(r#""parallelism":1"#, r#""parallelism":2"#);
    server.ok(&format!("PUT {JOB}/j"), &more, 200).await;
}

#[tokio::test]
async fn of_a_pod_only_some_fields_change() {
    let server = InMemory::start(Format::Json).await;
    let body = r#"{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    server.ok(&format!("POST {POD}"), body, 201).await;
    let patch = "application/merge-patch+json";
    let image = r#"{"spec":{"containers":[{"name":"c","image":"j"}]}}"#;
    server.typed(&format!("PATCH {POD}/p"), image, 200, patch).await;
    let node = r#"{"spec":{"nodeSelector":{"a":"b"}}}"#;
    let refused = server.typed(&format!("PATCH {POD}/p"), node, 422, patch).await;
    assert!(refused.contains("pod updates may not change fields other than"), "{refused}");
}
