//! What flags and files say about the plug-ins.

use kevel::Server;
use kevel_test_support::Cluster;
use serde_json::json;

use super::{GROUP, create, map, only, try_out, validating};

/// Why a server with this configuration does not start.
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

/// Policies in files are not there: who wants them is not left in the belief that they are.
#[tokio::test(flavor = "multi_thread")]
async fn policies_in_files_are_refused() {
    for plugin in ["ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"] {
        let wanted = format!(
            "{{apiVersion: apiserver.config.k8s.io/v1, kind: {plugin}Configuration, staticManifestsDir: /tmp}}"
        );
        let error = refused(plugin, &wanted, &[]).await;
        assert!(
            error.contains(
                "staticManifestsDir requires the ManifestBasedAdmissionControlConfig feature gate"
            ),
            "{error}"
        );
        let error =
            refused(plugin, &wanted, &["--feature-gates=ManifestBasedAdmissionControlConfig=true"])
                .await;
        assert!(error.contains("is not supported by this server"), "{error}");
        let other = "{apiVersion: apiserver.config.k8s.io/v1, kind: Nothing}";
        let error = refused(plugin, other, &[]).await;
        assert!(error.contains("no kind \"Nothing\" is registered"), "{error}");
    }
}

/// What is switched off does not decide; what a feature gate closes neither.
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
