use kevel_api::field_error::FieldError;

use super::*;

/// A good configuration with a part of its one issuer in place of another.
fn with(changes: &str) -> AuthenticationConfiguration {
    let mut parts = vec![
        ("issuer", r#"{"url": "https://issuer", "audiences": ["a"]}"#),
        ("claimMappings", r#"{"username": {"claim": "sub", "prefix": ""}}"#),
    ];
    if let Some((name, value)) = changes.split_once(": ") {
        parts.retain(|(known, _)| *known != name);
        parts.push((name, value));
    }
    let parts: Vec<_> = parts.iter().map(|(name, value)| format!(r#""{name}": {value}"#)).collect();
    let text = format!(
        r#"{{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [{{{}}}]}}"#,
        parts.join(",")
    );
    AuthenticationConfiguration::read(text.as_bytes()).unwrap()
}

fn wrong(configuration: &AuthenticationConfiguration) -> String {
    let errors = configuration.errors(ConfigurationLimits {
        disallowed_issuers: &["https://own".to_owned()],
        egress_selectors: true,
    });
    errors.iter().map(FieldError::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_text_that_is_not_understood_is_refused() {
    for (text, expected) in [
        ("", "empty config data"),
        ("{}", "Object 'Kind' is missing in '{}'"),
        ("kind: AuthenticationConfiguration\n", "Object 'apiVersion' is missing in"),
        (
            "kind: AuthenticationConfiguration\napiVersion: apiserver.config.k8s.io/v2\n",
            "no kind \"AuthenticationConfiguration\" is registered for version \"apiserver.config.k8s.io/v2\"",
        ),
        (
            "kind: AuthenticationConfiguration\napiVersion: apiserver.config.k8s.io/v1\njwt:\n- issuer:\n    uri: x\n",
            "strict decoding error: unknown field \"jwt[0].issuer.uri\"",
        ),
        (
            "kind: AuthenticationConfiguration\napiVersion: apiserver.config.k8s.io/v1beta1\njwt: 7\n",
            "jwt must be a list",
        ),
    ] {
        let error = AuthenticationConfiguration::read(text.as_bytes()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_is_wrong_is_told() {
    for (changes, expected) in [
        ("", ""),
        (
            r#"issuer: {"url": "", "audiences": []}"#,
            "jwt[0].issuer.url: Required value\n\
             jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required",
        ),
        (
            r#"issuer: {"url": "http://u:p@issuer?q#f", "audiences": ["a", "a"], "audienceMatchPolicy": "All"}"#,
            "jwt[0].issuer.url: Invalid value: \"http://u:p@issuer?q#f\": URL scheme must be https\n\
             jwt[0].issuer.url: Invalid value: \"http://u:p@issuer?q#f\": URL must not contain a username or password\n\
             jwt[0].issuer.url: Invalid value: \"http://u:p@issuer?q#f\": URL must not contain a query\n\
             jwt[0].issuer.url: Invalid value: \"http://u:p@issuer?q#f\": URL must not contain a fragment\n\
             jwt[0].issuer.audiences[1]: Duplicate value: \"a\"\n\
             jwt[0].issuer.audienceMatchPolicy: Invalid value: \"All\": audienceMatchPolicy must be MatchAny for multiple audiences",
        ),
        (
            r#"issuer: {"url": "https://own", "discoveryURL": "https://own/", "audiences": ["a"], "certificateAuthority": "x"}"#,
            "jwt[0].issuer.url: Invalid value: \"https://own\": URL must not overlap with disallowed issuers: [https://own]\n\
             jwt[0].issuer.discoveryURL: Invalid value: \"https://own/\": discoveryURL must be different from URL\n\
             jwt[0].issuer.certificateAuthority: Invalid value: \"<omitted>\": data does not contain any valid RSA or ECDSA certificates",
        ),
        (
            r#"claimMappings: {"username": {"claim": "sub"}, "groups": {"claim": "g", "expression": "claims.g"}}"#,
            "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing\n\
             jwt[0].claimMappings.groups: Invalid value: \"\": claim and expression can't both be set",
        ),
        (
            r#"claimMappings: {"username": {"expression": "claims.email"}}"#,
            "jwt[0].claimMappings.username.expression: Invalid value: \"claims.email\": claims.email_verified must be used in claimMappings.username.expression or claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in claimMappings.username.expression",
        ),
        (
            r#"claimMappings: {"username": {"expression": "claims.email_verified ? claims.email : 'x'"}}"#,
            "",
        ),
        (
            r#"claimMappings: {"username": {"expression": "claim.sub"}}"#,
            "jwt[0].claimMappings.username.expression: Invalid value: \"claim.sub\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'claim' (in container '')\n | claim.sub\n | ^",
        ),
        (
            r#"claimMappings: {"username": {"expression": "'a'"}, "extra": [{"key": "Acme.com/a", "valueExpression": "'a'"}, {"key": "x.k8s.io/a", "valueExpression": ""}]}"#,
            "jwt[0].claimMappings.extra[0].key: Invalid value: \"Acme.com\": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n\
             jwt[0].claimMappings.extra[0].key: Invalid value: \"Acme.com/a\": must be lowercase\n\
             jwt[0].claimMappings.extra[1].key: Invalid value: \"x.k8s.io/a\": k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use\n\
             jwt[0].claimMappings.extra[1].valueExpression: Required value",
        ),
        (
            r#"claimValidationRules: [{}, {"claim": "a", "message": "m"}, {"claim": "a"}, {"expression": "1", "requiredValue": "v"}]"#,
            "jwt[0].claimValidationRules[0]: Required value: claim or expression is required\n\
             jwt[0].claimValidationRules[1].message: Invalid value: \"m\": may not be specified when claim is set\n\
             jwt[0].claimValidationRules[2].claim: Duplicate value: \"a\"\n\
             jwt[0].claimValidationRules[3].requiredValue: Invalid value: \"v\": may not be specified when expression is set\n\
             jwt[0].claimValidationRules[3].expression: Invalid value: \"1\": must evaluate to bool",
        ),
        (
            r#"userValidationRules: [{"expression": ""}, {"expression": "user.name == 'a'"}]"#,
            "jwt[0].userValidationRules[0].expression: Required value\n\
             jwt[0].userValidationRules[1].expression: Invalid value: \"user.name == 'a'\": compilation failed: ERROR: <input>:1:5: undefined field 'name'\n | user.name == 'a'\n | ....^",
        ),
    ] {
        assert_eq!(wrong(&with(changes)), expected, "{changes}");
    }
}

#[test]
fn issuers_are_told_apart_and_conditions_need_to_be_allowed() {
    let mut configuration = with("");
    configuration.jwt.push(configuration.jwt[0].clone());
    configuration.anonymous =
        Some(AnonymousConfiguration { enabled: false, paths: vec!["/livez".to_owned()] });
    assert_eq!(
        wrong(&configuration),
        "jwt[1].issuer.url: Duplicate value: \"https://issuer\"\n\
         anonymous.conditions: Invalid value: [{\"path\":\"/livez\"}]: enabled should be set to true \
         when conditions are defined"
    );
    configuration.jwt = vec![configuration.jwt[0].clone(); 65];
    assert_eq!(wrong(&configuration), "jwt: Too many: 65: must have at most 64 items");
}
