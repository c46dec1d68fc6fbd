//! Propagation of writes by one server to all of them: definitions, API services, policies.

use std::time::Duration;

use kevel_test_support::{PATIENCE, Replica, Replicas};
use serde_json::{Value, json};

/// Time within which all servers apply a write. A busy machine may be late once, not every time.
const SOON: Duration = Duration::from_secs(1);
const ROUNDS: usize = 4;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_one_server_writes_goes_for_all_within_a_second() {
    let Some(replicas) = Replicas::new().await else { return };
    let servers = replicas.start_all(3, &[]).await;
    let mut fastest = [PATIENCE; 5];
    for round in 0..ROUNDS {
        // Each round another server writes.
        let writer = &servers[round % servers.len()];
        let times = [
            definition(&servers, writer, round).await,
            definition_gone(&servers, writer, round).await,
            api_service(&servers, writer, round).await,
            policy(&servers, writer, round).await,
            policy_gone(&servers, writer, round).await,
        ];
        for (fastest, time) in fastest.iter_mut().zip(times) {
            *fastest = time.min(*fastest);
        }
    }
    println!("definition, its end, API service, policy, its end: {fastest:?}");
    assert!(fastest.iter().all(|time| *time <= SOON), "{fastest:?}");
    for server in servers {
        server.stop().await;
    }
}

/// Until every server answers as wanted, from the end of the write on.
async fn until_all(
    servers: &[Replica],
    (method, path, body): (&str, &str, &Value),
    wanted: impl Fn(u16, &Value) -> bool,
) -> Duration {
    let started = kevel_clock::monotonic_now();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    for server in servers {
        loop {
            let (code, answer) = server.admin.send(method, path, &[], &body).await;
            if wanted(code, &answer) {
                break;
            }
            assert!(started.elapsed() < PATIENCE, "{method} {path}: {code} {answer}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    started.elapsed()
}

async fn definition(servers: &[Replica], writer: &Replica, round: usize) -> Duration {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    let definition = json!({
        "metadata": {"name": format!("things.r{round}.example.com")},
        "spec": {
            "group": format!("r{round}.example.com"), "scope": "Cluster",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
            }],
        },
    });
    writer.admin.create(DEFINITIONS, &definition).await;
    let path = format!("/apis/r{round}.example.com/v1/things");
    let thing = json!({
        "apiVersion": format!("r{round}.example.com/v1"), "kind": "Thing",
        "metadata": {"generateName": "a-"}, "a": "b",
    });
    until_all(servers, ("POST", &path, &thing), |code, _| code == 201).await
}

async fn definition_gone(servers: &[Replica], writer: &Replica, round: usize) -> Duration {
    let path = format!("{DEFINITIONS}/things.r{round}.example.com");
    writer.admin.delete(&path).await;
    let path = format!("/apis/r{round}.example.com/v1/things");
    until_all(servers, ("GET", &path, &Value::Null), |code, _| code == 404).await
}

async fn api_service(servers: &[Replica], writer: &Replica, round: usize) -> Duration {
    let group = format!("remote{round}.example.com");
    let service = json!({
        "metadata": {"name": format!("v1.{group}")},
        "spec": {
            "group": group, "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
            "service": {"namespace": "default", "name": "absent"}, "insecureSkipTLSVerify": true,
        },
    });
    writer.admin.create(API_SERVICES, &service).await;
    let path = format!("/apis/{group}/v1/things");
    until_all(servers, ("GET", &path, &Value::Null), |code, _| code == 503).await
}

async fn policy(servers: &[Replica], writer: &Replica, round: usize) -> Duration {
    let name = format!("p{round}");
    let rules = json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
        "operations": ["CREATE"],
    }]);
    let expression = format!("object.metadata.name != 'config{round}'");
    let policy = json!({
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [{"expression": expression}],
        },
    });
    writer.admin.create(POLICIES, &policy).await;
    let binding = json!({
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    });
    writer.admin.create(BINDINGS, &binding).await;
    let (path, config) = config(round);
    until_all(servers, ("POST", path, &config), |code, _| code == 422).await
}

async fn policy_gone(servers: &[Replica], writer: &Replica, round: usize) -> Duration {
    writer.admin.delete(&format!("{BINDINGS}/p{round}")).await;
    let (path, config) = config(round);
    until_all(servers, ("POST", path, &config), |code, _| code == 201).await
}

/// Object that the policy of a round denies.
fn config(round: usize) -> (&'static str, Value) {
    let config = json!({"metadata": {"name": format!("config{round}")}});
    ("/api/v1/namespaces/default/configmaps?dryRun=All", config)
}
