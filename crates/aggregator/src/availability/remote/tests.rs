use kevel_api::value::Value;
use kevel_codec::json::{Unknown, decode_any};

use super::*;
use crate::testing::{ExtensionServer, storage};

const OK: &str = "200 OK";
const BROKEN: &str = "500 Internal Server Error";

/// Only a successful discovery response makes a server available.
#[tokio::test]
async fn only_a_successful_answer_makes_a_server_available() {
    let (services, _caches) = storage("", "Service", "services/specs");
    for (status, expected) in [
        (OK, ""),
        ("201 Created", ""),
        ("206 Partial Content", ""),
        ("301 Moved Permanently", "bad status from URL: 301"),
        ("304 Not Modified", "bad status from URL: 304"),
        ("401 Unauthorized", "bad status from URL: 401"),
        ("403 Forbidden", "bad status from URL: 403"),
        ("404 Not Found", "bad status from URL: 404"),
        (BROKEN, "bad status from URL: 500"),
        ("503 Service Unavailable", "bad status from URL: 503"),
        ("", "Get \"URL\": "),
    ] {
        let server = ExtensionServer::start(&[status]).await;
        let asked = ask(&server.resolver(&services), &server.upstream(), "/apis/e.x/v1").await;
        let url = format!("https://{}/apis/e.x/v1", server.address);
        let expected = expected.replace("URL", &url);
        match asked {
            Ok(()) => assert_eq!(expected, "", "{status}"),
            Err(error) => {
                let start = format!("failing or missing response from {url}: {expected}");
                assert!(!expected.is_empty() && error.starts_with(&start), "{status}: {error}");
            }
        }
    }
}

/// One of the attempts has to succeed, whichever of them it is, and although the others have failed before.
#[tokio::test]
async fn a_server_is_available_if_one_attempt_succeeds() {
    let (services, _caches) = storage("", "Service", "services/specs");
    for available in (0..ATTEMPTS).map(Some).chain([None]) {
        let statuses: Vec<_> =
            (0..ATTEMPTS).map(|index| if Some(index) == available { OK } else { BROKEN }).collect();
        let server = ExtensionServer::start(&statuses).await;
        let (resolver, upstream) = (Arc::new(server.resolver(&services)), server.upstream());
        let checked = check_server(&resolver, "/apis/e.x/v1", &upstream).await;
        let url = format!("https://{}/apis/e.x/v1", server.address);
        let expected = match available {
            Some(_) => Ok(()),
            None => {
                let why = format!("bad status from {url}: 500");
                Err(format!("failing or missing response from {url}: {why}"))
            }
        };
        assert_eq!(checked, expected, "{available:?}");
    }
}

fn value(text: &str) -> Value {
    decode_any(text.as_bytes(), Unknown::Ignore).unwrap().value
}

#[test]
fn a_service_that_cannot_be_asked_says_why() {
    let service = r#"{"spec":{"type":"ClusterIP","ports":[{"name":"https","port":443}]}}"#;
    let slice = |ready: bool, name: &str| {
        format!(
            r#"{{"ports":[{{"name":"{name}","port":6443}}],"endpoints":[{{"conditions":{{"ready":{ready}}}}}]}}"#
        )
    };
    let none = r#"MissingEndpoints endpointslices for service/s in "n" have no addresses with port name "https""#;
    for (service, slices, port, expected) in [
        (service, vec![slice(true, "https")], 443, ""),
        (service, vec![slice(false, "https"), slice(true, "https")], 443, ""),
        (service, vec![slice(false, "https"), slice(true, "other")], 443, none),
        (
            service,
            vec![],
            443,
            r#"EndpointsNotFound cannot find endpointslices for service/s in "n""#,
        ),
        (service, vec![], 80, r#"ServicePortError service/s in "n" is not listening on port 80"#),
        (r#"{"spec":{"type":"ExternalName"}}"#, vec![], 443, ""),
    ] {
        let slices = slices.iter().map(|slice| Arc::new(RoutedSlice::read(&value(slice))));
        let slices: Vec<_> = slices.collect();
        let service = RoutedService::read(&value(service));
        let found = missing(&service, &slices, port, r#"service/s in "n""#);
        let found = found.map(|found| format!("{} {}", found.reason, found.message));
        assert_eq!(found.unwrap_or_default(), expected);
    }
}
