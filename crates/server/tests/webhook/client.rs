//! Calls to webhooks.

use std::time::Duration;

use kevel_component::signals::Signal;
use kevel_server::certificates::Authority;
use kevel_server::webhook::{
    Client, Credentials, Endpoint, Error, Identity, MAX_ANSWER, succeeded,
};

use crate::Receiver;

const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_kubeconfig_gives_server_and_user() {
    let receiver = Receiver::start();
    let issued = receiver.client_certificate("apiserver");
    receiver.write("ca.crt", receiver.authority.pem());
    receiver.write("client.crt", &issued.certificate);
    receiver.write("client.key", &issued.key);
    receiver.write("token", "abc\n");
    let kubeconfig = format!(
        "
apiVersion: v1
kind: Config
current-context: webhook
contexts: [{{name: webhook, context: {{cluster: webhook, user: apiserver}}}}]
clusters:
- name: webhook
  cluster:
    server: {}
    certificate-authority: ca.crt
    tls-server-name: webhook.example
users:
- name: apiserver
  user: {{client-certificate: client.crt, client-key: client.key, tokenFile: token}}
",
        receiver.url()
    );
    let path = receiver.write("kubeconfig", &kubeconfig);
    let client = Client::new(Endpoint::from_kubeconfig(&path).unwrap()).unwrap();
    for _ in 0..3 {
        let answer = client.post_json("", "{}".into(), SOON).await.unwrap();
        assert_eq!(answer.status(), 200);
    }
    client.get("/deeper?a=b", SOON).await.unwrap();
    let requests = receiver.requests();
    assert_eq!(requests[0].line, "POST /events HTTP/2.0");
    assert_eq!(requests[0].who, ("Bearer abc".to_owned(), "apiserver".to_owned()));
    assert_eq!(requests[3].line, "GET /events/deeper HTTP/2.0");
    assert_eq!(receiver.served.connections(), 1);
}

#[tokio::test]
async fn redirects_within_the_server_are_followed() {
    for (code, location, expected) in [
        (307, "/clean?a=b", Some(("POST /clean HTTP/2.0", "{}"))),
        (308, "/clean", Some(("POST /clean HTTP/2.0", "{}"))),
        (302, "/clean", Some(("GET /clean HTTP/2.0", ""))),
        (307, "https://127.0.0.1:1/", None),
    ] {
        let receiver = Receiver::start();
        let answer = (code, location.as_bytes().to_vec(), None);
        receiver.received.answers.lock().unwrap().push(answer);
        let client = Client::new(receiver.endpoint()).unwrap();
        let answer = client.post_json("", "{}".into(), SOON).await.unwrap();
        let requests = receiver.requests();
        let second = requests.get(1).map(|asked| (asked.line.as_str(), asked.body.as_str()));
        assert_eq!(second, expected, "{code} {location}");
        assert_eq!(answer.status().as_u16(), if expected.is_some() { 200 } else { code });
    }
}

#[tokio::test]
async fn redirects_without_end_are_left() {
    let receiver = Receiver::start();
    let answers = std::iter::repeat_with(|| (307, b"/again".to_vec(), None)).take(20);
    receiver.received.answers.lock().unwrap().extend(answers);
    let client = Client::new(receiver.endpoint()).unwrap();
    let error = client.post_json("", "{}".into(), SOON).await.unwrap_err();
    assert!(error.to_string().contains("stopped after 10 redirects"), "{error}");
}

#[tokio::test]
async fn servers_without_a_trusted_certificate_are_refused() {
    let receiver = Receiver::start();
    let other =
        Authority::new("other", &kevel_clock::Clock::system()).unwrap().pem().as_bytes().to_vec();
    let endpoint = receiver.endpoint();
    for (endpoint, expected) in [
        (
            Endpoint { ca: Some(other), ..endpoint.clone() },
            "x509: certificate signed by unknown authority",
        ),
        (
            Endpoint { ca: None, ..endpoint.clone() },
            "x509: certificate signed by unknown authority",
        ),
        (
            Endpoint { server_name: Some("another.example".into()), ..endpoint.clone() },
            ", not another.example",
        ),
    ] {
        let client = Client::new(endpoint).unwrap();
        let error = client.post_json("", "{}".into(), SOON).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!error.is_transient());
    }
    assert!(receiver.requests().is_empty());
    let endpoint = Endpoint { ca: None, insecure_skip_tls_verify: true, ..endpoint };
    Client::new(endpoint).unwrap().get("", SOON).await.unwrap();
    assert_eq!(receiver.requests().len(), 1);
}

#[tokio::test]
async fn an_answer_has_its_limits() {
    let never = Signal::new("never");
    let late = Receiver::start();
    late.received.answers.lock().unwrap().push((200, Vec::new(), Some(never.clone())));
    let client = Client::new(late.endpoint()).unwrap();
    let error = client.post_json("", "{}".into(), Duration::from_millis(1)).await.unwrap_err();
    let url = late.url();
    assert_eq!(error.to_string(), format!("Post \"{url}?timeout=1ms\": context deadline exceeded"));
    never.signal();

    let receiver = Receiver::start();
    let client = Client::new(receiver.endpoint()).unwrap();
    let answer = |answer| receiver.received.answers.lock().unwrap().push(answer);
    answer((200, vec![b'x'; MAX_ANSWER + 1], None));
    let error = client.get("", SOON).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: MAX_ANSWER, .. }), "{error}");
    answer((403, br#"{"kind":"Status","message":"not you"}"#.to_vec(), None));
    let error = succeeded(client.get("", SOON).await.unwrap()).unwrap_err();
    assert_eq!((error.is_transient(), error.to_string()), (false, "not you".to_owned()));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_of() {
    let address = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let endpoint = Endpoint { url: format!("http://{address}"), ..Endpoint::default() };
    let error = Client::new(endpoint).unwrap().get("/x", SOON).await.unwrap_err();
    assert!(error.to_string().starts_with(&format!("Get \"http://{address}/x\": ")), "{error}");
    assert!(!error.is_transient());
}

#[tokio::test]
async fn what_cannot_be_used_is_refused_at_the_start() {
    let receiver = Receiver::start();
    let endpoint = receiver.endpoint();
    let mine = receiver.client_certificate("me");
    let yours = receiver.client_certificate("you");
    let mixed = Identity::Pem { certificate: mine.certificate.into(), key: yours.key.into() };
    for endpoint in [
        Endpoint { ca: Some(b"no certificate".to_vec()), ..endpoint.clone() },
        Endpoint { server_name: Some("not a name!".into()), ..endpoint.clone() },
        Endpoint { identity: Some(mixed), ..endpoint.clone() },
        Endpoint { credentials: Credentials::Token("a\nb".into()), ..endpoint.clone() },
        Endpoint { credentials: Credentials::TokenFile("/nowhere".into()), ..endpoint },
    ] {
        assert!(Client::new(endpoint).is_err());
    }
}
