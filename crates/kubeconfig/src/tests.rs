use std::sync::Arc;

use super::*;

const FILE: &str = "
apiVersion: v1
kind: Config
clusters:
- name: webhook
  cluster: {CLUSTER}
users:
- name: me
  user: {USER}
contexts:
- name: there
  context: {cluster: webhook, user: me}
current-context: there
";

fn read_in(folder: &Path, cluster: &str, user: &str) -> Result<(ClusterEntry, AuthInfo), Error> {
    let text = FILE.replace("{CLUSTER}", cluster).replace("{USER}", user);
    Kubeconfig::parse(text.as_bytes(), folder)?.current()
}

fn read(cluster: &str, user: &str) -> Result<(ClusterEntry, AuthInfo), Error> {
    read_in(Path::new("/etc/webhook"), cluster, user)
}

#[test]
fn fields_are_read_as_client_go_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.crt", "a.key"] {
        std::fs::write(folder.path().join(name), name).unwrap();
    }
    let cluster = "{server: 'https://a:1/b', tls-server-name: c, proxy-url: 'http://p:3128', \
                   certificate-authority-data: aGVsbG8=}";
    let (cluster, user) = read(cluster, "{tokenFile: token, token: t}").unwrap();
    assert_eq!(cluster.server, "https://a:1/b");
    assert_eq!(cluster.server_name.as_deref(), Some("c"));
    assert_eq!(cluster.proxy.unwrap().address, "p:3128");
    assert_eq!(cluster.ca.as_deref(), Some(&b"hello"[..]));
    assert!(matches!(
        user.credentials,
        Credentials::TokenFile(path) if path == Path::new("/etc/webhook/token")
    ));
    let user = "{client-certificate: a.crt, client-key: ./a.key}";
    let secure = "{server: 'https://a', insecure-skip-tls-verify: true}";
    let (cluster, user) = read_in(folder.path(), secure, user).unwrap();
    assert!(cluster.insecure_skip_tls_verify);
    assert!(matches!(
        user.identity,
        Some(CertificateAndKey::Files { certificate, key })
            if certificate == folder.path().join("a.crt") && key == folder.path().join("a.key")
    ));
    let (_, user) = read("{server: 'https://a'}", "{username: u, password: p}").unwrap();
    assert!(matches!(
        user.credentials,
        Credentials::Basic { username, password } if username == "u" && password == "p"
    ));
    let user = "{as: jane, as-uid: '7', as-groups: [a, b], as-user-extra: {k: [v]}}";
    let (_, user) = read("{server: 'https://a'}", user).unwrap();
    let strings = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
    let expected = ImpersonatedUser {
        user: "jane".into(),
        uid: "7".into(),
        groups: strings(&["a", "b"]),
        extra: vec![("k".into(), strings(&["v"]))],
    };
    assert_eq!(user.impersonation, Some(expected));
}

#[test]
fn an_unlisted_user_has_no_credentials() {
    for users in ["[]", "[{name: other, user: {token: t}}]"] {
        let text = format!(
            "{{current-context: a, contexts: [{{name: a, context: {{cluster: b, user: c}}}}], \
             clusters: [{{name: b, cluster: {{server: 'https://d'}}}}], users: {users}}}"
        );
        let read = Kubeconfig::parse(text.as_bytes(), Path::new("")).unwrap();
        let (cluster, user) = read.current().unwrap();
        assert_eq!(cluster.server, "https://d");
        assert!(user.identity.is_none() && matches!(user.credentials, Credentials::None));
    }
}

#[test]
fn a_server_without_tls_gets_no_credentials() {
    for server in ["http://a", "a:80", "'HTTP://a'"] {
        let cluster = format!("{{server: {server}, certificate-authority-data: aGVsbG8=}}");
        let (cluster, user) = read(&cluster, "{token: t, as: jane}").unwrap();
        assert!(cluster.ca.is_none(), "{server}");
        assert!(matches!(user.credentials, Credentials::None), "{server}");
        assert!(user.impersonation.is_some(), "{server}");
    }
}

#[test]
fn contradictions_are_refused_in_the_words_of_client_go() {
    let exec = "command: x, apiVersion: client.authentication.k8s.io/v1";
    for (cluster, user, expected) in [
        (
            "{}",
            "{}",
            "invalid configuration: no configuration has been provided, try setting \
             KUBERNETES_MASTER environment variable",
        ),
        (
            "{tls-server-name: a}",
            "{}",
            "invalid configuration: no server found for cluster \"webhook\"",
        ),
        (
            "{server: a, proxy-url: 'ftp://b'}",
            "{}",
            "invalid configuration: invalid 'proxy-url' \"ftp://b\" for cluster \"webhook\": \
             unsupported scheme \"ftp\", must be one of: http, https, socks5",
        ),
        (
            "{server: 'https://a', certificate-authority-data: aGVsbG8=, \
             insecure-skip-tls-verify: true}",
            "{}",
            "specifying a root certificates file with the insecure flag is not allowed",
        ),
        (
            "{server: a, certificate-authority-data: '!'}",
            "{}",
            "certificate-authority-data: illegal base64 data at input byte 0",
        ),
        (
            "{server: a}",
            "{token: t, username: u}",
            "invalid configuration: more than one authentication method found for me; found \
             [token basicAuth], only one is allowed",
        ),
        (
            "{server: a}",
            "{client-certificate-data: a, as-groups: [b]}",
            "invalid configuration: [client-key-data or client-key must be specified for me to \
             use the clientCert authentication method., requesting uid, groups or user-extra for \
             me without impersonating a user]",
        ),
        (
            "{server: a}",
            &format!("{{exec: {{{exec}}}}}"),
            "invalid configuration: interactiveMode must be specified for me to use exec \
             authentication plugin",
        ),
        (
            "{server: a}",
            "{exec: {command: x, apiVersion: v1, interactiveMode: Never}}",
            "exec plugin: invalid apiVersion \"v1\"",
        ),
        ("{server: a}", "{auth-provider: {name: gcp}}", "no Auth Provider found for name \"gcp\""),
    ] {
        let error = read(cluster, user).err().map(|error| error.to_string()).unwrap_or_default();
        assert_eq!(error, expected, "{cluster} {user}");
    }
    let unlisted = Kubeconfig::parse(b"current-context: a", Path::new("")).unwrap().current();
    let expected = "context was not found for specified context: a";
    assert_eq!(unlisted.unwrap_err().to_string(), expected);
}

/// A plug-in that runs a script in a folder of its own. The shell reads the script: a file that was just written may
/// not be executable yet while another thread starts a process.
fn plugin(script: &str, more: &str) -> (tempfile::TempDir, Arc<ExecPlugin>) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("script");
    std::fs::write(&program, format!("cd \"$(dirname \"$0\")\"\n{script}\n")).unwrap();
    let user = format!(
        "{{exec: {{command: sh, apiVersion: client.authentication.k8s.io/v1, \
         interactiveMode: IfAvailable, args: ['{}', one], env: [{{name: TOLD, value: two}}]{more}}}}}",
        program.display()
    );
    (folder, of_user(&user))
}

fn of_user(user: &str) -> Arc<ExecPlugin> {
    let (_, user) = read("{server: 'https://a', tls-server-name: name}", user).unwrap();
    let Credentials::Exec(plugin) = user.credentials else { panic!("no plug-in") };
    plugin
}

/// A script that prints a status, and counts how often it ran.
fn printing(status: &str) -> String {
    format!(
        "echo run >> runs; echo '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\
         \"kind\":\"ExecCredential\",\"status\":{status}}}'"
    )
}

fn runs(folder: &tempfile::TempDir) -> usize {
    std::fs::read_to_string(folder.path().join("runs")).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn plug_ins_run_again_when_credentials_expired_or_were_refused() {
    let (folder, plugin) = plugin(&printing(r#"{"token":"'$1$TOLD'"}"#), "");
    assert!(plugin.current().is_none());
    let first = plugin.credentials().await.unwrap();
    assert_eq!(first.token.as_deref(), Some("onetwo"));
    plugin.credentials().await.unwrap();
    assert_eq!(runs(&folder), 1);
    plugin.refresh(&first).await.unwrap();
    plugin.refresh(&first).await.unwrap();
    assert_eq!(runs(&folder), 2, "newer credentials are not refreshed for an old refusal");
    for (expires, expected) in [("2001-01-01T00:00:00Z", 2), ("2999-01-01T00:00:00Z", 1)] {
        let status = format!(r#"{{"token":"t","expirationTimestamp":"{expires}"}}"#);
        let (folder, plugin) = self::plugin(&printing(&status), "");
        plugin.credentials().await.unwrap();
        plugin.credentials().await.unwrap();
        assert_eq!(runs(&folder), expected, "{expires}");
    }
}

#[tokio::test]
async fn plug_ins_are_told_about_the_cluster_on_request() {
    let script = format!("echo \"$KUBERNETES_EXEC_INFO\" > told; {}", printing(r#"{"token":"t"}"#));
    for (more, expected) in [
        ("", r#"{"interactive":false}"#),
        (
            ", provideClusterInfo: true",
            r#"{"cluster":{"server":"https://a","tls-server-name":"name"},"interactive":false}"#,
        ),
    ] {
        let (folder, plugin) = plugin(&script, more);
        plugin.credentials().await.unwrap();
        let told = std::fs::read_to_string(folder.path().join("told")).unwrap();
        let told = kevel_codec::json::decode_any(told.as_bytes(), Unknown::Ignore).unwrap().value;
        assert_eq!(told.str_at(&["kind"]), "ExecCredential");
        let mut spec = Vec::new();
        kevel_codec::json::encode_any(told.at(&["spec"]).unwrap(), &mut spec);
        assert_eq!(String::from_utf8(spec).unwrap(), expected);
    }
}

#[tokio::test]
async fn a_failing_plug_in_is_reported() {
    let other = "echo '{\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\
                 \"kind\":\"ExecCredential\",\"status\":{\"token\":\"t\"}}'";
    for (script, expected) in [
        ("exit 3", "exec: executable sh failed with exit code 3"),
        ("echo hello", "decoding stdout: "),
        (other, "API version client.authentication.k8s.io/v1, plugin returned version client"),
        (&printing("null"), "exec plugin didn't return a status field"),
        (&printing("{}"), "exec plugin didn't return a token or cert/key pair"),
        (
            &printing(r#"{"clientKeyData":"k"}"#),
            "exec plugin returned only certificate or key, not both",
        ),
    ] {
        let (_folder, plugin) = plugin(script, "");
        let error = plugin.credentials().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{script}: {error}");
    }
    // A command with a separator is relative to the file.
    let missing = of_user(
        "{exec: {command: ./missing, apiVersion: client.authentication.k8s.io/v1, \
         interactiveMode: Never, installHint: get it}}",
    );
    let error = missing.credentials().await.unwrap_err().to_string();
    let expected = "exec: executable /etc/webhook/./missing not found\n\nget it";
    assert_eq!(error, expected);
}
