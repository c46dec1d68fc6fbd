//! Migration of stored objects.

use std::time::Duration;

use kevel::ManualClock;
use kevel_test_support::{Cluster, until};
use serde_json::{Value, json};

use super::cluster;

const MIGRATIONS: &str = "/apis/storagemigration.k8s.io/v1beta1/storageversionmigrations";
const DEFINITION: &str =
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
const WIDGETS: &str = "/apis/example.com/v2/namespaces/default/widgets";

async fn migrate(cluster: &Cluster, name: &str, group: &str, resource: &str) {
    let spec = json!({"resource": {"group": group, "resource": resource}});
    cluster.admin.create(MIGRATIONS, &json!({"metadata": {"name": name}, "spec": spec})).await;
}

/// Reason and message of a condition that is true.
async fn told(cluster: &Cluster, name: &str, of: &str) -> Option<String> {
    let (_, migration) = cluster.admin.get(&format!("{MIGRATIONS}/{name}")).await;
    let found = migration["status"]["conditions"].as_array()?.iter().find(|it| it["type"] == of)?;
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    (found["status"] == "True").then(|| format!("{}: {}", text("reason"), text("message")))
}

/// Waits until a migration has ended, and runs no more.
async fn ended(cluster: &Cluster, name: &str) -> String {
    until(async || {
        told(cluster, name, "Running").await.is_none()
            && (told(cluster, name, "Succeeded").await.is_some()
                || told(cluster, name, "Failed").await.is_some())
    })
    .await;
    let succeeded = told(cluster, name, "Succeeded").await;
    succeeded.or(told(cluster, name, "Failed").await).unwrap()
}

pub async fn migrate_config_maps(cluster: &Cluster) {
    migrate(cluster, "configmaps", "", "configmaps").await;
}

pub async fn config_maps_are_migrated(cluster: &Cluster) -> bool {
    told(cluster, "configmaps", "Succeeded").await.is_some()
}

fn versions(storage: &str) -> Value {
    let version = |name: &str| {
        json!({"name": name, "served": true, "storage": name == storage, "schema":
            {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    json!([version("v1"), version("v2")])
}

/// Resource versions of all widgets.
async fn written(cluster: &Cluster) -> Vec<String> {
    let (_, list) = cluster.admin.get(WIDGETS).await;
    let items = list["items"].as_array().unwrap().iter();
    items.map(|item| item["metadata"]["resourceVersion"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_stored_in_the_new_version() {
    let cluster = cluster().await;
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "versions": versions("v1"),
                 "names": {"plural": "widgets", "kind": "Widget", "singular": "widget"}},
    });
    let path = DEFINITION.trim_end_matches("/widgets.example.com");
    cluster.admin.create(path, &definition).await;
    until(async || cluster.admin.get(WIDGETS).await.0 == 200).await;
    // More than a page.
    for number in 0..150 {
        let name = format!("w{number:03}");
        let widget = json!({"apiVersion": "example.com/v2", "kind": "Widget",
            "metadata": {"name": name}});
        until(async || [201, 409].contains(&cluster.admin.post(WIDGETS, &widget).await.0)).await;
    }
    let first = written(&cluster).await[0].clone();
    let patch = json!({"spec": {"versions": versions("v2")}}).to_string();
    cluster.ok("admin", &format!("PATCH {DEFINITION}"), &patch).await;
    let stored = async || cluster.admin.get(DEFINITION).await.1["status"]["storedVersions"].clone();
    assert_eq!(stored().await, json!(["v1", "v2"]));
    // The rows with the new storage version are served: a write changes what is stored.
    let touch = async |name: &str| {
        let patch = format!("PATCH {WIDGETS}/{name}");
        cluster.ok("admin", &patch, "{}").await["metadata"]["resourceVersion"].clone()
    };
    until(async || touch("w000").await != first).await;

    let before = written(&cluster).await;
    migrate(&cluster, "to-v2", "example.com", "widgets").await;
    assert_eq!(ended(&cluster, "to-v2").await, "StorageVersionMigrationSucceeded: ");
    let after = written(&cluster).await;
    let unchanged: Vec<usize> = (0..before.len()).filter(|at| before[*at] == after[*at]).collect();
    assert_eq!(unchanged, [0]);
    assert_eq!(stored().await, json!(["v2"]));
    let (_, definition) = cluster.admin.get(DEFINITION).await;
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let migrating = conditions.iter().find(|it| it["type"] == "StorageMigrating").unwrap();
    assert_eq!(migrating["status"], "False");
    assert_eq!(migrating["reason"], "MigrationSucceeded");
    assert_eq!(
        migrating["message"],
        "The migration has succeeded and the stored versions have been updated"
    );

    // Nothing is left for further ones, which run one after the other.
    for name in ["again", "and-again"] {
        migrate(&cluster, name, "example.com", "widgets").await;
    }
    for name in ["again", "and-again"] {
        assert_eq!(ended(&cluster, name).await, "StorageVersionMigrationSucceeded: ");
    }
    assert_eq!(written(&cluster).await, after);
    assert_eq!(stored().await, json!(["v2"]));
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn migration_that_cannot_succeed_says_why() {
    let clock = ManualClock::at_present();
    let builder = super::gated(kevel::Server::builder().clock(&clock));
    let cluster = Cluster::with(builder).await;
    let group = "authorization.k8s.io";
    migrate(&cluster, "verbs", group, "subjectaccessreviews").await;
    assert_eq!(
        ended(&cluster, "verbs").await,
        "StorageVersionMigrationFailed: resource \
         \"authorization.k8s.io/v1, Resource=subjectaccessreviews\" does not support discovery \
         operations: [update patch list]"
    );

    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
        "resources": ["configmaps"]});
    let policy = json!({"metadata": {"name": "frozen"}, "spec": {
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": "object.metadata.name != 'frozen'", "message": "frozen"}],
    }});
    cluster.admin.create(policies, &policy).await;
    let binding = json!({"metadata": {"name": "frozen"},
        "spec": {"policyName": "frozen", "validationActions": ["Deny"]}});
    cluster.admin.create(&policies.replace("policies", "policybindings"), &binding).await;
    let maps = "/api/v1/namespaces/default/configmaps";
    cluster.admin.create(maps, &json!({"metadata": {"name": "frozen"}})).await;
    let touch = json!({"data": {"a": "b"}}).to_string();
    until(async || cluster.send("admin", &format!("PATCH {maps}/frozen"), &touch).await.0 != 200)
        .await;
    migrate(&cluster, "refused", "", "configmaps").await;
    let refused = ended(&cluster, "refused").await;
    let expected = "StorageVersionMigrationFailed: migration encountered unhandled error: ";
    assert!(refused.starts_with(expected) && refused.ends_with("frozen"), "{refused}");

    // A resource may be new, for a minute.
    migrate(&cluster, "unknown", "example.com", "gadgets").await;
    until(async || told(&cluster, "unknown", "Running").await.is_some()).await;
    assert_eq!(
        told(&cluster, "unknown", "Running").await.unwrap(),
        "MigrationRunning: The migration is running"
    );
    assert_eq!(told(&cluster, "unknown", "Failed").await, None);
    clock.advance(Duration::from_secs(61));
    assert_eq!(
        ended(&cluster, "unknown").await,
        "StorageVersionMigrationFailed: resource does not exist in discovery"
    );
    cluster.stop().await;
}
