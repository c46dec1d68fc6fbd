//! Type checking of ValidatingAdmissionPolicies.

use kevel_test_support::Cluster;
use serde_json::{Value, json};

use super::cluster;

pub const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

/// Creates a policy for Deployments with one validation.
pub async fn create_policy(cluster: &Cluster, name: &str, expression: &str) {
    let rule = json!({
        "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"],
        "operations": ["CREATE"],
    });
    let policy = json!({
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "variables": [{"name": "count", "expression": "object.spec.replicas"}],
            "validations": [{"expression": expression}],
        },
    });
    cluster.admin.create(POLICIES, &policy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_is_checked_against_the_types_that_it_matches() {
    let cluster = cluster().await;
    create_policy(&cluster, "wrong", "object.spec.replica > 1").await;
    let observed = |policy: &Value| policy["status"]["observedGeneration"] == 1;
    let policy = cluster.until_ok(&format!("GET {POLICIES}/wrong"), "", observed).await;
    let warnings = json!([{
        "fieldRef": "spec.validations[0].expression",
        "warning": "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'\n \
                    | object.spec.replica > 1\n | ...........^\n",
    }]);
    assert_eq!(policy["status"]["typeChecking"]["expressionWarnings"], warnings);

    let right = "variables.count > 1 && object.metadata.labels['a'] == 'b' && \
                 object.spec.template.spec.containers.all(c, c.name != '')";
    create_policy(&cluster, "right", right).await;
    let policy = cluster.until_ok(&format!("GET {POLICIES}/right"), "", observed).await;
    assert_eq!(policy["status"]["typeChecking"], json!({}));
    cluster.stop().await;
}
