//! Cases of identity: credentials in every form, and impersonation.

use super::{Case, WATCH, with};

const FOO: &str = "/api/v1/namespaces/a/secrets/foo";

pub fn cases() -> Vec<Case> {
    let mut cases = impersonation();
    cases.extend(credentials());
    cases.extend(websocket_tokens());
    cases
}

const IMPERSONATORS: &[&str] =
    &["admin", "none", "get-foo", "be-user", "be-group", "be-uid", "be-extra", "be-account"];

fn impersonation() -> Vec<Case> {
    const USER: &str = "Impersonate-User";
    const GROUP: &str = "Impersonate-Group";
    const UID: &str = "Impersonate-Uid";
    const SCOPES: &str = "Impersonate-Extra-Scopes";
    let forms: [&[(&str, &str)]; 30] = [
        &[(USER, "get-foo")],
        &[(USER, "list-foo")],
        &[(USER, "admin")],
        &[(USER, "")],
        &[(USER, " get-foo")],
        &[(USER, "get-foo"), (USER, "admin")],
        &[(USER, "admin"), (USER, "get-foo")],
        &[(USER, "get-foo"), (GROUP, "g1")],
        &[(USER, "get-foo"), (GROUP, "g2")],
        &[(USER, "get-foo"), (GROUP, "g1"), (GROUP, "g2")],
        &[(USER, "get-foo"), (GROUP, "g1"), (GROUP, "system:masters")],
        &[(USER, "get-foo"), (GROUP, "g1,system:masters")],
        &[(USER, "get-foo"), (GROUP, "")],
        &[(GROUP, "g1")],
        &[(USER, "get-foo"), (UID, "u1")],
        &[(USER, "get-foo"), (UID, "u2")],
        &[(USER, "get-foo"), (UID, "u1"), (UID, "u2")],
        &[(UID, "u1")],
        &[(USER, "get-foo"), (SCOPES, "s1")],
        &[(USER, "get-foo"), (SCOPES, "s2")],
        &[(USER, "get-foo"), (SCOPES, "s1"), (SCOPES, "s2")],
        &[(USER, "get-foo"), ("Impersonate-Extra-%73copes", "s1")],
        &[(USER, "get-foo"), ("Impersonate-Extra-Scopes%zz", "s1")],
        &[(USER, "get-foo"), ("Impersonate-Extra-Other", "s1")],
        &[(USER, "get-foo"), ("Impersonate-Extra-", "s1")],
        &[(SCOPES, "s1")],
        &[(USER, "system:serviceaccount:a:default")],
        &[(USER, "system:serviceaccount:b:default")],
        &[(USER, "get-foo"), ("Impersonate-Extra-%53copes", "s1")],
        &[(USER, "get-foo"), ("Connection", "Impersonate-User, Authorization")],
    ];
    let case = |form: &&[(&str, &str)]| {
        let case = Case::new("GET", FOO).by(IMPERSONATORS);
        form.iter().fold(case, |case, (name, value)| case.header(name, value))
    };
    let mut cases: Vec<Case> = forms.iter().map(case).collect();
    // Impersonation of a node by an administrator is left out: the reference's answer depends on earlier requests.
    let node = Case::new("GET", FOO).by(&["none", "get-foo", "be-user", "be-account"]);
    cases.push(node.header(USER, "system:node:n1"));
    // The impersonated user's rights apply.
    for path in ["/api/v1/namespaces/a/secrets/bar", "/api/v1/namespaces/a/secrets"] {
        cases.push(Case::new("GET", path).by(IMPERSONATORS).header(USER, "get-foo"));
    }
    cases
}

/// Request without other credentials than those in its headers.
fn own(path: &str) -> Case {
    Case { own_credentials: true, ..Case::new("GET", path).by(&["none"]) }
}

fn credentials() -> Vec<Case> {
    let tokens: [&[u8]; 24] = [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer get-foo",
        b"bearer get-foo",
        b"BEARER get-foo",
        b"Bearer  get-foo",
        b"Bearer get-foo x",
        b"Bearer\tget-foo",
        b"Bearer \tget-foo",
        b"Bearer get-foo\t",
        b"Bearer get-fo",
        b"Bearer get-foo,",
        b"Bearer get-foo,none",
        b"Bearer \"get-foo\"",
        b"Basic Z2V0LWZvbw==",
        b"Token get-foo",
        b"get-foo",
        b"Bearer g\xc3\xa9t-foo",
        b"Bearer get-foo\xff",
        b"Bearer \xff",
        b"Bearer \xef\xbf\xbd",
        b"Basic \xff",
        b"\xa0Bearer get-foo",
    ];
    let mut cases: Vec<Case> =
        tokens.into_iter().map(|token| own(FOO).header("Authorization", token)).collect();
    let twice = |first: &str, second: &str| {
        own(FOO).header("Authorization", first).header("Authorization", second)
    };
    cases.push(twice("Bearer none", "Bearer get-foo"));
    cases.push(twice("Bearer get-foo", "Bearer none"));
    cases.push(twice("", "Bearer get-foo"));
    cases.push(twice("Bearer wrong", "Bearer get-foo"));
    // Front proxies need a certificate.
    let remote = |case: Case| {
        case.header("X-Remote-User", "admin").header("X-Remote-Group", "system:masters")
    };
    cases.push(remote(own(FOO)));
    cases.push(remote(own(FOO).header("Authorization", "Bearer none")));
    cases.push(own(&with(FOO, "access_token=get-foo")));
    cases
}

fn websocket_tokens() -> Vec<Case> {
    const PROTOCOL: &str = "Sec-WebSocket-Protocol";
    // The token get-foo, a wrong one, one that is no text, an empty one.
    const GOOD: &str = "base64url.bearer.authorization.k8s.io.Z2V0LWZvbw";
    const WRONG: &str = "base64url.bearer.authorization.k8s.io.d3Jvbmc";
    const PADDED: &str = "base64url.bearer.authorization.k8s.io.Z2V0LWZvbw==";
    const BYTES: &str = "base64url.bearer.authorization.k8s.io._w";
    const EMPTY: &str = "base64url.bearer.authorization.k8s.io.";
    let asked = |path: &str, protocols: &[u8]| {
        own(path)
            .header("Connection", "Upgrade")
            .header("Upgrade", "websocket")
            .header("Sec-WebSocket-Version", "13")
            .header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
            .header(PROTOCOL, protocols)
    };
    let both = format!("{GOOD},x");
    let mut cases = vec![
        asked(FOO, both.as_bytes()),
        asked(FOO, format!("x, {GOOD}").as_bytes()),
        asked(FOO, format!("xé, {GOOD}").as_bytes()),
        asked(FOO, GOOD.as_bytes()),
        asked(FOO, format!("{WRONG},x").as_bytes()),
        asked(FOO, format!("{PADDED},x").as_bytes()),
        asked(FOO, format!("{BYTES},x").as_bytes()),
        asked(FOO, format!("{EMPTY},x").as_bytes()),
        asked(FOO, format!("{GOOD},{GOOD},x").as_bytes()),
        asked(FOO, format!("{GOOD},{WRONG},x").as_bytes()),
        asked(FOO, both.as_bytes()).header("Authorization", "Bearer none"),
        asked(FOO, both.as_bytes()).header("Authorization", "Bearer wrong"),
    ];
    // Not a WebSocket, so that there is no token.
    cases.push(own(FOO).header(PROTOCOL, &both));
    let watch = with("/api/v1/namespaces/a/secrets", WATCH);
    cases.push(asked(&watch, format!("{WRONG},x").as_bytes()));
    cases
}
