//! Policies in files of the server (`staticManifestsDir`).

use kevel_test_support::Cluster;
use serde_json::{Value, json};

use super::{GROUP, apply, in_force, map, only, try_out, validating};

const GATE: &str = "--feature-gates=ManifestBasedAdmissionControlConfig=true";

/// A policy and a binding in a file, both with this name.
fn manifest(kind: &str, name: &str, spec: Value) -> String {
    let name = format!("{name}.static.k8s.io");
    let object = |kind: String, spec: Value| json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let mut bound = json!({"policyName": name});
    if kind == "Validating" {
        bound["validationActions"] = json!(["Deny"]);
    }
    let policy = object(format!("{kind}AdmissionPolicy"), spec);
    let binding = object(format!("{kind}AdmissionPolicyBinding"), bound);
    format!("# {kind}\n{policy}\n---\n{binding}\n")
}

fn deny(rules: Value) -> Value {
    json!({"matchConstraints": rules, "validations": [{"expression": "false", "message": "by a file"}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_of_files_are_in_force_and_followed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let mut configuration =
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
            .to_owned();
    for kind in ["Validating", "Mutating"] {
        std::fs::create_dir(at(kind)).unwrap();
        configuration += &format!(
            "- name: {kind}AdmissionPolicy\n  configuration: {{apiVersion: apiserver.config.k8s.io/v1, kind: {kind}AdmissionPolicyConfiguration, staticManifestsDir: {}}}\n",
            at(kind).display()
        );
    }
    std::fs::write(at("admission.yaml"), configuration).unwrap();
    let write = |file: &str, text: &str| {
        std::fs::write(at("new"), text).unwrap();
        std::fs::rename(at("new"), at(file)).unwrap();
    };
    write("Validating/deny.yaml", &manifest("Validating", "deny", deny(only("file"))));
    // Broad enough for everything that a policy may see.
    let everything = json!({"resourceRules": [{"apiGroups": ["authorization.k8s.io", "authentication.k8s.io", "admissionregistration.k8s.io"],
        "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*/*"]}]});
    let mut reviews = deny(everything);
    reviews["matchConditions"] = json!([{"name": "n", "expression": "!object.metadata.?name.orValue('').startsWith('probe')"}]);
    write("Validating/all.yaml", &manifest("Validating", "all", reviews));
    let file = format!("--admission-control-config-file={}", at("admission.yaml").display());
    let cluster = Cluster::start(&[GATE, &file]).await;

    let (code, refusal) = try_out(&cluster, &map("file", json!({}))).await;
    assert_eq!(code, 422);
    let message = refusal["message"].as_str().unwrap();
    let expected = "ValidatingAdmissionPolicy 'deny.static.k8s.io' with binding 'deny.static.k8s.io' denied request: by a file";
    assert!(message.ends_with(expected), "{message}");
    // Policies of the API cannot keep others out; those of files can. No policy sees reviews.
    let policies = format!("POST {GROUP}/validatingadmissionpolicies");
    let policy = json!({"metadata": {"name": "other"}, "spec": deny(only("other"))}).to_string();
    let refusal = cluster.refused("admin", &policies, &policy).await;
    assert!(refusal.contains("by a file"), "{refusal}");
    let review = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    let reviews = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    cluster.ok("admin", reviews, &review.to_string()).await;

    // The API's are beside them.
    in_force(&cluster).await;
    std::fs::remove_file(at("Validating/all.yaml")).unwrap();
    cluster.until_sent("admin", &format!("{policies}?dryRun=All"), &policy, |a| a.0 == 201).await;
    validating(&cluster, "api", deny(only("api"))).await;
    in_force(&cluster).await;
    for case in ["api", "file"] {
        assert_eq!(try_out(&cluster, &map(case, json!({}))).await.0, 422, "{case}");
    }

    // Another file, and one less.
    let change = json!({"matchConstraints": only("change"), "reinvocationPolicy": "Never",
        "mutations": [apply(r#"Object{data: {"by": "file"}}"#)]});
    write("Mutating/change.yaml", &manifest("Mutating", "change", change));
    std::fs::remove_file(at("Validating/deny.yaml")).unwrap();
    let post = format!("POST {}?dryRun=All", super::MAPS);
    let changed = map("change", json!({})).to_string();
    let by_file = |answer: &(u16, String)| answer.1.contains("\"by\":\"file\"");
    cluster.until_sent("admin", &post, &changed, by_file).await;
    let free = map("file", json!({})).to_string();
    cluster.until_sent("admin", &post, &free, |answer| answer.0 == 201).await;
    assert_eq!(try_out(&cluster, &map("api", json!({}))).await.0, 422);

    // Their names are theirs.
    for plural in [
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    ] {
        let object = json!({"metadata": {"name": "x.static.k8s.io"}}).to_string();
        let refusal = cluster.refused("admin", &format!("POST {GROUP}/{plural}"), &object).await;
        assert!(refusal.contains("are reserved for static manifest-based"), "{plural}: {refusal}");
    }
    cluster.stop().await;
}
