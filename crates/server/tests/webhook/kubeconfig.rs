//! Kubeconfig files of webhooks: credential plug-ins, proxies, impersonation.

use std::time::Duration;

use kevel_server::webhook::{Client, Endpoint};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::Receiver;

const SOON: Duration = Duration::from_secs(20);

/// A client of the receiver as a kubeconfig file says, with these fields of the cluster and this user.
fn client(receiver: &Receiver, cluster: &str, user: &str) -> Client {
    receiver.write("ca.crt", receiver.authority.pem());
    let kubeconfig = format!(
        "
apiVersion: v1
kind: Config
current-context: webhook
contexts: [{{name: webhook, context: {{cluster: webhook, user: apiserver}}}}]
clusters:
- name: webhook
  cluster: {{server: '{}', certificate-authority: ca.crt{cluster}}}
users: [{user}]
",
        receiver.url()
    );
    let path = receiver.write("kubeconfig", &kubeconfig);
    Client::new(Endpoint::from_kubeconfig(&path).unwrap()).unwrap()
}

/// A user with a credential plug-in that prints the file `credential`.
fn plug_in(receiver: &Receiver) -> String {
    format!(
        "{{name: apiserver, user: {{exec: {{command: cat, args: ['{}'], \
         apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never}}}}}}",
        receiver.folder.path().join("credential").display()
    )
}

/// Sets the output of the plug-in.
fn print(receiver: &Receiver, status: &str) {
    let credential = format!(
        r#"{{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{status}}}"#
    );
    receiver.write("credential", &credential);
}

#[tokio::test]
async fn a_context_may_name_an_unlisted_user() {
    let receiver = Receiver::start();
    let client = client(&receiver, "", "{name: other, user: {token: t}}");
    client.post_json("", "{}".into(), SOON).await.unwrap();
    assert_eq!(receiver.requests()[0].who, (String::new(), String::new()));
}

#[tokio::test]
async fn refused_tokens_of_plug_ins_are_replaced() {
    let receiver = Receiver::start().answering(&[200, 401, 200]);
    print(&receiver, r#"{"token":"first"}"#);
    let client = client(&receiver, "", &plug_in(&receiver));
    client.post_json("", "{}".into(), SOON).await.unwrap();
    print(&receiver, r#"{"token":"second"}"#);
    let mut codes = Vec::new();
    for _ in 0..2 {
        codes.push(client.post_json("", "{}".into(), SOON).await.unwrap().status().as_u16());
    }
    assert_eq!(codes, [401, 200]);
    let shown: Vec<String> = receiver.requests().into_iter().map(|asked| asked.who.0).collect();
    assert_eq!(shown, ["Bearer first", "Bearer first", "Bearer second"]);
}

#[tokio::test]
async fn certificates_of_plug_ins_are_shown_and_rotated() {
    let receiver = Receiver::start().answering(&[200, 401, 200]);
    let status = |name: &str| {
        let issued = receiver.client_certificate(name);
        let text = |pem: &str| pem.replace("\r\n", "\n").replace('\n', "\\n");
        let (certificate, key) = (text(&issued.certificate), text(&issued.key));
        format!(r#"{{"clientCertificateData":"{certificate}","clientKeyData":"{key}"}}"#)
    };
    print(&receiver, &status("first"));
    let client = client(&receiver, "", &plug_in(&receiver));
    client.post_json("", "{}".into(), SOON).await.unwrap();
    print(&receiver, &status("second"));
    for _ in 0..2 {
        client.post_json("", "{}".into(), SOON).await.unwrap();
    }
    let shown: Vec<String> = receiver.requests().into_iter().map(|asked| asked.who.1).collect();
    assert_eq!(shown, ["first", "first", "second"]);
}

#[tokio::test]
async fn failing_plug_ins_fail_calls() {
    let receiver = Receiver::start();
    print(&receiver, "{}");
    let client = client(&receiver, "", &plug_in(&receiver));
    let error = client.post_json("", "{}".into(), SOON).await.unwrap_err().to_string();
    let expected = "getting credentials: exec plugin didn't return a token or cert/key pair";
    assert!(error.ends_with(expected), "{error}");
    assert!(receiver.requests().is_empty());
}

/// A proxy that connects once; returns its address, and what it was asked.
async fn proxy() -> (String, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = tokio::spawn(async move {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(near.read_u8().await.unwrap());
        }
        let head = String::from_utf8(head).unwrap();
        let target = head.split(' ').nth(1).unwrap();
        let mut far = TcpStream::connect(target).await.unwrap();
        near.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
        tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        head
    });
    (address, asked)
}

#[tokio::test]
async fn calls_go_through_the_proxy_of_the_cluster() {
    let receiver = Receiver::start();
    let (address, asked) = proxy().await;
    let cluster = format!(", proxy-url: 'http://me:s%40fe@{address}'");
    let client = client(&receiver, &cluster, "{name: apiserver, user: {token: t}}");
    client.post_json("", "{}".into(), SOON).await.unwrap();
    assert_eq!(receiver.requests()[0].who.0, "Bearer t");
    let target = receiver.served.address;
    let expected = format!(
        "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: Basic bWU6c0BmZQ==\r\n\r\n"
    );
    assert_eq!(asked.await.unwrap(), expected);
}

#[tokio::test]
async fn unsupported_proxies_are_refused_at_start() {
    let receiver = Receiver::start();
    let kubeconfig = "{current-context: a, contexts: [{name: a, context: {cluster: b}}], \
                      clusters: [{name: b, cluster: {server: 'https://c', proxy-url: 'socks5://p:1'}}]}";
    let path = receiver.write("kubeconfig", kubeconfig);
    let error = Endpoint::from_kubeconfig(&path).unwrap_err();
    assert!(error.ends_with("proxy-url: scheme \"socks5\" is not supported"), "{error}");
}
