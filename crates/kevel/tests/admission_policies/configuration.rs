//! Flags and configuration files of the plug-ins.

use kevel::Server;
use kevel_test_support::Cluster;
use serde_json::json;

use super::{GROUP, create, map, only, try_out, validating};

/// Error with which a server with this configuration does not start.
async fn refused(plugin: &str, configuration: &str, flags: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("admission.yaml");
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: {plugin}\n  configuration: {configuration}\n"
    );
    std::fs::write(&file, text).unwrap();
    let builder =
        Server::builder().flag(format!("--admission-control-config-file={}", file.display()));
    let builder = flags.iter().fold(builder, |builder, flag| builder.flag(*flag));
    builder.start().await.unwrap_err().to_string()
}

/// Folders of policies and webhooks that do not load stop the start: a server must not run without them.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_does_not_load_stops_the_start() {
    const GATE: &str = "--feature-gates=ManifestBasedAdmissionControlConfig=true";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, "apiVersion: v1\nkind: Nothing").unwrap();
    for plugin in [
        "ValidatingAdmissionPolicy",
        "MutatingAdmissionPolicy",
        "ValidatingAdmissionWebhook",
        "MutatingAdmissionWebhook",
    ] {
        let (kind, sort) = match plugin.ends_with("Webhook") {
            true => ("WebhookAdmission", "webhook"),
            false => (plugin, "policy"),
        };
        let with = |field: &str| {
            format!(
                "{{apiVersion: apiserver.config.k8s.io/v1, kind: {kind}Configuration, {field}}}"
            )
        };
        let named = with(&format!("staticManifestsDir: {path}"));
        let unloaded = format!(
            "failed to load static {sort} manifests from \"{path}\": error loading {}: no kind \"Nothing\" is registered for version \"v1\"",
            file.display()
        );
        for (configuration, flags, expected) in [
            (
                &named,
                &[][..],
                "staticManifestsDir: Forbidden: staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate to be enabled",
            ),
            (&named, &[GATE], &unloaded),
            (
                &with("staticManifestsDir: manifests"),
                &[GATE],
                "staticManifestsDir: Invalid value: \"manifests\": must be an absolute file path",
            ),
            (
                &with("staticManifestsDir: /nonexistent"),
                &[GATE],
                "staticManifestsDir: Invalid value: \"/nonexistent\": unable to read: ",
            ),
            (
                &with(&format!("staticManifestsDir: {}", file.display())),
                &[GATE],
                "must be a directory",
            ),
            (
                &with("staticManifestDir: /tmp"),
                &[GATE],
                "strict decoding error: unknown field \"staticManifestDir\"",
            ),
            (
                &with("staticManifestsDir: 5"),
                &[GATE],
                "json: cannot unmarshal number into Go struct field",
            ),
            (
                &"{apiVersion: apiserver.config.k8s.io/v1, kind: Nothing}".to_owned(),
                &[],
                "no kind \"Nothing\" is registered",
            ),
        ] {
            let error = refused(plugin, configuration, flags).await;
            assert!(error.contains(expected), "{plugin}: {error}");
        }
    }
}

/// A plug-in that is off decides nothing, nor one whose feature gate is off.
#[tokio::test(flavor = "multi_thread")]
async fn plug_ins_can_be_switched_off() {
    let cluster = Cluster::start(&[
        "--disable-admission-plugins=ValidatingAdmissionPolicy",
        "--feature-gates=MutatingAdmissionPolicy=false",
    ])
    .await;
    let deny = json!({"matchConstraints": only("no"), "validations": [{"expression": "false"}]});
    validating(&cluster, "no", deny).await;
    let policies = format!("{GROUP}/validatingadmissionpolicies");
    create(
        &cluster,
        &policies,
        &json!({"metadata": {"name": "other"}, "spec":
        {"matchConstraints": only("no"), "validations": [{"expression": "false"}]}}),
    )
    .await;
    assert_eq!(try_out(&cluster, &map("no", json!({}))).await.0, 201);
    let metrics = cluster.metrics().await;
    assert!(!metrics.contains("admission_policy_check_total"), "{metrics}");
}
