use std::path::Path;
use std::sync::Arc;

use kevel_auth::Rbac;
use kevel_auth::authorization::{Abac, Configured, Lasting};
use kevel_clock::Clock;
use kevel_registry::user::User;
use kevel_server::authorization::{Authorizer as _, Decision};
use kevel_server::egress::Dialer;

use super::server::{WebhookServer, ask, metrics};

fn config(authorizers: &[String]) -> String {
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{}]\n",
        authorizers.join(", ")
    )
}

fn webhook(name: &str, kubeconfig: &Path) -> String {
    format!(
        "{{type: Webhook, name: {name}, webhook: {{timeout: 3s, subjectAccessReviewVersion: v1, \
         failurePolicy: Deny, connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {}}}}}}}",
        kubeconfig.display()
    )
}

fn plain(mode: &str) -> String {
    format!("{{type: {mode}, name: {}}}", mode.to_lowercase())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_is_taken_up_while_the_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let write = |authorizers: &[String]| std::fs::write(&file, config(authorizers)).unwrap();
    let (allows, denies) = (
        WebhookServer::saying(r#"{"allowed":true}"#),
        WebhookServer::saying(r#"{"denied":true,"reason":"no"}"#),
    );
    let allows_file = allows.kubeconfig(folder.path());
    let denies_file = denies.kubeconfig(folder.path());
    let (shown, metrics) = metrics();
    write(&[plain("RBAC"), plain("AlwaysDeny")]);
    let configured = Configured::load(&file, |config| {
        assert_eq!(config.lasting_modes().len(), 2);
        let rbac = Arc::new(Rbac::default());
        Ok(Lasting {
            rbac,
            node: None,
            abac: None,
            dialer: Dialer::default(),
            metrics,
            clock: Clock::system(),
        })
    });
    let configured = configured.unwrap().impatient();
    let decide = async || ask(&configured, "jane", "GET /x").await.decision;
    assert_eq!(decide().await, Decision::NoOpinion);

    write(&[webhook("a", &allows_file), plain("RBAC"), plain("AlwaysDeny")]);
    assert_eq!(decide().await, Decision::Allow);
    write(&[
        webhook("d", &denies_file),
        webhook("a", &allows_file),
        plain("RBAC"),
        plain("AlwaysDeny"),
    ]);
    assert_eq!(decide().await, Decision::Deny);
    // A member of system:masters may do everything under every configuration.
    assert_eq!(ask(&configured, "joe,system:masters", "GET /x").await.decision, Decision::Allow);

    // What is not valid changes nothing.
    let before = std::fs::read(&file).unwrap();
    for broken in [
        "rubbish".to_owned(),
        String::new(),
        config(&[]),
        config(&[plain("AlwaysAllow")]),
        config(&[plain("RBAC"), plain("AlwaysDeny"), plain("Node")]),
        config(&[plain("RBAC"), plain("AlwaysDeny"), plain("ABAC")]),
        config(&[plain("RBAC"), plain("AlwaysDeny"), webhook("x", Path::new("/nowhere"))]),
    ] {
        std::fs::write(&file, &broken).unwrap();
        assert_eq!(decide().await, Decision::Deny, "{broken}");
    }
    std::fs::remove_file(&file).unwrap();
    assert_eq!(decide().await, Decision::Deny);

    // The same in other words keeps what webhooks answered.
    let calls = denies.asked().len();
    let mut same = before;
    same.extend_from_slice(b"# a comment\n");
    std::fs::write(&file, same).unwrap();
    assert_eq!(decide().await, Decision::Deny);
    assert_eq!(denies.asked().len(), calls);
    write(&[plain("RBAC"), plain("AlwaysDeny")]);
    assert_eq!(decide().await, Decision::NoOpinion);

    let shown = shown.show();
    let name = "apiserver_authorization_config_controller_automatic_reloads_total";
    for line in [
        format!(r#"{name}{{apiserver_id_hash="",status="failure"}} 7"#),
        format!(r#"{name}{{apiserver_id_hash="",status="success"}} 4"#),
        r#"apiserver_authorization_decisions_total{decision="allowed",name="a",type="Webhook"} 1"#
            .to_owned(),
    ] {
        assert!(shown.contains(&line), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn match_conditions_decide_whether_a_webhook_is_asked() {
    for (condition, decision, calls) in [
        ("request.user == 'jane'", Decision::Allow, 1),
        ("request.user == 'joe'", Decision::NoOpinion, 0),
        // An error is the failure policy's to decide.
        ("request.extra['none'][0] == 'x'", Decision::Deny, 0),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.yaml");
        let server = WebhookServer::saying(r#"{"allowed":true}"#);
        let webhook = webhook("w", &server.kubeconfig(folder.path()));
        let conditions = format!(
            "matchConditionSubjectAccessReviewVersion: v1, \
             matchConditions: [{{expression: \"{condition}\"}}], timeout:"
        );
        let webhook = webhook.replace("timeout:", &conditions);
        std::fs::write(&file, config(&[webhook])).unwrap();
        let configured = Configured::load(&file, |_| {
            let (rbac, dialer, metrics) = (Arc::default(), Dialer::default(), metrics().1);
            Ok(Lasting { rbac, node: None, abac: None, dialer, metrics, clock: Clock::system() })
        });
        let opinion = ask(&configured.unwrap(), "jane", "GET /x").await;
        assert_eq!(opinion.decision, decision, "{condition}: {opinion:?}");
        assert_eq!(server.asked().len(), calls, "{condition}");
    }
}

#[tokio::test]
async fn rules_are_gathered_from_all_who_can_tell() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let policy = folder.path().join("policy.jsonl");
    std::fs::write(&policy, r#"{"user":"jane","resource":"pods","readonly":true}"#).unwrap();
    let server = WebhookServer::saying("{}");
    let kubeconfig = server.kubeconfig(folder.path());
    let authorizers = [plain("ABAC"), webhook("w", &kubeconfig), plain("RBAC")];
    std::fs::write(&file, config(&authorizers)).unwrap();
    let configured = Configured::load(&file, |_| {
        let abac = Some(Arc::new(Abac::load(&policy)?));
        let (rbac, dialer) = (Arc::new(Rbac::default()), Dialer::default());
        Ok(Lasting { rbac, node: None, abac, dialer, metrics: metrics().1, clock: Clock::system() })
    });
    let user = User { name: "jane".into(), ..User::default() };
    let rules = configured.unwrap().rules_for(&user, "n");
    assert_eq!(rules.resource_rules.len(), 1);
    assert_eq!(rules.resource_rules[0].resources, ["pods"]);
    assert!(rules.incomplete);
    assert_eq!(rules.errors, ["webhook authorizer does not support user rule resolution"]);
}
