use std::collections::BTreeSet;

use kevel_api::duration::Duration;

use super::{AuthorizationConfiguration, AuthorizerConfiguration, WebhookConfiguration};

fn load(authorizers: &str) -> Result<AuthorizationConfiguration, String> {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n{authorizers}\n"
    );
    AuthorizationConfiguration::load(text.as_bytes(), &BTreeSet::new())
}

fn plain(mode: &str, name: &str) -> AuthorizerConfiguration {
    AuthorizerConfiguration { mode: mode.into(), name: name.into(), webhook: None }
}

/// A valid webhook whose fields are replaced; those that are given as `-` are left out.
fn webhook(changes: &[(&str, &str)]) -> String {
    let mut fields = vec![
        ("timeout", "3s"),
        ("subjectAccessReviewVersion", "v1"),
        ("failurePolicy", "Deny"),
        ("connectionInfo", "{type: KubeConfigFile, kubeConfigFile: /dev/null/x}"),
    ];
    let exists = std::env::current_exe().unwrap();
    let connection = format!("{{type: KubeConfigFile, kubeConfigFile: {}}}", exists.display());
    fields[3].1 = &connection;
    fields.retain(|(name, _)| !changes.iter().any(|(changed, _)| changed == name));
    fields.extend(changes.iter().filter(|(_, value)| *value != "-"));
    let fields: Vec<String> =
        fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    format!("authorizers: [{{type: Webhook, name: w, webhook: {{{}}}}}]", fields.join(", "))
}

#[test]
fn a_configuration_is_read() {
    let config = load("authorizers: [{type: Node, name: node}, {type: RBAC, name: rbac}]").unwrap();
    assert_eq!(config.authorizers, [plain("Node", "node"), plain("RBAC", "rbac")]);
    let config = load(&webhook(&[("unauthorizedTTL", "5s"), ("cacheAuthorizedRequests", "false")]));
    let config = config.unwrap().authorizers.remove(0).webhook.unwrap();
    let expected = WebhookConfiguration {
        authorized_ttl: Duration(300_000_000_000),
        cache_authorized_requests: false,
        unauthorized_ttl: Duration(5_000_000_000),
        cache_unauthorized_requests: true,
        timeout: Duration(3_000_000_000),
        subject_access_review_version: "v1".into(),
        failure_policy: "Deny".into(),
        connection_type: "KubeConfigFile".into(),
        kube_config_file: config.kube_config_file.clone(),
        ..WebhookConfiguration::default()
    };
    assert_eq!(config, expected);
}

#[test]
fn what_is_wrong_is_said() {
    for (text, expected) in [
        ("", "authorizers: Required value: at least one authorization mode must be defined"),
        ("authorizers: [{name: a}]", "authorizers[0].type: Required value"),
        (
            "authorizers: [{type: Foo, name: a}]",
            r#"authorizers[0].type: Unsupported value: "Foo": supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook""#,
        ),
        (
            "authorizers: [{type: RBAC, name: rbac}, {type: RBAC, name: other}]",
            r#"authorizers[1].type: Duplicate value: "RBAC""#,
        ),
        ("authorizers: [{type: RBAC}]", "authorizers[0].name: Required value"),
        (
            "authorizers: [{type: RBAC, name: node}, {type: Node, name: node}]",
            r#"authorizers[1].name: Duplicate value: "node""#,
        ),
        (
            "authorizers: [{type: Webhook, name: w}]",
            "authorizers[0].webhook: Required value: required when type=Webhook",
        ),
        (
            "authorizers: [{type: RBAC, name: rbac, webhook: {}}]",
            r#"authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook"#,
        ),
        (
            "authorizers: [{type: RBAC, name: other}]",
            "expected name rbac for authorizer RBAC instead of other",
        ),
        (
            "authorizers: [{type: RBAC, name: rbac, foo: 1}]\nbar: 2",
            r#"failed to load AuthorizationConfiguration from file: strict decoding error: unknown field "bar", unknown field "authorizers[0].foo""#,
        ),
        (
            "authorizers: 1",
            "failed to load AuthorizationConfiguration from file: authorizers must be a list",
        ),
    ] {
        assert_eq!(load(text).unwrap_err(), expected, "{text}");
    }
    let no_name = load("authorizers: [{type: RBAC, name: A_}]").unwrap_err();
    assert!(
        no_name.starts_with(r#"authorizers[0].name: Invalid value: "A_": authorizer name is invalid: a lowercase RFC 1123 subdomain"#),
        "{no_name}"
    );
}

#[test]
fn what_is_wrong_with_a_webhook_is_said() {
    for (change, expected) in [
        (("timeout", "-"), "authorizers[0].timeout: Required value"),
        (
            ("timeout", "31s"),
            r#"authorizers[0].timeout: Invalid value: "31s": must be > 0s and <= 30s"#,
        ),
        (
            ("timeout", "-1s"),
            r#"authorizers[0].timeout: Invalid value: "-1s": must be > 0s and <= 30s"#,
        ),
        (
            ("authorizedTTL", "-1s"),
            r#"authorizers[0].authorizedTTL: Invalid value: "-1s": must be > 0s"#,
        ),
        (
            ("unauthorizedTTL", "-1s"),
            r#"authorizers[0].unauthorizedTTL: Invalid value: "-1s": must be > 0s"#,
        ),
        (
            ("subjectAccessReviewVersion", "-"),
            "authorizers[0].subjectAccessReviewVersion: Required value",
        ),
        (
            ("subjectAccessReviewVersion", "v2"),
            r#"authorizers[0].subjectAccessReviewVersion: Unsupported value: "v2": supported values: "v1", "v1beta1""#,
        ),
        (
            ("matchConditionSubjectAccessReviewVersion", "v1beta1"),
            r#"authorizers[0].matchConditionSubjectAccessReviewVersion: Unsupported value: "v1beta1": supported values: "v1""#,
        ),
        (("failurePolicy", "-"), "authorizers[0].failurePolicy: Required value"),
        (
            ("failurePolicy", "Allow"),
            r#"authorizers[0].failurePolicy: Unsupported value: "Allow": supported values: "NoOpinion", "Deny""#,
        ),
        (("connectionInfo", "-"), "authorizers[0].connectionInfo.type: Required value"),
        (
            ("connectionInfo", "{type: KubeConfigFile}"),
            "authorizers[0].connectionInfo.kubeConfigFile: Required value",
        ),
        (
            ("connectionInfo", "{type: KubeConfigFile, kubeConfigFile: x}"),
            r#"authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "x": must be an absolute path"#,
        ),
        (
            ("connectionInfo", "{type: KubeConfigFile, kubeConfigFile: /nowhere}"),
            r#"authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "/nowhere": error loading file: stat /nowhere: no such file or directory"#,
        ),
        (
            ("connectionInfo", "{type: KubeConfigFile, kubeConfigFile: /}"),
            r#"authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "/": must be a regular file"#,
        ),
        (
            ("connectionInfo", "{type: InClusterConfig, kubeConfigFile: /x}"),
            r#"authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "/x": can only be set when type=KubeConfigFile"#,
        ),
        (
            ("connectionInfo", "{type: Foo}"),
            r#"authorizers[0].connectionInfo.type: Unsupported value: {"Type":"Foo","KubeConfigFile":null}: supported values: "InClusterConfig", "KubeConfigFile""#,
        ),
        (
            ("timeout", "3x"),
            r#"failed to load AuthorizationConfiguration from file: time: unknown unit "x" in duration "3x""#,
        ),
    ] {
        assert_eq!(load(&webhook(&[change])).unwrap_err(), expected, "{change:?}");
    }
    let conditions = "[{expression: ''}]";
    assert_eq!(
        load(&webhook(&[("matchConditions", conditions)])).unwrap_err(),
        "[authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match \
         conditions are specified, authorizers[0].matchConditions[0].expression: Required value]"
    );
    let many = format!("[{}]", vec!["{expression: x}"; 65].join(", "));
    let version = ("matchConditionSubjectAccessReviewVersion", "v1");
    assert_eq!(
        load(&webhook(&[version, ("matchConditions", &many)])).unwrap_err(),
        "authorizers[0].matchConditions: Too many: 65: must have at most 64 items"
    );
}

#[test]
fn all_versions_say_the_same_and_others_are_refused() {
    for (version, kind, ok) in [
        ("v1", "AuthorizationConfiguration", true),
        ("v1beta1", "AuthorizationConfiguration", true),
        ("v1alpha1", "AuthorizationConfiguration", true),
        ("v2", "AuthorizationConfiguration", false),
        ("v1", "Other", false),
    ] {
        let text = format!(
            "apiVersion: apiserver.config.k8s.io/{version}\nkind: {kind}\nauthorizers: [{{type: RBAC, name: rbac}}]"
        );
        let loaded = AuthorizationConfiguration::load(text.as_bytes(), &BTreeSet::new());
        assert_eq!(loaded.is_ok(), ok, "{loaded:?}");
    }
    for text in ["", "{", "[]", "a: b", "kind: AuthorizationConfiguration"] {
        assert!(AuthorizationConfiguration::load(text.as_bytes(), &BTreeSet::new()).is_err());
    }
}

#[test]
fn what_a_server_began_with_must_stay() {
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: AlwaysDeny, name: alwaysdeny}]";
    let required = ["RBAC", "Node"].map(str::to_owned).into();
    assert_eq!(
        AuthorizationConfiguration::load(text.as_bytes(), &required).unwrap_err(),
        "missing required types: [Node RBAC]"
    );
}
